// A tensor with a label for each axis, and the few things that contractions do with it.
#pragma once
#include "ops/contract/algebra.hpp"
#include "ops/contract/equation.hpp"
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

struct Labelled {
  Tensor tensor;
  Labels labels;  // one per axis
};

int64_t place_of(const Labels& labels, int64_t label);  // -1 if it is not there
int64_t extent_of(const Labelled& x, int64_t label);    // 1 where x lacks it
Tensor permuted(const Labelled& x, const Labels& order);
// x with its axes in the order of `labels`, extent 1 where it has none.
Tensor aligned(const Labelled& x, const Labels& labels);

// The operands of an einsum, checked and of one dtype and device; as its steps want them, diagonals
// taken and axes of extent 1 dropped; and the result, from what the last step left.
struct EinsumPlan;
Tensors ready_operands(const EinsumPlan& plan, const Tensors& operands, Algebra algebra);
std::vector<Labelled> stripped_operands(const EinsumPlan& plan, const Tensors& ready,
                                        Algebra algebra);
Tensor result_of(const EinsumPlan& plan, const Labelled& last);

// Contraction of two operands whose labels are distinct, in any algebra but the standard one. In a
// tropical algebra a label of one operand alone is given to the other by repetition, so that all
// labels, ties, empty sums and NaN follow the rule of one kernel.
Tensor contract_pair(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra);
// The sum in an algebra, but the standard one, over the labels that are not in `kept`.
Labelled sum_of(const Labelled& x, const Labels& kept, Algebra algebra);

// The sum of two results, in any algebra.
Tensor sum_of_two(const Tensor& a, const Tensor& b, Algebra algebra);

// What a tropical contraction chose, without history: values, and as i64 the place of the winner in
// row-major order of `summed`; -1 where nothing won.
struct PairWinners {
  Tensor values, places;
  Labels summed;
  Shape extents;
};
PairWinners choose_pair(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra);

}  // namespace gradus
