// Improves a given order of contraction.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// All three return an order of at most the cost of `start` (`start` itself once the budget is used
// up), the same for the same seed and budget. `start` must contract each tensor once.

// Simulated annealing on the tree: (AB)C becomes (AC)B or (BC)A, accepted by the change of log2 of
// the two steps' work (Kalachev, Panteleev, Yung, "Multi-tensor contraction for XEB verification of
// quantum circuits", 2021). Uses the whole budget, from hot to cold.
SsaPath anneal(const Network& network, const SsaPath& start, uint64_t seed, Budget& budget);

// The best order of each subtree of up to `size` (3 to 12) tensors by dynamic programming over its
// subsets, the costliest first, until nothing improves (Gray, Kourtis, "Hyper-optimized tensor
// network contraction", 2021).
SsaPath reconfigure(const Network& network, const SsaPath& start, int size, uint64_t seed,
                    Budget& budget);

// Annealing and reconfiguration in turns.
SsaPath refine(const Network& network, const SsaPath& start, uint64_t seed, Budget& budget);

}  // namespace gradus::plan
