// Windows: sliding views, convolution, pooling.
#pragma once
#include "ops/ints.hpp"

namespace gradus {

// One number serves for all spatial axes. x (n, channels, spatial...) or without n; weight (out,
// in / groups, spatial...); bias (out) may be undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Ints& stride = {1}, const Ints& padding = {0}, const Ints& dilation = {1},
              int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Ints& stride = {1}, const Ints& padding = {0}, const Ints& dilation = {1},
              int64_t groups = 1);
// stride empty: kernel_size.
Tensor max_pool2d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, const Ints& dilation = {1}, bool ceil_mode = false);
Tensor avg_pool2d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, bool ceil_mode = false, bool count_include_pad = true);
Tensor adaptive_avg_pool2d(const Tensor& x, const Ints& output_size);

}  // namespace gradus
