// The loop around a trainer: epochs, events, clocks, checkpoints, Ctrl-C. A run folder is optional
// (the demo has none). Knows when things happen; what a step is, only the trainer knows.
#pragma once
#include "cli/frame/progress.hpp"
#include "cli/runs/run_folder.hpp"
#include "ops/train/trainer.hpp"
#include "cli/train/trouble.hpp"

#include <set>

namespace gradus::inline v1::cli {

using namespace training;

class TrainLoop {
 public:
  // All must outlive this; `folder` may be nullptr.
  TrainLoop(Trainer& trainer, const Experiment& experiment, Device& device, Reporter& reporter,
            RunFolder* folder);

  // Takes up a checkpoint: restores the trainer and the clocks, cuts metrics.jsonl back, and says
  // in one line if it was written by another build or instruction set.
  void restore(const RunFolder::Checkpoint& checkpoint);
  // Trains to the last epoch. Error(interrupted) after a SIGINT, with everything saved;
  // Error(numeric) for a loss that is not finite, and says which checkpoint is kept.
  ResultEvent run();

 private:
  using Clock = std::chrono::steady_clock;
  void train_epoch();
  void end_epoch();
  void say_skipped(double scale);
  void say_trouble(const EpochEvent& e);
  void say_health(const audit::Health& health);
  void after_step();
  void save();
  void pause();
  double seconds() const;
  double samples_per_second() const;

  Trainer& trainer_;
  const Experiment& experiment_;
  Device& device_;
  Reporter& reporter_;
  RunFolder* folder_;
  Clock::time_point begin_ = Clock::now();
  double seconds_before_ = 0;      // of earlier sessions of this run
  std::string metrics_damaged_{};  // the step before which metrics.jsonl was damaged, if it was
  double step_seconds_ = 0;        // spent in steps, up to the last pause
  Clock::time_point going_since_{};
  bool going_ = false;
  bool said_why_ = false;      // that steps are not captured
  bool said_skipped_ = false;  // that a step was skipped
  bool said_trouble_ = false;
  int64_t log_every_;
  Guessing guess_;
  std::set<std::string> said_signs_;
  int64_t saved_step_ = -1;
  std::optional<Score> score_;  // of the last epoch, while the parameters are still those
};

}  // namespace gradus::cli
