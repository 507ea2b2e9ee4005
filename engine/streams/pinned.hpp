// Tensors in page-locked memory of the host, and copies between them and a GPU that the host does
// not wait for. Whatever touches the memory next waits by itself, on the host too: an op on the
// CPU, item(), printing, the end of the last handle. Copies have no history: Error(autograd) while
// recording for a tensor that requires a gradient.
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

// A tensor of the device "cpu", not initialised, in page-locked memory of that GPU's driver (kept
// for the next one when it is dropped); where the device has none, an ordinary one.
Tensor pinned(const Shape& sizes, DType dtype, Device& gpu);
bool is_pinned(const Tensor& t, Device& gpu);

// A copy on another device, on this thread's stream; t itself if it is there. The host does not
// wait if its side is pinned and row-major, as the result is that goes from a GPU to the CPU.
Tensor to_async(const Tensor& t, Device& to);
// The same into a tensor of the same sizes and dtype; Error(value) for others.
void copy_async(const Tensor& to, const Tensor& from);

}  // namespace gradus
