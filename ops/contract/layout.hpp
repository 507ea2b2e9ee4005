// In which order the labels of each intermediate value lie in memory. A step is quickest where
// labels that stay together in one of its tensors lie side by side in the same order in the others
// that have them: then it goes through long runs of neighbours. What a step would like its result
// to be is not what the next one likes to read, so the orders are chosen over the whole program:
// from those of the nearest tensors, value by value, as long as that lessens the jumps. A sum goes
// over its labels in the order in which the first factor has them: an einsum as one node and the
// same steps apart, or with another batch, may differ by rounding.
#pragma once
#include "ops/contract/program.hpp"

namespace gradus::inline v1 {

// How often a step leaves a run of neighbours. Of each of its tensors: for each two neighbouring
// labels that are apart in another tensor that has one of them, the elements divided by those of a
// run to the right of the two. And all elements of a tensor whose last label is one of a batch (all
// three have it), unless it is the last of all three.
double jumps(const ContractionProgram::Step& step,
             const std::vector<ContractionProgram::Axes>& orders,
             const std::vector<int64_t>& extents);

// Orders for all values: those of `p` for values that are not `free`, and permutations of them for
// those that are. `times`: how often each step is done. Deterministic; up to some 30 tries for each
// free value and pass, at most four passes. A value whose steps jump less than some 200 times
// together keeps its order.
std::vector<ContractionProgram::Axes> choose_orders(const ContractionProgram& p, const Chosen& free,
                                                    const std::vector<double>& times);

}  // namespace gradus
