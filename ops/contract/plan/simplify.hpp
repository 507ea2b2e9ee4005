// Contracts what never hurts, so that the searches see a smaller network. Work is that of cost_of.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

struct Simplified {
  Network network;       // without labels of extent 1; its labels are numbered anew
  std::vector<int> ids;  // by its tensors: their SSA numbers in the original's order
  SsaPath path;          // the pairs made
};

// - A tensor whose labels are a subset of another's is absorbed by the smallest such one, several
//   together if that is cheaper. In any order it can move next to that tensor without making
//   another step dearer, so all that it can cost is one step of that tensor's size, which has a
//   step of at least its size anyway.
// - Labels that the same tensors have become one.
// - Scalars are multiplied into a tensor with labels that nothing else has, which that sums; if
//   there is none, into the smallest tensor, or left to the end if the output is smaller:
//   then no tensor of the simplified network stands for them. If only scalars are left, one is.
Simplified simplify(const Network& network);

// The order of the original network of n_original tensors that goes on from the simplified one with
// `rest`; empty if `rest` is though there is something left to contract.
SsaPath expanded(const Simplified& simplified, size_t n_original, const SsaPath& rest);

}  // namespace gradus::plan
