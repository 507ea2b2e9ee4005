// The least work over all orders of a few tensors, outer products included.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// Least flops (2 for a product that is summed, 1 for one that is not), or least time where the
// network has a model of it; among those the least sum of intermediate sizes. Dynamic programming
// over subsets: 3^n steps, 0.2 ms for 8 tensors, 20 ms for 12.
SsaPath optimal(const Network& network);

}  // namespace gradus::plan
