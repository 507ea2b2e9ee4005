// What a person wants to know of many numbers: their range, mean, spread, norm, how many are zero
// or not finite, a histogram, and the first few.
#pragma once
#include "engine/tensor.hpp"

#include <array>

namespace gradus::inline v1::audit {

struct TensorStats {
  int64_t count = 0, zeros = 0, nans = 0, infs = 0;
  // In f64; of complex numbers: of their absolute values. The norm is that of all, NaN or infinite
  // if one is; the others are of the finite ones, 0 if there are none.
  double min = 0, max = 0, mean = 0, std = 0, norm = 0;
  static constexpr size_t kBins = 24, kFirst = 6;
  std::array<int64_t, kBins> histogram{};  // equal steps from min to max
  std::vector<double> first;               // in row-major order
};

// Waits for the device. All zero for an undefined tensor or a user's dtype.
TensorStats stats_of(const Tensor& t);

}  // namespace gradus::audit
