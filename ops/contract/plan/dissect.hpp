// Contraction trees from the top down: the tensors are halved by a bisection that cuts few labels,
// and so on down to leaves small enough for other searches. To eliminate the labels of the cut last
// is nested dissection (George 1973; on hypergraphs Gray and Kourtis 2021): a label is cut by a
// bisection of the tensors just when it belongs to the separator of the graph of labels.
//
// What a set of tensors costs to contract does not depend on the order of the others. So a tree is
// improved piece by piece: where it costs most, or some way above, the subtree is dissected anew.
//
// Deterministic: the same network, options and budget give the same path. All searches return an
// empty path if the budget ends before they have a first order, else the best that they found.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

struct DissectOptions {
  double imbalance = 0.4;  // a side has at most (1 + imbalance) / 2 of the weight
  int leaf = 8;            // so many tensors are not cut; above 8 they are ordered by min-fill
  uint64_t seed = 0;
  // What cutting a label costs that the outside holds: it is carried anyway, but then by both
  // sides. At 1 it counts as any other.
  double outer = 0.3;
  // The share of the outer labels in the weight that is balanced, the rest is the tensors' number:
  // to cut the boundary in two keeps it short (Lipton and Tarjan 1979).
  double shore = 0.9;
  // Such labels pull towards one side, so that only that one sees the outside (trees like chains).
  bool pull = false;
};
SsaPath dissect(const Network& network, const DissectOptions& options, Budget& budget);

// Several dissections of the whole for a part of the budget, then waist_surgery on the best.
SsaPath dissection(const Network& network, uint64_t seed, Budget& budget);

// Never worse than `path`, which must contract the network.
SsaPath waist_surgery(const Network& network, const SsaPath& path, uint64_t seed, Budget& budget);

}  // namespace gradus::plan
