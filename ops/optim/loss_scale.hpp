// Loss scaling, for training in 16 bits (Micikevicius et al., "Mixed precision training", ICLR
// 2018): backward begins with a factor, the scale, so that small gradients do not become 0 on their
// way; the optimiser takes it out again. A gradient that is not finite was scaled too much: the
// step is left out, and the scale, if it is dynamic, becomes smaller.
//
//   backward({loss}, {scale.seed(loss)});
//   if (scale.update(largest_gradient(parameters))) optimizer.step(lr, scale.gain());
//
// The scale lies in a step block, so that a recorded step is replayed with the scale of its time.
#pragma once
#include "ops/optim/step_block.hpp"
#include "ops/nn/module.hpp"

namespace gradus::inline v1::optim {

class LossScale {
 public:
  // The numbers are those of PyTorch's GradScaler.
  struct Rule {
    double scale = 65536;  // a fixed one, or where a dynamic one begins
    bool dynamic = true;
    double growth = 2, backoff = 0.5;
    int64_t growth_interval = 2000;  // good steps from one growth to the next
  };
  LossScale(const Rule& rule, Device& device);

  // The scale as a cotangent of `loss`, and 1 / scale as a gain of the optimiser.
  Tensor seed(const Tensor& loss) const;
  Tensor gain() const { return block_.view(1); }

  // After backward: were all gradients finite? Waits for the device, and moves a dynamic scale.
  bool update(const Tensor& largest_gradient);

  // The state: the scale, and good and skipped steps in a row up to now.
  struct State {
    double scale;
    int64_t good = 0, skipped = 0;
  };
  const State& state() const { return state_; }
  void set(const State& state);

 private:
  Rule rule_;
  State state_;
  StepBlock block_;  // scale, 1 / scale
};

// The largest magnitude in all gradients, as a number on the device: infinity or NaN if one of them
// is not finite.
Tensor largest_gradient(const nn::NamedTensors& parameters);

}  // namespace gradus::optim
