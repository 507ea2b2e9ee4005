// Training runs for tests: their events, their metrics, and an interrupt at a given place.
#pragma once
#include "cli/train.hpp"
#include "engine/io/file.hpp"
#include "io_helpers.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gradus::test {

struct Run {
  std::string out, err;
  std::vector<Json> events;
};

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
