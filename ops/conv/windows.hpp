// Windows: sliding views, convolution, pooling.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

// Axis dim becomes the number of windows, a new last axis their elements: y[i, .., j] = x[i * step
// + j * dilation]. A view; windows may overlap.
Tensor window(const Tensor& x, int64_t dim, int64_t size, int64_t step = 1, int64_t dilation = 1);
Tensor unfold(const Tensor& x, int64_t dimension, int64_t size, int64_t step);  // without dilation
// The transpose of window: elements that windows share are summed; the axis has n elements again.
Tensor fold(const Tensor& x, int64_t dim, int64_t n, int64_t step = 1, int64_t dilation = 1);

// One number serves for all spatial axes. x (n, channels, spatial...) or without n; weight (out,
// in / groups, spatial...); bias (out) may be undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Ints& stride = {1}, const Ints& padding = {0}, const Ints& dilation = {1},
              int64_t groups = 1);
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Ints& stride = {1}, const Ints& padding = {0}, const Ints& dilation = {1},
              int64_t groups = 1);
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Ints& stride = {1}, const Ints& padding = {0}, const Ints& dilation = {1},
              int64_t groups = 1);
// weight (in, out / groups, spatial...).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Ints& stride = {1}, const Ints& padding = {0},
                        const Ints& output_padding = {0}, int64_t groups = 1,
                        const Ints& dilation = {1});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Ints& stride = {1}, const Ints& padding = {0},
                        const Ints& output_padding = {0}, int64_t groups = 1,
                        const Ints& dilation = {1});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Ints& stride = {1}, const Ints& padding = {0},
                        const Ints& output_padding = {0}, int64_t groups = 1,
                        const Ints& dilation = {1});

// Pooling over the last 1, 2 or 3 axes of x (n, channels, spatial...) or without n. stride empty:
// kernel_size. The gradient of a maximum goes to the first one.
Tensor max_pool1d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, const Ints& dilation = {1}, bool ceil_mode = false);
Tensor max_pool2d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, const Ints& dilation = {1}, bool ceil_mode = false);
Tensor max_pool3d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, const Ints& dilation = {1}, bool ceil_mode = false);
Tensor avg_pool1d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, bool ceil_mode = false, bool count_include_pad = true);
Tensor avg_pool2d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, bool ceil_mode = false, bool count_include_pad = true);
Tensor avg_pool3d(const Tensor& x, const Ints& kernel_size, const Ints& stride = {},
                  const Ints& padding = {0}, bool ceil_mode = false, bool count_include_pad = true);
Tensor adaptive_avg_pool1d(const Tensor& x, const Ints& output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, const Ints& output_size);
Tensor adaptive_avg_pool3d(const Tensor& x, const Ints& output_size);
Tensor adaptive_max_pool1d(const Tensor& x, const Ints& output_size);
Tensor adaptive_max_pool2d(const Tensor& x, const Ints& output_size);
Tensor adaptive_max_pool3d(const Tensor& x, const Ints& output_size);

}  // namespace gradus
