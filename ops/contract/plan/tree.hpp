// A contraction tree as arrays: what the searches that improve a given order work on. Made from an
// SsaPath and turned back into one in linear time, without recursion. Pieces of a tree are cut out
// as networks of their own, so that whatever orders a network can reorder a piece.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

struct Tree {
  int leaves = 0;                // nodes 0 .. leaves-1 are the tensors; the root is the last node
  std::vector<int> left, right;  // by node; -1 at leaves
  std::vector<LabelSet> labels;  // of the node's tensor
  std::vector<double> work;      // log2 cost of the step that makes the node; -infinity at leaves

  int nodes() const { return int(left.size()); }
  int root() const { return nodes() - 1; }
  bool is_leaf(int node) const { return node < leaves; }
};

// The path must contract each tensor once (see cost_of) and the network must have a tensor.
Tree tree_of(const Network& network, const SsaPath& path);
// Children before parents, the left subtree first.
SsaPath path_of(const Tree& tree);

// log2 of the work of all steps.
double log2_total(const std::vector<double>& work);

// A connected part of the tree: its top node, its inner nodes (top first) and below them the
// nodes that count as its tensors.
struct Piece {
  std::vector<int> inner, tensors;
};
// The piece below `top` of at most `size` tensors (at least 2). Opens nodes breadth first, or,
// given `random`, any of those that can be opened.
Piece piece_below(const Tree& tree, int top, int size, Random* random = nullptr);
// Its labels are numbered anew; names[i] is the tree's label of its label i.
Network network_of(const Network& network, const Tree& tree, const Piece& piece, LabelSet* names);
// The order in which the tree contracts the piece.
SsaPath order_of(const Tree& tree, const Piece& piece);
// Contracts the piece by another order. The piece's nodes keep their numbers as a set.
void replant(Tree* tree, const Piece& piece, const Network& part, const LabelSet& names,
             const SsaPath& order);

}  // namespace gradus::plan
