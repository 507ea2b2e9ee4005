// Tensors put side by side.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor cat(const Tensors& xs, int64_t dim = 0);
Tensor stack(const Tensors& xs, int64_t dim = 0);
// PyTorch's order: (last axis before, last axis after, second last before, ...).
Tensor pad(const Tensor& x, const Ints& pad, double value = 0);

}  // namespace gradus
