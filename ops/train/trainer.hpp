// Trainer: a network, its optimiser and its place in the data, step by step. Its whole state can be
// taken out and put back, so that training goes on bit for bit. Knows no files, no screen, no
// clock.
#pragma once
#include "ops/train/batches.hpp"
#include "ops/train/experiment.hpp"
#include "ops/train/score.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/capture/capture.hpp"
#include "ops/audit/judge/health.hpp"

#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace gradus::inline v1::training {

// Over the targets of a set that count, in evaluation mode, in batches of a fixed size.
Score evaluate(nn::Sequential& network, const nn::Loss& loss, const Form& form, const Samples& set,
               Device& device, const EachBatch& each = {});

class Trainer {
 public:
  // `data` must outlive this. Restarts this thread's generator. Throws what load and layers throw.
  Trainer(const Experiment& experiment, const Dataset& data, Device& device);

  // One optimiser step on the next batch of the epoch. Does not wait for the device, unless the
  // config scales the loss: then false says that a gradient was not finite, and that parameters and
  // optimiser are as they were. Error(numeric) when that has happened too often in a row.
  // With `health` the step is looked at (ops/audit/judge/health.hpp): it runs as it is, with the
  // same bits, and waits. REQUIRES !epoch_done().
  bool step(audit::Health* health = nullptr);
  // The forward pass of the step that step() would do, recorded, with its graph and no capture: the
  // same bits. Then the trainer is of no use but to look at, since batch statistics and the
  // generator have moved.
  struct Preview {
    Tensor loss, seed;             // of backward; undefined: 1
    std::vector<int64_t> samples;  // in the training set
  };
  Preview preview();
  // The step whose loss, or whose parameters, an Error(numeric) of this trainer is about; 0: none.
  int64_t failed_step() const { return failed_step_; }
  // The first tensor of the network that is not finite; "" if there is none. Waits.
  std::string first_not_finite();
  bool epoch_done() const { return batch_ == batches_per_epoch_; }
  // Waits and reads the losses of the steps since the last call. Error(numeric) names the first
  // step whose loss is not finite. Called by the trainer itself at times, so that few are kept.
  void read_losses();
  // After the last batch: mean training loss of the epoch, weighted by targets that count. Moves to
  // the next.
  double finish_epoch();
  Score test();

  int64_t epoch() const { return epoch_; }  // from 0
  int64_t batch() const { return batch_; }  // within the epoch
  int64_t steps() const { return steps_; }
  int64_t samples() const { return samples_; }  // trained on, over all steps
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  double last_loss() const { return last_loss_; }    // of the last step that was read
  double first_loss() const { return first_loss_; }  // of the run's first step; NaN: not known
  double learning_rate() const;                      // of the last step
  // The loss scale for the next step, or nullptr if there is none; steps of this epoch without an
  // update.
  const optim::LossScale* loss_scale() const { return scale_ ? &*scale_ : nullptr; }
  int64_t skipped() const { return skipped_; }
  nn::Sequential& network() { return network_; }
  const Dataset& data() const { return data_; }
  // Why steps run as they are instead of being replayed; "" if they are replayed, or will be.
  const std::string& why_not_captured() const {
    return steps_by_shape_.why_not().empty() ? updates_by_shape_.why_not()
                                             : steps_by_shape_.why_not();
  }
  int64_t replays() const { return steps_by_shape_.replays(); }

  // The state: the network's as "model.*", the optimiser's as "optimizer.*", the rest as text.
  // Waits; Error(numeric) if a tensor of the network is not finite, so that no broken state is ever
  // saved.
  NamedTensors tensors();
  Metadata numbers() const;
  // Error(io) that begins with `source` for a state of another network or other data.
  void restore(const Safetensors& state, const std::string& source);

 private:
  const Batches::Batch& begin_step();
  Tensor loss_of(const Batches::Batch& batch);
  Tensor gradients(const Batches::Batch& batch, audit::Health* health);
  void update(audit::Health* health);
  Tensor whole_step(const Batches::Batch& batch, double lr, audit::Health* health);
  Tensor scaled_step(const Batches::Batch& batch, double lr, bool& finite, audit::Health* health);
  Tensors run(CaptureCache& cache, const Batches::Batch& batch, const audit::Health* health,
              const std::function<Tensors()>& work);
  void keep_loss(const Tensor& loss, int64_t counted);
  std::span<const int64_t> indices(int64_t batch) const;  // of this epoch

  Experiment experiment_;
  const Dataset& data_;
  Device& device_;
  Batches batches_;
  nn::Sequential network_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  nn::NamedTensors parameters_;
  int64_t batches_per_epoch_;
  std::vector<int64_t> order_;  // of the epoch
  int64_t epoch_ = 0, batch_ = 0, steps_ = 0, samples_ = 0;

  std::optional<optim::LossScale> scale_;
  int64_t skipped_ = 0;   // steps of this epoch without an update ...
  int64_t left_out_ = 0;  // ... and labels of those whose very loss was not finite

  // By the size of the batch: full ones, and the last of an epoch. A scaled step is in two parts,
  // since the host looks at the gradients before the update.
  CaptureCache steps_by_shape_, updates_by_shape_;
  Tensor window_;                   // losses of the last steps, on the device
  std::vector<int64_t> in_window_;  // their targets that count
  double loss_sum_ = 0;             // over the targets of this epoch, as far as read
  double last_loss_ = 0, first_loss_ = std::numeric_limits<double>::quiet_NaN();
  int64_t failed_step_ = 0;
};

}  // namespace gradus::training
