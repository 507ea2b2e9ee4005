// Views: no copy where the strides allow.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor reshape(const Tensor& x, const Shape& shape);  // one -1 is inferred; copies if it must
Tensor permute(const Tensor& x, const Ints& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end = kEnd, int64_t step = 1);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor expand(const Tensor& x, const Shape& size);  // -1 keeps an axis
Tensor flip(const Tensor& x, const Ints& dims);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Ints& dims);
Tensor unsqueeze(const Tensor& x, int64_t dim);

}  // namespace gradus
