// Indexing by tensors and masks. In gather, scatter and the index_ ops an index counts from 0; in
// index, index_put, take and put a negative one counts from the end.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
// Of several elements that go to one place the last in row-major order stays; it alone has a
// derivative.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
// One-dimensional indices; whole slices of x.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 double alpha = 1);
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value);
// x[indices[0], indices[1], ...]: indices broadcast to one shape; a bool one stands for its
// nonzero().
Tensor index(const Tensor& x, const Tensors& indices);
Tensor index_put(const Tensor& x, const Tensors& indices, const Tensor& values,
                 bool accumulate = false);
Tensor take(const Tensor& x, const Tensor& index);  // of the flattened tensor
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
Tensor take_along_dim(const Tensor& x, const Tensor& indices);  // both flattened
Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim);
// x with src in the place of select(x, ...), slice(x, ...), diagonal(x, ...).
Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t index);
Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim = 0, int64_t start = 0,
                     int64_t end = kEnd, int64_t step = 1);
Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset = 0, int64_t dim1 = 0,
                        int64_t dim2 = 1);

// padding_idx: a row that has no gradient; -1 for none.
Tensor embedding(const Tensor& weight, const Tensor& index, int64_t padding_idx = -1);
Tensor one_hot(const Tensor& x, int64_t num_classes = -1);  // -1: the largest one plus 1

// Masks.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
Tensor masked_select(const Tensor& x, const Tensor& mask);
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
Tensor nonzero(const Tensor& x);  // (count, rank)
Tensor count_nonzero(const Tensor& x, const Ints& dims = {});
Tensor any(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Ints& dims = {}, bool keepdim = false);

}  // namespace gradus
