// Rearrangements: elements moved, repeated, cut apart, masked by their place.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor roll(const Tensor& x, const Ints& shifts, const Ints& dims = {});  // no dims: flattened
Tensor rot90(const Tensor& x, int64_t k = 1, const Ints& dims = {0, 1});
Tensor movedim(const Tensor& x, const Ints& source, const Ints& destination);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor unflatten(const Tensor& x, int64_t dim, const Ints& sizes);  // one -1 is inferred

// Which entries of (rows, columns) have column - diagonal <= row (lower), or >= row?
Tensor triangle_mask(int64_t rows, int64_t columns, int64_t diagonal, bool lower, Device& device);
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
Tensor diag(const Tensor& x, int64_t diagonal = 0);  // of a vector a matrix, of a matrix a vector
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
Tensor trace(const Tensor& x);

Tensor repeat(const Tensor& x, const Ints& repeats);         // at least one per axis
Tensor tile(const Tensor& x, const Ints& dims);              // as repeat, missing ones are 1
Tensor repeat_interleave(const Tensor& x, int64_t repeats);  // flattened
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
Tensors meshgrid(const Tensors& xs, const char* indexing = "ij");  // "ij" or "xy"
Tensors broadcast_tensors(const Tensors& xs);

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensors split(const Tensor& x, const Ints& split_size_or_sections, int64_t dim = 0);
Tensors chunk(const Tensor& x, int64_t chunks, int64_t dim = 0);
Tensors unbind(const Tensor& x, int64_t dim = 0);
Tensor hstack(const Tensors& xs);
Tensor vstack(const Tensors& xs);
Tensor dstack(const Tensors& xs);
Tensor column_stack(const Tensors& xs);

Tensor kron(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1);

}  // namespace gradus
