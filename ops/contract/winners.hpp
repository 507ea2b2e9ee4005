// The winners of a tropical einsum of any number of operands: which index of each summed label gave
// each element of the result. The steps' own winners, followed from the result back to the
// operands; ties as in einsum().
#pragma once
#include "ops/contract/einsum.hpp"

namespace gradus::inline v1 {

struct EinsumWinners {
  Tensor value;    // as einsum()'s, without history
  Tensor winners;  // i64: the sizes of value, then one index for each of `labels`
  Labels labels;   // those that are summed, in the order in which the operands name them
};
// -1 in all places of an element where nothing won: an empty sum, or no term better than the
// algebra's zero. The product of the operands at these indices is the element. Error(value) for
// an algebra that chooses no winner.
EinsumWinners einsum_winners(const EinsumPlan& plan, const Tensors& operands, Algebra algebra);
EinsumWinners einsum_winners(std::string_view equation, const Tensors& operands, Algebra algebra);

}  // namespace gradus
