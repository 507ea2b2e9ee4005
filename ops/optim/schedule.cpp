// The formulas of schedule.hpp.
#include "ops/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gradus::inline v1::optim {

double Schedule::at(int64_t step) const {
  if (step < warmup_steps) return lr * double(step + 1) / double(warmup_steps);
  const int64_t n = step / unit;
  const double part =
      step >= total_steps ? 1.0 : double(step - warmup_steps) / double(total_steps - warmup_steps);
  switch (kind) {
    case Kind::constant:
      break;
    case Kind::cosine:
      return lr *
             (final_factor + (1 - final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * part)));
    case Kind::linear:
      return lr * (1 + (final_factor - 1) * part);
    case Kind::step:
      return lr * std::pow(gamma, double(n / step_size));
    case Kind::multistep:
      return lr * std::pow(gamma, double(std::count_if(milestones.begin(), milestones.end(),
                                                       [&](int64_t m) { return m <= n; })));
    case Kind::exponential:
      return lr * std::pow(gamma, double(n));
  }
  return lr;
}

}  // namespace gradus::optim
