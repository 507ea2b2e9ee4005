// Dtype, device, memory.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor cast(const Tensor& x, DType dtype);  // x itself if it has the dtype already
Tensor contiguous(const Tensor& x);         // x itself if it is row-major
Tensor clone(const Tensor& x);              // copy on write of a whole tensor
// real + i imag, whatever they are, of two of f32 or f64, which broadcast; Error(dtype) for others.
Tensor complex(const Tensor& real, const Tensor& imag);
// A leaf that requires a gradient gives another leaf that does. Error(autograd) for a tensor with
// history while recording: gradients don't cross devices.
Tensor to_device(const Tensor& x, Device& device);
void copy_(const Tensor& to,
           const Tensor& from);  // in place, broadcasts and casts; see prepare_write

}  // namespace gradus
