// Indexing by tensors.
#pragma once
#include "ops/ints.hpp"

namespace gradus {

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor embedding(const Tensor& weight, const Tensor& index);

}  // namespace gradus
