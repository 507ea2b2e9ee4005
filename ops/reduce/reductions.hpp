// Reductions and scans; empty dims = all axes.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor sum(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor argmax(const Tensor& x);  // of the flattened tensor
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor var(const Tensor& x, const Ints& dims = {}, double correction = 1, bool keepdim = false);
Tensor std(const Tensor& x, const Ints& dims = {}, double correction = 1, bool keepdim = false);
Tensor logsumexp(const Tensor& x, const Ints& dims, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor sum_to(const Tensor& x, const Shape& sizes);  // undoes broadcasting

}  // namespace gradus
