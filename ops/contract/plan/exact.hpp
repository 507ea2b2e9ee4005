// The order of least total work, proven. Cheapest-first search (A*, Knuth's generalization of
// Dijkstra to derivations) over connected sub-networks: a sub-network enters the search in the
// order of "work to make it + elements of its result", which the step that consumes it must pay
// at least; nothing above the best known total is kept. The classical table over sub-networks with
// a rising cost cap (Pfeifer, Haegeman, Verstraete 2014) visits the same sub-networks; here each is
// visited once.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// Least work over all trees that make no outer product inside a connected component; components
// are solved alone and their results multiplied, small ones first. An outer product inside a
// component can be cheaper (two short vectors at a large tensor): that is not tried.
// Empty if the budget ends first or if a component has more than 512 tensors or different labels.
// Depends on its arguments alone.
SsaPath exact(const Network& network, Budget& budget);

}  // namespace gradus::plan
