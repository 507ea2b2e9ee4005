// Optimisers: they turn gradients of leaves into new values, in place, through the slot
// GD_OPTIMIZER_STEP. What changes from step to step (learning rate, bias corrections, gain) lies in
// a step block on the device, so that a recorded step replays rightly. No devices, no loops over
// numbers.
//
// With g the gradient times the gain, p a parameter, t the step from 1:
//   sgd    g <- g + weight_decay p;  v <- g in the first step, momentum v + (1 - dampening) g
//   later;
//          p <- p - lr (momentum = 0 ? g : nesterov ? g + momentum v : v)
//          PyTorch's SGD; nesterov after Sutskever et al., ICML 2013.
//   adam   g <- g + weight_decay p;  m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
//          p <- p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//          Kingma & Ba, "Adam", ICLR 2015, algorithm 1.
//   adamw  p <- p - lr weight_decay p, then adam without weight_decay.
//          Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2,
//          with PyTorch's scaling of the decay by lr.
#pragma once
#include "ops/optim/step_block.hpp"
#include "ops/nn/module.hpp"

#include <variant>

namespace gradus::inline v1::optim {

struct Sgd {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // true: adamw
};
using Rule = std::variant<Sgd, Adam>;

class Optimizer {
 public:
  // Parameters are leaves of one device. Error(value) for a rule that makes no sense (nesterov
  // without momentum, betas outside [0, 1)), a parameter that is no leaf, or two of a name.
  Optimizer(nn::NamedTensors parameters, const Rule& rule);

  // Forgets the gradients.
  void zero_grad() const;
  // One update from the parameters' .grad; those without one stay. `gain`, if given, multiplies
  // every gradient: a one-element f32 or f64 tensor on the device (see clip_gain). Does not wait.
  void step(double lr, const Tensor& gain = {});
  // The halves of step(): what the host writes, and what the device does.
  void prepare(double lr);
  void apply(const Tensor& gain = {});

  // Updates so far, and the state tensors by name: "layers.0.weight.velocity", ".m", ".v".
  int64_t steps() const { return steps_; }
  const nn::NamedTensors& state() const { return state_; }
  // Goes on from a checkpoint; errors as nn::load_into.
  void load(const nn::NamedTensors& state, int64_t steps, const std::string& source);

 private:
  void update(size_t k, const Tensor& gain);
  Tensor state_of(size_t parameter, size_t i) const;

  nn::NamedTensors parameters_;
  Rule rule_;
  size_t per_parameter_;  // state tensors of each parameter
  nn::NamedTensors state_;
  StepBlock block_;  // lr, 1 - beta1^t, 1 - beta2^t, 1
  Tensor hyper_, one_;
  int64_t steps_ = 0;
};

// min(1, max_norm / (norm + 1e-6)) with norm the 2-norm of all gradients together: what clipping by
// the global norm multiplies them with (Pascanu et al., ICML 2013; the constant is PyTorch's). With
// `gain` given, of the gradients times gain, and the result contains it. Made by ops on the device;
// a gradient that is not finite gives a NaN. Undefined if there is no gradient.
Tensor clip_gain(const nn::NamedTensors& parameters, double max_norm, const Tensor& gain = {});

}  // namespace gradus::optim
