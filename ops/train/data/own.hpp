// Data sets of the user's own: arrays (.npy, .npz), tables (.csv) and folders of images (.png).
// Read whole, split into training and test samples, and brought into the form that a network learns
// from.
#pragma once
#include "ops/train/data/dataset.hpp"
#include "ops/train/data/raw.hpp"
#include "engine/tensor.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::training {

// A column of a table, by name or from 1.
struct Column {
  std::string name;
  int64_t number = 0;
};

struct OwnData {
  enum class Format { none, npz, npy, csv, png };
  struct Files {
    std::string file;  // of a .npy: that of the inputs; of images a folder
    std::string x, y;  // of a .npz the names of its arrays; of a .npy y is the file of the targets
  };
  Format format = Format::none;
  Files all;                  // or those to train on, if there is `test`
  std::optional<Files> test;  // else a share of all
  bool test_only = false;     // what is trained on is not read
  double test_share = 0.2;
  uint64_t seed = 0;            // of the split
  Column target;                // of a table
  std::vector<Column> ignored;  // of a table
  std::optional<bool> header;   // of a table; none: found out
  std::string task;             // "classify", "regress", or "": by what the targets are
  std::string inputs;           // "numbers", "pixels", "tokens", or "": by what the arrays are
  bool standardize = true;

  bool any() const { return format != Format::none; }
};

// Was gradus built with the library that reads it?
bool reads(OwnData::Format format);

// `kept`: the form of a run, which the samples are brought into. Error(io) for what can't be read,
// with its place; Error(config) for what does not fit together.
Dataset load_own(const OwnData& config, const Form* kept);

// Files and folders that it reads.
std::vector<std::string> files_of(const OwnData& config);
std::vector<std::string> folders_of(const OwnData& config);

// Samples of a file in the form of a run; without what they tell, if that is not there.
Samples load_inputs(const std::string& file, const OwnData& config, const Form& form);

// ---- the readers

// `like`: the form that is wanted, or nullptr.
Raw read_arrays(const OwnData& config, const OwnData::Files& files, const Form* like);
Raw read_csv(const OwnData& config, const std::string& file, const Form* like, bool target = true);
Raw read_images(const std::string& folder, const Form* like);
// Inputs alone.
Raw raw_of(const Tensor& x, const std::string& name, const std::string& wanted, const Form* like);
// One sample or a batch, in the sizes of the form or each as one row.
Raw raw_of_tensor(const Tensor& x, const std::string& name, const Form& form);
Raw raw_of_image(const std::string& file, const Form& like);

// ---- from what they give to samples

Form form_of(const Raw& train, const Raw* test, const std::vector<int64_t>& trained_on,
             const OwnData& config);
Samples samples_of(const Raw& raw, const Form& form, const std::vector<int64_t>& which);

}  // namespace gradus::training
