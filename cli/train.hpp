// `gradus train CONFIG` and `gradus eval RUN_DIR`.
#pragma once
#include "cli/experiment.hpp"
#include "cli/progress.hpp"
#include "engine/io/layered.hpp"
#include "engine/io/safetensors.hpp"

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::cli {

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

// Of model.safetensors. Those of version 1 carry no checksum; they are read all the same.
constexpr const char* kModelFormat = "gradus.model/2";
Safetensors read_model(const std::string& file, Device& device);  // Error(io)

// Files of a run folder that is looked at again. Error(io) for one that is missing, damaged or says
// what no run says: of its device a config.json may say no more than the name.
Json read_run_config(const std::string& run_dir);
Json read_summary(const std::string& run_dir);
std::vector<Layered::Leaf> read_origins(const std::string& run_dir);
// Its experiment, tested on `data` if that is not "", and its config.json.
Experiment experiment_of(const std::string& run_dir, const std::string& data, Json& config);
// What it is tested on, in the form that it learnt from. Error(io) if its own data is gone, or not
// what it was; `data` is what a person named instead, or "".
Dataset test_data(const Experiment& experiment, const std::string& run_dir,
                  const std::string& data);
const Json* device_of(const Json& config);  // its "device", or null
// Its network: the final one, or that of the newest checkpoint, which is said. Error(io) for a run
// that holds neither.
nn::Sequential load_network(const Experiment& experiment, const Form& form,
                            const std::string& run_dir, Device& device, Reporter& reporter);

// The layers of a config of "network": file, environment, --set. For `gradus config`.
Layered layered_network(const std::string& file, const std::vector<std::string>& set);

}  // namespace gradus::cli
