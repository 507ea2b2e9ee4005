// Greedy orders: always the pair with the best score next. The score is that of opt_einsum and
// cotengra (Gray & Kourtis, Quantum 5, 410 (2021)): size(result) - alpha (size(a) + size(b)), on a
// signed log scale, with Boltzmann noise of the given temperature on top.
#pragma once
#include "ops/contract/plan/network.hpp"

#include <limits>

namespace gradus::inline v1::plan {

struct GreedyOptions {
  double alpha = 1;        // how much it is worth to get rid of large tensors
  double temperature = 0;  // of the noise, in powers of two
  uint64_t seed = 0;       // of the noise
  double stop_above = std::numeric_limits<double>::infinity();  // log2 of the work
};

// Pairs of tensors that share a label, best score first, ties to the lower numbers; then outer
// products, small ones first. Of a label that very many tensors have only the smallest holders are
// looked at, so that the time is near-linear. Empty if the work exceeds stop_above or the budget is
// used up before the end.
SsaPath greedy(const Network& network, const GreedyOptions& options, Budget& budget);

// The best of many greedy orders over a range of alpha and temperature, until the budget is used up
// or many tries in a row agree. The first try is plain greedy; empty if the budget does not suffice
// for it.
SsaPath random_greedy(const Network& network, uint64_t seed, Budget& budget);

}  // namespace gradus::plan
