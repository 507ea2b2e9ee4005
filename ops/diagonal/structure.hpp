// Inside of this room: classes that are checked, indices as permutations.
#pragma once
#include "ops/diagonal/classed.hpp"

namespace gradus::inline v1 {

// Error(index) unless the classes are those of the payload's axes, each at least once.
void check_classes(const char* op, const Tensor& payload, const Ints& classes);
// The elements of a dense tensor along classes: a view of its diagonals, an axis for each class.
Tensor along_classes(const Tensor& dense, const Ints& classes);

// Permutations; undefined is the one that moves nothing.
Tensor inverse_of(const Tensor& index);
Tensor composed(const Tensor& outer, const Tensor& inner);  // outer[inner[k]]
Tensor reindexed(const Tensor& x, int64_t dim, const Tensor& index);

// x with a payload of no values but those given, of full extents or 1.
ClassedTensor with_payload(const ClassedTensor& x, const Tensor& payload);
// The payload as it is, and ones where there is none: extents 1.
Tensor stored(const ClassedTensor& x);

}  // namespace gradus
