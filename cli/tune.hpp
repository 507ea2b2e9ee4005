// `gradus tune CONFIG`: runs a step of an experiment, measures every way in which the device can do
// each of its contractions, and keeps the fastest in the tuning file.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct TuneOptions {
  std::string config;            // file of an experiment
  std::vector<std::string> set;  // "path=value"; for "network"
  std::string device;
  std::string file;   // where the ways are kept; "" for the default file
  std::string cost;   // instead of all that: file for what a step of a contraction costs
  std::string dtype;  // of `cost`; "" is f32
  bool json = false;
};

// The exit code. Throws Error; numeric when a way gives other numbers than the device's own choice,
// after the others were kept.
int run_tune(const TuneOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
