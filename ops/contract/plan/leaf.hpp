// Orders for the small networks at the leaves of a dissection. Their open labels are those that
// other parts still need.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// The least sum of work, by a table over all subsets: 3^n steps; at most 12 tensors.
SsaPath order_by_subsets(const Network& network);

// Eliminates label after label, the one first whose elimination ties the least weight of pairs of
// labels that share no tensor yet (min-fill, weighted); the open labels end in one tensor, so they
// are tied from the start. `jitter` in [0, 1) perturbs the choice. Quadratic in the labels.
SsaPath order_by_fill(const Network& network, double jitter, Random& random);

}  // namespace gradus::plan
