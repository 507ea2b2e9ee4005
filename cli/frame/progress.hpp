// What people and programs see of a run: events as JSON lines, the same as text, and a progress bar
// on a terminal. Events go to `out` with json, people's text to `err`; without json the result is
// text on `out`. Knows the words of the events, not how their numbers come about.
#pragma once
#include "cli/frame/score.hpp"

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

namespace gradus::inline v1::cli {

struct StartEvent {
  std::string device, run_dir;
  int64_t parameters = 0, train = 0, test = 0, epochs = 0, steps_per_epoch = 0;
  int64_t resumed_at = -1;  // step; -1: from the beginning
  std::string experiment = "network";
};
struct StepEvent {
  int64_t epoch = 0, step = 0;
  double train_loss = 0, lr = 0;  // of this one step
};
struct SkipEvent {  // a step without an update: a gradient overflowed
  int64_t epoch = 0, step = 0;
  double loss_scale = 0;  // of this step
};
struct EpochEvent {
  int64_t epoch = 0, epochs = 0, step = 0;
  double train_loss = 0;  // mean over the epoch
  Score score;            // on the test set
  double lr = 0, seconds = 0, samples_per_second = 0;
  int64_t skipped = -1;   // steps of the epoch; -1: the loss is not scaled
  double loss_scale = 0;  // at its end
};
struct ResultEvent {
  Score score;  // on the test set
  int64_t steps = 0;
  double seconds = 0, samples_per_second = 0;
  std::string device, run_dir;
};
// One JSON object without a line end, keys in the documented order.
std::string to_json(const StartEvent& e);
std::string to_json(const StepEvent& e);
std::string to_json(const SkipEvent& e);
std::string to_json(const EpochEvent& e);
std::string to_json(const ResultEvent& e);

// A line that is redrawn in place, at most ten times a second, on a terminal only.
class ProgressBar {
 public:
  explicit ProgressBar(std::ostream& to);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  bool shown() const { return terminal_ >= 0; }
  void draw(const std::string& title, int64_t done, int64_t total, double per_second,
            const std::string& unit, double seconds_left, const std::string& values = "");
  void clear();

 private:
  std::ostream& to_;
  int terminal_;  // its descriptor, or -1
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// A bar for work that says how far it is; it appears when that takes a while.
class Progress {
 public:
  // `unit`: of what is counted, in the plural.
  Progress(std::ostream& to, std::string title, std::string unit);
  void operator()(int64_t done, int64_t total, const std::string& values = "");
  void clear() { bar_.clear(); }

 private:
  ProgressBar bar_;
  std::string title_, unit_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Reporter {
 public:
  Reporter(std::ostream& out, std::ostream& err, bool json)
      : out_(out), err_(err), json_(json), bar_(err) {}
  void notice(const std::string& line);  // one line for people
  void start(const StartEvent& e);
  void step(const StepEvent& e);
  void skip(const SkipEvent& e);
  void epoch(const EpochEvent& e);
  void result(const ResultEvent& e);
  // A line of JSON as it stands; nothing without json.
  void json_line(const std::string& line);
  bool json() const { return json_; }
  std::ostream& people() { return err_; }
  bool draws() const { return bar_.shown(); }  // whether progress() shows anything
  // The bar, with numbers of this session; free of cost where there is no terminal.
  void progress(int64_t epoch, int64_t epochs, int64_t batch, int64_t batches,
                double samples_per_second, double seconds_left);

 private:
  std::ostream& out_;
  std::ostream& err_;
  bool json_;
  ProgressBar bar_;
};

std::string short_number(double x);    // four digits: "0.1234", "41.2k", "3.10M"
std::string loss_text(double x);       // "0.0202", "12.35", "1235", "8.1e14", "3.2e-6"
std::string duration(double seconds);  // "4.2 s", "3:07 min", "1:02:03 h"

}  // namespace gradus::cli
