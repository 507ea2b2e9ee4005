// Learning rates as a function of the step: plain numbers, computed on the host in double.
#pragma once
#include <cstdint>

namespace gradus::optim {

// With s the step from 0, w = warmup_steps, T = total_steps, f = final_factor:
//   s < w      lr (s + 1) / w
//   constant   lr
//   cosine     lr (f + (1 - f) (1 + cos(pi (s - w) / (T - w))) / 2), and lr f from T on
//              (Loshchilov & Hutter, "SGDR", ICLR 2017, equation 5, one period)
struct Schedule {
  enum class Kind { constant, cosine };
  Kind kind = Kind::constant;
  double lr = 1e-3;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  // cosine only
  double final_factor = 0;  // cosine only

  double at(int64_t step) const;
};

}  // namespace gradus::optim
