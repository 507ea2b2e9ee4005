// Training runs for tests: their events, their metrics, and an interrupt at a given place.
#pragma once
#include "cli/runs/run_files.hpp"
#include "cli/train/train.hpp"
#include "engine/files/file.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gradus::inline v1::test {

struct Run {
  std::string out, err;
  std::vector<Json> events;
};

// A run of this config on the CPU, its events as JSON, in a folder of its own. Under sanitizers
// without a report, unless `set` asks for one.
inline cli::TrainOptions train_options(const TempFolder& folder, const std::string& config,
                                       const std::string& run = "run",
                                       std::vector<std::string> set = {}) {
  cli::TrainOptions o;
  o.config = folder.write("config.json", config);
  o.set = std::move(set);
  if (small_sizes()) o.set.insert(o.set.begin(), "report=false");
  o.device = "cpu";
  o.out = folder / run;
  o.json = true;
  return o;
}

inline Run train(const cli::TrainOptions& options) {
  std::ostringstream out, err;
  const int code = cli::run_train(options, out, err);
  CHECK(code == 0);
  Run run{out.str(), err.str(), {}};
  std::istringstream lines(run.out);
  for (std::string line; options.json && std::getline(lines, line);)
    run.events.push_back(Json::parse(line));
  return run;
}

inline std::vector<Json> events(const Run& run, const char* kind) {
  std::vector<Json> out;
  for (const Json& e : run.events)
    if (e["event"] == kind) out.push_back(e);
  return out;
}

// What `gradus eval` says of a run.
inline Json evaluate(const std::string& run_dir) {
  cli::EvalOptions e;
  e.run_dir = run_dir;
  e.device = "cpu";
  e.json = true;
  std::ostringstream out, err;
  CHECK(cli::run_eval(e, out, err) == 0);
  return Json::parse(out.str());
}

// Is the training loss of the last epoch below that of the first?
inline bool falls(const Run& run) {
  std::vector<double> losses;
  for (const Json& e : run.events)
    if (e["event"] == "epoch") losses.push_back(e["train_loss"].get<double>());
  return losses.size() > 1 && losses.back() < losses.front();
}

inline std::string train_error(ErrorKind kind, const cli::TrainOptions& options) {
  return error_text(kind, [&] {
    std::ostringstream out, err;
    cli::run_train(options, out, err);
  });
}

// metrics.jsonl without what the clock says.
inline std::vector<std::string> metrics(const std::string& run) {
  std::vector<std::string> out;
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json j = Json::parse(line);
    j.erase("seconds");
    j.erase("samples_per_second");
    out.push_back(j.dump());
  }
  return out;
}

// Sends SIGINT to this very program when a text comes by.
class InterruptAt : public std::stringbuf {
 public:
  explicit InterruptAt(std::string text) : text_(std::move(text)) {}

 protected:
  int sync() override {
    if (!sent_ && str().find(text_) != std::string::npos) {
      sent_ = true;
      std::raise(SIGINT);
    }
    return 0;
  }

 private:
  std::string text_;
  bool sent_ = false;
};

}  // namespace gradus::test
