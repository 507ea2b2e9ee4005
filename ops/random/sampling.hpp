// Random numbers, from the thread's generator (engine/random.hpp).
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor uniform(const Shape& size, double low = 0, double high = 1, DType dtype = DType::f32,
               Device& device = default_device());
Tensor normal(const Shape& size, double mean = 0, double std = 1, DType dtype = DType::f32,
              Device& device = default_device());
// uniform(size) and normal(size) by the names that PyTorch has for them.
inline Tensor rand(const Shape& size, DType dtype = DType::f32, Device& device = default_device()) {
  return uniform(size, 0, 1, dtype, device);
}
inline Tensor randn(const Shape& size, DType dtype = DType::f32,
                    Device& device = default_device()) {
  return normal(size, 0, 1, dtype, device);
}
Tensor bernoulli(const Shape& size, double p = 0.5, DType dtype = DType::f32,
                 Device& device = default_device());
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
// Whole channels of x (n, channels, ...) at a time.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true);
// To selu's lower limit, scaled and shifted so that mean 0 and variance 1 stay.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace gradus
