// What convolution and pooling share: attributes per spatial axis, and operands without a batch.
#pragma once
#include "ops/base/shape.hpp"

namespace gradus::inline v1 {

void register_conv_primitives();
void register_convolutions();
void register_pools();

// An attribute of `axes` spatial axes: one number serves for all. None may be below `least`.
Ints per_axis(const char* op, const char* name, const Ints& value, size_t axes, int64_t least);
// x (channels, spatial...) as (1, channels, spatial...); with a batch as it is.
Tensor with_batch(const char* op, const Tensor& x, size_t axes);
// Windows of this size over n elements; 0 if none fits.
int64_t windows_in(int64_t n, int64_t size, int64_t step, int64_t dilation);

// conv and conv_input (ops/conv/conv.cpp), with errors in the name of op.
Tensor conv_door(const char* op, const Tensor& x, const Tensor& w, const Ints& stride,
                 const Ints& dilation, int64_t groups);
Tensor conv_input_door(const char* op, const Tensor& y, const Tensor& w, const Ints& size,
                       const Ints& stride, const Ints& dilation, int64_t groups);

}  // namespace gradus
