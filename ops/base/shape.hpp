// Shape arithmetic shared by the ops: axes, broadcasting. Says errors in the op's name.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

// A possibly negative axis as 0..rank-1; Error(index) otherwise.
int64_t normal_axis(const char* op, int64_t dim, int64_t rank);
// Sorted, without duplicates (an error); empty means all. Of a 0-d tensor axis 0 may be named, as
// in PyTorch, and is none.
Ints normal_axes(const char* op, const Ints& dims, int64_t rank);
// numpy's broadcasting of two shapes; Error(shape) names the axis that does not fit.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);
// The shape after reducing `axes` (sorted): size 1 with keepdim, gone without.
Shape reduced_shape(const Shape& sizes, const Ints& axes, bool keepdim);
// Are `sizes` broadcastable to `target` as they stand?
bool broadcasts_to(const Shape& sizes, const Shape& target);

}  // namespace gradus
