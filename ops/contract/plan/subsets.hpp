// The cheapest order of few tensors: a table over all their subsets. A small network by itself, or
// a piece of a tree.
#pragma once
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

// The cheapest tree over k tensors. A label of two tensors, or of one and the outside, is in
// exactly two of the sets S1, S2 and S = S1 + S2 of a step or in none, so that the step's work is
// (|S1| + |S2| + |S|) / 2. Labels of one tensor alone count twice in it to make that true of them;
// those of more holders ("shared", grouped by who has them) may be in all three and are taken off.
class Subsets {
 public:
  static constexpr size_t kMaxShared = 64;  // the bits of a word
  // False if there are more groups of shared labels; fewer tensors have fewer.
  bool read(const Network& part);
  // The cheapest tree, if it costs less than log2 `bar`; `splits`: how many were looked at.
  bool solve(double bar, double* splits);
  SsaPath order() const;  // at most k_ deep

 private:
  using Mask = uint32_t;  // of tensors
  struct Shared {
    Mask holders;
    bool open;
    double extent;
  };
  struct Lone {
    int tensor;
    double extent;
  };

  void sizes(size_t subsets);
  double held(Mask s) const;
  double weigh(uint64_t set) const;
  int grow(Mask s, SsaPath* path) const;

  int k_ = 0;
  std::optional<StepTime> time_;
  std::vector<double> degree_, edge_;  // log2 extents by tensor, by pair
  std::vector<double> alone_;          // of labels that a tensor alone has
  std::vector<Shared> shared_;
  std::vector<Lone> lone_;
  std::vector<double> size_, cost_;
  std::vector<uint64_t> alive_;
  std::vector<Mask> split_;
};

// The order of least cost of a network of at most 12 tensors; empty where read() is false.
SsaPath order_by_subsets(const Network& network);

}  // namespace gradus::plan
