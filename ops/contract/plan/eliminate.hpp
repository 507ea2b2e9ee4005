// Trees from elimination orders. Labels are vertices with log2 of their extents as weights, tensors
// are cliques of them; to eliminate a label is to contract all tensors that have it. An order of
// small cliques (a tree decomposition of small width) is a cheap tree: good where few labels are
// in many tensors, as in graphical models and circuits.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// Which label goes next:
//   min_fill    fewest pairs of its neighbours (by product of weights) that no tensor has together;
//               for thousands of labels.
//   min_degree  smallest clique, by the upper bound of the approximate minimum degree ordering
//               (Amestoy, Davis, Duff 1996) on a quotient graph: near-linear on sparse networks.
enum class Elimination { min_fill, min_degree };

// Equal scores are ordered at random by the seed. Open labels are never eliminated. Outer products
// only between what shares no label: components, small ones first. Empty if the budget ends first,
// and for min_fill where the tensors have more than 3e7 pairs of labels.
SsaPath eliminate(const Network& network, Elimination rule, uint64_t seed, Budget& budget);

}  // namespace gradus::plan
