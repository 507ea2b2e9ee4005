// Files of a run folder, by the names they have there, read by whoever looks at a run again and
// written when it begins and ends. What a file says is believed as far as its kind allows.
#pragma once
#include "ops/train/experiment.hpp"
#include "cli/frame/progress.hpp"
#include "cli/runs/run_folder.hpp"
#include "engine/config/layered.hpp"
#include "engine/files/safetensors.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::cli {

using namespace training;

constexpr const char* kConfig = "config.json";
constexpr const char* kOrigins = "origins.json";
constexpr const char* kSummary = "summary.json";
constexpr const char* kModel = "model.safetensors";

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

// Says of each checkpoint that can't be read that an older one is used.
void say_unreadable(const std::vector<std::string>& reasons, Reporter& reporter);

void write_origins(const RunFolder& folder, const Layered& layers);
// {"epochs", "result"} with its checksum.
void write_summary(const RunFolder& folder, int64_t epochs, const ResultEvent& result);

// The layers of a config of "network": file, environment, --set. For `gradus config`.
Layered layered_network(const std::string& file, const std::vector<std::string>& set);

}  // namespace gradus::cli
