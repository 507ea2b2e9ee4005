// Random numbers, from the thread's generator (engine/random.hpp).
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor uniform(const Shape& size, double low = 0, double high = 1, DType dtype = DType::f32,
               Device& device = default_device());
Tensor normal(const Shape& size, double mean = 0, double std = 1, DType dtype = DType::f32,
              Device& device = default_device());
// By the names that PyTorch has for them: of [0, 1), and standard normal. A complex number has a
// part of its own for each axis; a normal one has variance 1 in both together.
Tensor rand(const Shape& size, DType dtype = DType::f32, Device& device = default_device());
Tensor randn(const Shape& size, DType dtype = DType::f32, Device& device = default_device());
Tensor bernoulli(const Shape& size, double p = 0.5, DType dtype = DType::f32,
                 Device& device = default_device());
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
// Whole channels of x (n, channels, ...) at a time.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true);
// To selu's lower limit, scaled and shifted so that mean 0 and variance 1 stay.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace gradus
