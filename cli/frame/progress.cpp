// Events in words and in JSON, and the bar.
#include "cli/frame/events.hpp"
#include "cli/frame/progress.hpp"
#include "cli/frame/terminal.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

template <class... A>
std::string text(const char* format, A... args) {
  char buffer[200];
  snprintf(buffer, sizeof buffer, format, args...);
  return buffer;
}

constexpr double kPatience = 0.5;  // seconds before a bar is worth its flicker

}  // namespace

std::string short_number(double x) {
  const double a = std::abs(x);
  if (a >= 1e9) return text("%.3gG", x / 1e9);
  if (a >= 1e6) return text("%.3gM", x / 1e6);
  if (a >= 1e4) return text("%.3gk", x / 1e3);
  if (a >= 100) return text("%.0f", x);
  return text("%.4g", x);
}

std::string loss_text(double x) {
  const double a = std::abs(x);
  if (!std::isfinite(x)) return text("%g", x);
  if (a == 0 || (a >= 1e-3 && a < 10)) return text("%.4f", x);
  if (a >= 10 && a < 1e5) return text("%.*f", a < 100 ? 2 : a < 1000 ? 1 : 0, x);
  const std::string scientific = text("%.1e", x);
  const size_t e = scientific.find('e');
  return scientific.substr(0, e + 1) + join(std::stoi(scientific.substr(e + 1)));
}

std::string duration(double seconds) {
  if (seconds < 60) return text("%.1f s", seconds);
  const long s = std::lround(seconds);
  if (s < 3600) return text("%ld:%02ld min", s / 60, s % 60);
  return text("%ld:%02ld:%02ld h", s / 3600, s / 60 % 60, s % 60);
}

std::string to_json(const StartEvent& e) {
  Event j{
      {"event", "start"},     {"experiment", e.experiment}, {"device", e.device},
      {"run_dir", e.run_dir}, {"parameters", e.parameters}, {"train", e.train},
      {"test", e.test},       {"epochs", e.epochs},         {"steps_per_epoch", e.steps_per_epoch}};
  if (e.resumed_at >= 0) j["resumed_at"] = e.resumed_at;
  return j.dump();
}
std::string to_json(const StepEvent& e) {
  return Event{{"event", "step"},
               {"epoch", e.epoch},
               {"step", e.step},
               {"train_loss", e.train_loss},
               {"lr", e.lr}}
      .dump();
}
std::string to_json(const SkipEvent& e) {
  return Event{
      {"event", "skip"}, {"epoch", e.epoch}, {"step", e.step}, {"loss_scale", e.loss_scale}}
      .dump();
}
std::string to_json(const EpochEvent& e) {
  Event j{{"event", "epoch"}, {"epoch", e.epoch}, {"step", e.step}};
  add_to(j, e.score);
  j["train_loss"] = e.train_loss;
  j["lr"] = e.lr;
  j["seconds"] = e.seconds;
  j["samples_per_second"] = e.samples_per_second;
  if (e.skipped >= 0) {
    j["skipped"] = e.skipped;
    j["loss_scale"] = e.loss_scale;
  }
  return j.dump();
}
std::string to_json(const ResultEvent& e) {
  Event j{{"event", "result"}};
  add_to(j, e.score);
  j["steps"] = e.steps;
  j["seconds"] = e.seconds;
  j["samples_per_second"] = e.samples_per_second;
  j["device"] = e.device;
  j["run_dir"] = e.run_dir;
  return j.dump();
}

ProgressBar::ProgressBar(std::ostream& to)
    : to_(to), terminal_(redraws(terminal_of(to)) ? terminal_of(to) : -1) {}

void ProgressBar::draw(const std::string& title, int64_t done, int64_t total, double per_second,
                       const std::string& unit, double seconds_left, const std::string& values) {
  if (!shown()) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const std::string tail = text(" %3.0f %%  %s %s/s, %s left", 100.0 * double(done) / double(total),
                                short_number(per_second).c_str(), unit.c_str(),
                                duration(std::max(seconds_left, 0.0)).c_str()) +
                           (values.empty() ? "" : "  ") + values;
  const size_t columns = terminal_columns(terminal_), taken = title.size() + tail.size() + 4;
  const size_t width = columns > taken ? std::min<size_t>(columns - taken, 40) : 0;
  const auto full = size_t(double(width) * double(done) / double(total));
  to_ << "\r" << title.substr(0, columns - 1);
  if (width >= 8) to_ << " " << good(std::string(full, '#')) << std::string(width - full, '.');
  if (title.size() < columns) to_ << tail.substr(0, columns - 1 - title.size());
  to_ << "\033[K" << std::flush;
}

void ProgressBar::clear() {
  if (drawn_) to_ << "\r\033[K" << std::flush;
  drawn_ = false;
}

Progress::Progress(std::ostream& to, std::string title, std::string unit)
    : bar_(to), title_(std::move(title)), unit_(std::move(unit)) {}

void Progress::operator()(int64_t done, int64_t total, const std::string& values) {
  const double past =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (past < kPatience || done <= 0 || done >= total) return;
  const double rate = double(done) / past;
  bar_.draw(title_, done, total, rate, unit_, double(total - done) / rate, values);
}

void Reporter::notice(const std::string& line) {
  bar_.clear();
  write_notice(err_, printable(line));
}

void Reporter::json_line(const std::string& line) {
  if (!json_) return;
  bar_.clear();
  out_ << line << std::endl;
}

void Reporter::start(const StartEvent& e) {
  json_line(to_json(e));
  notice(join(e.resumed_at >= 0 ? join("going on at step ", e.resumed_at) : std::string("training"),
              " on ", e.device, ": ", short_number(double(e.parameters)), " parameters, ", e.train,
              " samples, ", e.steps_per_epoch, " steps per epoch",
              e.run_dir.empty() ? "" : "; run folder ", e.run_dir));
}

void Reporter::step(const StepEvent& e) { json_line(to_json(e)); }

void Reporter::skip(const SkipEvent& e) { json_line(to_json(e)); }

void Reporter::epoch(const EpochEvent& e) {
  json_line(to_json(e));
  notice(join("epoch ", e.epoch, "/", e.epochs, "  train loss ", loss_text(e.train_loss),
              "  test loss ", loss_text(e.score.loss), "  ", text_of(e.score), "  ",
              short_number(e.samples_per_second), " samples/s") +
         (e.skipped > 0 ? join("  ", e.skipped, " skipped") : std::string()));
}

void Reporter::result(const ResultEvent& e) {
  bar_.clear();
  if (json_) {
    out_ << to_json(e) << std::endl;
    return;
  }
  out_ << text_of(e.score) << ", loss " << loss_text(e.score.loss) << " on the test set after "
       << e.steps << " steps in " << duration(e.seconds) << " ("
       << short_number(e.samples_per_second) << " samples/s on " << printable(e.device) << ")\n";
  if (!e.run_dir.empty()) out_ << "saved in " << printable(e.run_dir) << "\n";
  out_ << std::flush;
}

void Reporter::progress(int64_t epoch, int64_t epochs, int64_t batch, int64_t batches,
                        double samples_per_second, double seconds_left) {
  if (draws())
    bar_.draw(join("epoch ", epoch, "/", epochs), batch, batches, samples_per_second, "samples",
              seconds_left);
}

}  // namespace gradus::cli
