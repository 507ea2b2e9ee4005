// The scale, and what is done after good and bad steps.
#include "ops/optim/loss_scale.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <cmath>

namespace gradus::inline v1::optim {

LossScale::LossScale(const Rule& rule, Device& device)
    : rule_(rule), state_{rule.scale}, block_(2, device) {
  if (!(rule.scale > 0 && std::isfinite(rule.scale)))
    fail(ErrorKind::value, "loss_scale", "is ", rule.scale, ", expected a finite number above 0");
  set(state_);
}

Tensor LossScale::seed(const Tensor& loss) const {
  return reshape(cast(block_.view(0), loss.dtype()), loss.sizes());
}

void LossScale::set(const State& state) {
  state_ = state;
  block_.set(0, state.scale);
  block_.set(1, 1 / state.scale);
  block_.upload();
}

bool LossScale::update(const Tensor& largest_gradient) {
  const bool finite = std::isfinite(largest_gradient.item());
  State next = state_;
  next.good = finite ? state_.good + 1 : 0;
  next.skipped = finite ? 0 : state_.skipped + 1;
  if (rule_.dynamic && !finite) next.scale *= rule_.backoff;
  if (rule_.dynamic && next.good == rule_.growth_interval) {
    next.scale *= rule_.growth;
    next.good = 0;
  }
  if (next.scale != state_.scale) set(next);
  state_ = next;
  return finite;
}

Tensor largest_gradient(const nn::NamedTensors& parameters) {
  const NoGrad no_grad;
  Tensor largest;
  for (const auto& [name, p] : parameters) {
    if (!p.grad().defined() || p.numel() == 0) continue;
    const Tensor m = amax(abs(p.grad()));
    largest = largest.defined() ? maximum(largest, m) : m;
  }
  return largest.defined() ? largest : Tensor(0.0);
}

}  // namespace gradus::optim
