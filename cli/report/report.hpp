// What a training run shows for itself: curves.svg and report.html in its folder, and `gradus
// report RUN_DIR`, which makes them anew. Both are read from the folder (metrics.jsonl,
// config.json, origins.json, summary.json), so those of a run that was interrupted and went on are
// whole; what the network says of the test set comes from the network itself.
#pragma once
#include "ops/train/batches.hpp"
#include "ops/train/experiment.hpp"
#include "cli/frame/progress.hpp"
#include "ops/nn/module.hpp"

#include <iosfwd>

namespace gradus::inline v1::cli {

using namespace training;

// What a network says of each target of a set.
struct Predictions {
  std::vector<int32_t> said;    // a class; kNoLabel where the label does not count
  std::vector<float> sure;      // its probability; empty where the loss knows none
  std::vector<double> numbers;  // where numbers are told, in their own units; `said` is empty
};
// In evaluation mode, in batches of a fixed size; leaves the network in training mode.
Predictions predict(nn::Sequential& network, const nn::Loss& loss, const Form& form,
                    const Samples& set, Device& device, const EachBatch& each = {});

// The test set and what was said of it; without predictions a line that says why.
struct ReportData {
  const Dataset* data = nullptr;
  Predictions test{};
  std::string why_none{};  // no predictions: "the run is not finished"
  std::string device{};    // see text_of
};
// A device in words: its name, instruction set and build.
std::string text_of(Device& device);

struct ReportFiles {
  std::string curves, page;
};
// Writes both into the folder, whole or not at all. Error(io) for files that can't be read or
// written, or that are none of a run.
ReportFiles write_report(const std::string& run_dir, const ReportData& data);
// Makes the report of a run whose process is gone. Without data or a model it goes without
// predictions and says so, if `named` is "": what the run itself named may be gone.
ReportFiles report_again(const std::string& run_dir, const Experiment& experiment,
                         const std::string& named, Device& device, Reporter& reporter);
// {"event": "report", ...}
std::string to_json(const ReportFiles& files);

struct ReportOptions {
  std::string run_dir;
  std::string data;  // as in EvalOptions
  std::string device;
  bool json = false;
};
// The exit code. Where data or a model are missing, the report goes without predictions and says
// so.
int run_report(const ReportOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
