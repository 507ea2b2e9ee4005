// Slicing: labels that are looped over outside, so that no intermediate exceeds a memory limit.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

struct Sliced {
  std::vector<int> labels;  // sorted; the order is carried out once per value of them
  SsaPath path;
  double log2_overhead = 0;  // log2 of (work of all slices / work of the given order unsliced)
};

// Slices until no result but the last, which slicing cannot shrink, has more than
// 2^log2_largest_allowed elements. Labels are taken one at a time, by the least work that they add
// for what they take off the results that are too large, and the order is reconfigured in between;
// tried again with noise while the budget lasts, the cheapest wins. Open labels are not sliced:
// where they alone are too large the limit is missed, which cost_of shows.
Sliced slice(const Network& network, const SsaPath& start, double log2_largest_allowed,
             uint64_t seed, Budget& budget);

}  // namespace gradus::plan
