// Learning rates as a function of the step: plain numbers, computed on the host in double.
#pragma once
#include <cstdint>
#include <vector>

namespace gradus::inline v1::optim {

// With s the step from 0, w = warmup_steps, T = total_steps, f = final_factor, and n = s / unit
// rounded down (unit 1 counts steps, the number of batches in an epoch counts epochs):
//   s < w        lr (s + 1) / w
//   constant     lr
//   cosine       lr (f + (1 - f) (1 + cos(pi (s - w) / (T - w))) / 2), and lr f from T on
//                (Loshchilov & Hutter, "SGDR", ICLR 2017, equation 5, one period)
//   linear       lr (1 + (f - 1) (s - w) / (T - w)), and lr f from T on
//   step         lr gamma^(n / step_size), rounded down
//   multistep    lr gamma^(how many milestones are at most n)
//   exponential  lr gamma^n
struct Schedule {
  enum class Kind { constant, cosine, linear, step, multistep, exponential };
  Kind kind = Kind::constant;
  double lr = 1e-3;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;            // cosine, linear
  double final_factor = 0;            // cosine, linear
  double gamma = 0.1;                 // step, multistep, exponential
  int64_t step_size = 1;              // step
  std::vector<int64_t> milestones{};  // multistep
  int64_t unit = 1;

  double at(int64_t step) const;
};

}  // namespace gradus::optim
