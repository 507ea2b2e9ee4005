// Subtree reconfiguration: pieces of the tree are ordered anew by a table over their subsets.
#include "ops/contract/plan/anneal.hpp"
#include "ops/contract/plan/subsets.hpp"
#include "ops/contract/plan/tree.hpp"

#include <numeric>

namespace gradus::inline v1::plan {

SsaPath reconfigure(const Network& network, const SsaPath& start, int size, uint64_t seed,
                    Budget& budget) {
  if (network.tensors.size() < 3 || !budget.any()) return start;
  size = std::clamp(size, 3, 12);
  Tree tree = tree_of(network, start);
  Random random(seed);
  Subsets subsets;
  LabelSet names;
  std::vector<double> works;
  bool changed = false;
  // Rounds over all nodes: the first breadth first, the later ones with pieces of any shape.
  constexpr int kIdleRounds = 4;
  for (int round = 0, idle = 0; idle < kIdleRounds; ++round) {
    std::vector<int> tops(size_t(tree.leaves - 1));
    std::iota(tops.begin(), tops.end(), tree.leaves);
    const std::vector<double> work = tree.work;
    std::stable_sort(tops.begin(), tops.end(),
                     [&](int a, int b) { return work[size_t(a)] > work[size_t(b)]; });
    ++idle;
    for (int top : tops) {
      for (int k = size; k >= 3; --k) {
        const Piece piece = piece_below(tree, top, k, round ? &random : nullptr);
        if (piece.tensors.size() < 3) break;
        works.clear();
        for (int i : piece.inner) works.push_back(tree.work[size_t(i)]);
        const Network part = network_of(network, tree, piece, &names);
        const double units = 5 + 0.1 * double(names.size());
        double splits = 0;
        const bool fits = subsets.read(part);
        if (fits && subsets.solve(log2_total(works), &splits)) {
          replant(&tree, piece, part, names, subsets.order());
          changed = true;
          idle = 0;
        }
        if (!budget.spend(units + 0.002 * splits)) return changed ? path_of(tree) : start;
        if (fits) break;
      }
    }
  }
  return changed ? path_of(tree) : start;
}

}  // namespace gradus::plan
