// What a config says of its data: the option table of "data" and the values behind it.
#pragma once
#include "ops/train/data/own.hpp"
#include "engine/config/options.hpp"

namespace gradus::inline v1::training {

struct DataConfig {
  std::string idx;                  // folder of IDX files; "" for a set of that name, or an own one
  std::string name;                 // "digits" or "copy"
  int64_t train = 0, test = 0;      // samples; of idx the first ones, 0 for all
  uint64_t seed = 0;                // of a generated set
  int64_t symbols = 0, length = 0;  // of copy
  OwnData own;

  // Is it made by the program?
  bool drawn() const { return idx.empty() && !own.any(); }
};

Spec data_spec();
DataConfig read_data(const Json& data);  // of a value that data_spec() has checked

// Instead of the test set, what a person names beside a run: a folder of IDX files, or what is of
// the same format as the run's own data (of arrays "X.npy,Y.npy"). Error(config) for what is not.
DataConfig tested_on(const DataConfig& config, const std::string& named);

// Reads or makes the data, in the form of a run if that is `kept`. Error(io) for files that do not
// fit.
Dataset load_data(const DataConfig& config, const Form* kept = nullptr);
// So much of it as tells its form.
Dataset probe_data(const DataConfig& config);

}  // namespace gradus::training
