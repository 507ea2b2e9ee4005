// Epochs, events and checkpoints.
#include "cli/train/train_loop.hpp"

#include "cli/frame/devices.hpp"
#include "cli/train/health.hpp"
#include "cli/frame/interrupt.hpp"
#include "cli/train/provenance.hpp"
#include "engine/files/file.hpp"
#include "engine/config/options.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

double since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

// What bits depend on: instruction set, build, libraries.
std::string maker(Device& device) {
  const gd_info info = device.info();
  return join(device.kind(), info.arch[0] ? " " : "", info.arch, ", ", device.table().build,
              libraries_of(device));
}

std::string entry(const Metadata& m, const char* key) {
  const auto it = m.find(key);
  return it == m.end() ? std::string() : it->second;
}

// An entry of the metadata that is a number, 0 or more.
template <class T>
T number(const RunFolder::Checkpoint& c, const char* key) {
  const std::string text = entry(c.state.metadata, key);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
    fail(ErrorKind::io, c.file, key, ": expected a number, got ", shown(text));
  return value;
}

}  // namespace

TrainLoop::TrainLoop(Trainer& trainer, const Experiment& experiment, Device& device,
                     Reporter& reporter, RunFolder* folder)
    : trainer_(trainer),
      experiment_(experiment),
      device_(device),
      reporter_(reporter),
      folder_(folder),
      // Enough points for a curve, and few enough that waiting for their losses costs nothing.
      log_every_(experiment.log_every >= 0
                     ? experiment.log_every
                     : std::clamp<int64_t>(trainer.batches_per_epoch() / 10, 10, 100)),
      guess_(guessing(trainer.data(), experiment.loss)) {}

double TrainLoop::seconds() const { return seconds_before_ + since(begin_); }

double TrainLoop::samples_per_second() const {
  const double s = step_seconds_ + (going_ ? since(going_since_) : 0);
  return s > 0 ? double(trainer_.samples()) / s : 0;
}

// Stops the clock of the steps, after the device has done them.
void TrainLoop::pause() {
  trainer_.read_losses();
  if (going_) step_seconds_ += since(going_since_);
  going_ = false;
}

void TrainLoop::restore(const RunFolder::Checkpoint& checkpoint) {
  const Metadata& m = checkpoint.state.metadata;
  trainer_.restore(checkpoint.state, checkpoint.file);
  if (trainer_.epoch() > experiment_.epochs)
    fail(ErrorKind::config, "epochs", "the run has trained for ", trainer_.epoch(),
         " epochs already, ", experiment_.epochs, " were asked for");
  metrics_damaged_ = entry(m, "metrics_damaged");
  const bool shorter = !folder_->cut_metrics(number<int64_t>(checkpoint, "metrics_bytes"));
  if (shorter || crc32_text(folder_->metrics_crc()) != entry(m, "metrics_crc32")) {
    if (metrics_damaged_.empty()) metrics_damaged_ = join(trainer_.steps());
    reporter_.notice(join("gradus: metrics.jsonl is ", shorter ? "shorter than" : "not what",
                          " it was at the checkpoint; ",
                          shorter ? "lines are missing" : "curves may be wrong"));
  }
  seconds_before_ = number<double>(checkpoint, "seconds");
  step_seconds_ = number<double>(checkpoint, "step_seconds");
  saved_step_ = trainer_.steps();
  const std::string now = maker(device_), then = entry(m, "maker");
  if (now != then)
    reporter_.notice(join("gradus: the checkpoint was written on ", then, "; this is ", now,
                          ": the last bits may differ from an uninterrupted run"));
}

void TrainLoop::save() {
  if (!folder_) return;
  pause();
  const NamedTensors tensors = trainer_.tensors();
  Metadata m = trainer_.numbers();
  m["metrics_bytes"] = join(folder_->metrics_bytes());
  m["metrics_crc32"] = crc32_text(folder_->metrics_crc());
  if (!metrics_damaged_.empty()) m["metrics_damaged"] = metrics_damaged_;
  m["seconds"] = join(seconds());
  m["step_seconds"] = join(step_seconds_);
  m["maker"] = maker(device_);
  folder_->save_checkpoint(trainer_.steps(), tensors, m);
  saved_step_ = trainer_.steps();
}

void TrainLoop::after_step() {
  const int64_t step = trainer_.steps();
  if (log_every_ > 0 && step % log_every_ == 0) {
    trainer_.read_losses();
    const StepEvent e{trainer_.epoch() + 1, step, trainer_.last_loss(), trainer_.learning_rate()};
    reporter_.step(e);
    if (folder_) folder_->append_metrics(to_json(e));
  }
  if (reporter_.draws()) {
    const double rate = samples_per_second();
    const double share = double(step) / double(experiment_.epochs * trainer_.batches_per_epoch());
    const double left = rate > 0 ? double(trainer_.samples()) / rate * (1 / share - 1) : 0;
    reporter_.progress(trainer_.epoch() + 1, experiment_.epochs, trainer_.batch(),
                       trainer_.batches_per_epoch(), rate, left);
  }
  const bool stop = InterruptScope::interrupted();
  if (stop || (experiment_.checkpoint_every > 0 && step % experiment_.checkpoint_every == 0))
    save();
  if (stop)
    fail(ErrorKind::interrupted, "train", "interrupted after step ", step,
         folder_ ? join("; saved, go on with --resume --out ", folder_->path()) : std::string());
}

// An overflow at this loss scale: an event for each, a line for people for the first.
void TrainLoop::say_skipped(double scale) {
  const SkipEvent e{trainer_.epoch() + 1, trainer_.steps(), scale};
  reporter_.skip(e);
  if (folder_) folder_->append_metrics(to_json(e));
  if (said_skipped_) return;
  said_skipped_ = true;
  const double now = trainer_.loss_scale()->state().scale;
  reporter_.notice(join("gradus: step ", e.step, " is skipped: a gradient is not finite at loss ",
                        "scale ", scale, now < scale ? join(", which is now ", now) : std::string(),
                        "; an epoch's line counts the others"));
}

// Once in a process: what follows from a loss that is lost is no news.
void TrainLoop::say_trouble(const EpochEvent& e) {
  if (said_trouble_) return;
  const auto found = trouble({e.epoch, e.step, e.epoch == e.epochs, trainer_.first_loss(),
                              e.train_loss, e.score, e.lr, experiment_.clip_norm > 0},
                             guess_);
  if (!found) return;
  said_trouble_ = true;
  reporter_.notice("gradus: " + found->message);
  const std::string line = nlohmann::ordered_json{
      {"event", "trouble"},
      {"kind", found->kind},
      {"epoch", e.epoch},
      {"step", e.step},
      {"message",
       found->message}}.dump();
  reporter_.json_line(line);
  if (folder_) folder_->append_metrics(line);
}

// An event for each look; a line for people when a sign is seen for the first time.
void TrainLoop::say_health(const audit::Health& health) {
  nlohmann::ordered_json e{
      {"event", "health"}, {"epoch", trainer_.epoch() + 1}, {"step", trainer_.steps()}};
  e.update(health_event(health));
  const std::string line = e.dump();
  reporter_.json_line(line);
  if (folder_) folder_->append_metrics(line);
  for (const Sign& s : signs_of(health))
    if (said_signs_.insert(s.what).second)
      reporter_.notice(join("gradus: step ", trainer_.steps(), ": ", s.what,
                            s.numbers.empty() ? "" : " (" + s.numbers + ")"));
}

void TrainLoop::train_epoch() {
  while (!trainer_.epoch_done()) {
    if (!going_) {
      going_ = true;
      going_since_ = Clock::now();
    }
    const double scale = trainer_.loss_scale() ? trainer_.loss_scale()->state().scale : 1;
    const bool looked = experiment_.health > 0 && trainer_.steps() % experiment_.health == 0;
    audit::Health health;
    if (!trainer_.step(looked ? &health : nullptr)) say_skipped(scale);
    if (looked) say_health(health);
    if (!said_why_ && !trainer_.why_not_captured().empty()) {
      said_why_ = true;
      reporter_.notice("gradus: steps are not captured: " + trainer_.why_not_captured());
    }
    after_step();
  }
  end_epoch();
}

void TrainLoop::end_epoch() {
  pause();
  EpochEvent e;
  if (trainer_.loss_scale()) {
    e.skipped = trainer_.skipped();
    e.loss_scale = trainer_.loss_scale()->state().scale;
  }
  e.train_loss = trainer_.finish_epoch();
  score_ = trainer_.test();
  e.epoch = trainer_.epoch();
  e.epochs = experiment_.epochs;
  e.step = trainer_.steps();
  e.score = *score_;
  e.lr = trainer_.learning_rate();
  e.seconds = seconds();
  e.samples_per_second = samples_per_second();
  reporter_.epoch(e);
  if (folder_) folder_->append_metrics(to_json(e));
  say_trouble(e);
  if (experiment_.checkpoint_every == 0 || trainer_.epoch() == experiment_.epochs) save();
}

ResultEvent TrainLoop::run() {
  const InterruptScope interrupts;
  begin_ = Clock::now();
  try {
    while (trainer_.epoch() < experiment_.epochs) train_epoch();
    if (!score_) score_ = trainer_.test();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::numeric || !folder_) throw;
    if (experiment_.provenance && trainer_.failed_step() > 0)
      explain_not_finite(experiment_, trainer_.data(), device_, trainer_.failed_step(), *folder_,
                         reporter_);
    fail(ErrorKind::numeric, e.op(), e.message(), "; ",
         saved_step_ >= 0
             ? join("the checkpoint of step ", saved_step_, " is kept in ", folder_->path())
             : join("no checkpoint had been saved in ", folder_->path()));
  }
  return {*score_,        trainer_.steps(),
          seconds(),      samples_per_second(),
          device_.name(), folder_ ? folder_->path() : std::string()};
}

}  // namespace gradus::cli
