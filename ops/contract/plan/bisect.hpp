// Two sides of a hypergraph with few nets between them: vertices are tensors, nets are labels, and
// the cut nets are what a contraction has to carry from one side to the other.
//
// Multilevel, after Karypis and Kumar (hMETIS, 1999): vertices that share heavy nets are merged in
// pairs until few are left, several greedy growths start there, and every level on the way back is
// refined by the moves of Fiduccia and Mattheyses (1982).
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

struct Hypergraph {
  std::vector<double> vertex_weight, net_weight;  // what is balanced, what is cut
  std::vector<int> net_start{0}, pins;  // net e holds pins[net_start[e]] .. pins[net_start[e + 1]]
  int terminal = -1;                    // a vertex that stays on side 1, if any

  int vertices() const { return int(vertex_weight.size()); }
  int nets() const { return int(net_weight.size()); }
};

struct BisectOptions {
  double imbalance = 0.3;  // a side has at most (1 + imbalance) / 2 of the weight
  uint64_t seed = 0;
  int tries = 4;  // growths at the coarsest level
};

// The side, 0 or 1, of each vertex; both sides have one if the graph has two vertices besides the
// terminal. The same options give the same sides. Once the budget is used up the refinement stops
// early, the sides are still valid.
std::vector<char> bisect(const Hypergraph& graph, const BisectOptions& options, Budget& budget);

}  // namespace gradus::plan
