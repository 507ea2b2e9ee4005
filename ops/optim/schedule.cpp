// The formulas of schedule.hpp.
#include "ops/optim/schedule.hpp"

#include <cmath>
#include <numbers>

namespace gradus::optim {

double Schedule::at(int64_t step) const {
  if (step < warmup_steps) return lr * double(step + 1) / double(warmup_steps);
  if (kind == Kind::constant) return lr;
  if (step >= total_steps) return lr * final_factor;
  const double part = double(step - warmup_steps) / double(total_steps - warmup_steps);
  return lr * (final_factor + (1 - final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * part)));
}

}  // namespace gradus::optim
