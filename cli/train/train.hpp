// `gradus train CONFIG` and `gradus eval RUN_DIR`.
#pragma once
#include "engine/device/device.hpp"

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct TrainOptions {
  std::string config;            // file of an experiment "network"
  std::vector<std::string> set;  // "path=value"
  std::string device;            // as typed; "" if not given
  std::string out;               // run folder; "" for runs/NAME-N
  bool resume = false;
  bool ledger = false;  // print what every op cost
  bool json = false;
  std::function<void(Device&)> opened{};  // told of the device before anything is made on it
};
// The exit code, 0. Throws Error.
int run_train(const TrainOptions& options, std::ostream& out, std::ostream& err);

struct EvalOptions {
  std::string run_dir;
  std::string data;  // other data to test on (see tested_on); "" for the run's own
  std::string device;
  bool json = false;
};
int run_eval(const EvalOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
