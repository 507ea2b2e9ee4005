// `gradus predict RUN INPUT...`: what a run's network says of new samples.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct PredictOptions {
  std::string run_dir;
  std::vector<std::string> inputs;  // .npy, .npz, .csv, .png, or typed numbers
  std::string out;                  // a .npy for all of them; "" for none
  std::string device;
  bool json = false;
};
// The exit code, 0. Throws Error.
int run_predict(const PredictOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
