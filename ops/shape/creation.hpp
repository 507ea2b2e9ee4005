// Tensors made from nothing but a shape.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor full(const Shape& size, double fill_value, DType dtype = DType::f32,
            Device& device = default_device());
Tensor zeros(const Shape& size, DType dtype = DType::f32, Device& device = default_device());
Tensor ones(const Shape& size, DType dtype = DType::f32, Device& device = default_device());
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double fill_value);
Tensor eye(int64_t n, int64_t m, DType dtype = DType::f32, Device& device = default_device());
// start + i * step below end (above, where the step is negative); computed in f64, then cast.
Tensor arange(double start, double end, double step = 1, DType dtype = DType::i64,
              Device& device = default_device());
Tensor linspace(double start, double end, int64_t steps, DType dtype = DType::f32,
                Device& device = default_device());

// 0, 1, .. n - 1 in i64.
Tensor iota(int64_t n, Device& device);
// The same along one of x's axes, with size 1 on the others: it broadcasts against x.
Tensor iota_along(const Tensor& x, int64_t dim);

}  // namespace gradus
