// Order: sorting and what is made of it; running extrema and products. Ops of two results give
// {values, indices}. NaN counts as the largest number.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);  // stable
Tensors sort(const Tensor& x, int64_t dim = -1, bool descending = false);    // stable
Tensors topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);
Tensors kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);
Tensor median(const Tensor& x);  // the lower one of two; of all elements
Tensors median(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor max(const Tensor& x);  // of all elements
Tensors max(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor min(const Tensor& x);
Tensors min(const Tensor& x, int64_t dim, bool keepdim = false);
// {values, inverse, counts}; no derivative.
Tensors unique(const Tensor& x);
Tensors unique_consecutive(const Tensor& x);
// Where values would be put into a sorted sequence: before equals, or after them (right).
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right = false);
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);
// weights may be undefined.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);

Tensor cumprod(const Tensor& x, int64_t dim);
Tensors cummax(const Tensor& x, int64_t dim);  // the last one of equals
Tensors cummin(const Tensor& x, int64_t dim);
Tensor logcumsumexp(const Tensor& x, int64_t dim);
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1);
// x: places of y along dim, or undefined where they are dx apart.
Tensor trapezoid(const Tensor& y, const Tensor& x = {}, double dx = 1, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x = {}, double dx = 1, int64_t dim = -1);

}  // namespace gradus
