// Subtree reconfiguration: a table over all subsets of a piece's tensors.
#include "ops/contract/plan/anneal.hpp"
#include "ops/contract/plan/tree.hpp"

#include <numeric>

namespace gradus::inline v1::plan {

namespace {

using Mask = uint32_t;  // of tensors of the piece

// The cheapest tree over k tensors. A label of two tensors, or of one and the outside, is in
// exactly two of the sets S1, S2 and S = S1 + S2 of a step or in none, so that the step's work is
// (|S1| + |S2| + |S|) / 2. Labels of one tensor alone count twice in it to make that true of them;
// those of more holders ("shared", grouped by who has them) may be in all three and are taken off.
class Subsets {
 public:
  static constexpr size_t kMaxShared = 64;  // the bits of a word
  // False if there are more groups of shared labels; fewer tensors have fewer.
  bool read(const Network& part) {
    k_ = int(part.tensors.size());
    time_ = part.time;
    const size_t labels = part.log2_extent.size(), subsets = size_t(1) << k_;
    std::vector<Mask> holders(labels, 0);
    for (int t = 0; t < k_; ++t)
      for (int l : part.tensors[size_t(t)]) holders[size_t(l)] |= Mask(1) << t;
    shared_.clear();
    degree_.assign(size_t(k_), 0);
    alone_.assign(size_t(k_), 0);
    edge_.assign(size_t(k_ * k_), 0);
    for (size_t l = 0; l < labels; ++l) {
      const Mask m = holders[l];
      const double extent = part.log2_extent[l];
      const int count = __builtin_popcount(m);
      if (!m || extent == 0) continue;
      const int i = __builtin_ctz(m);
      if (count + (part.open[l] ? 1 : 0) > 2) {
        const auto same = std::find_if(shared_.begin(), shared_.end(), [&](const Shared& s) {
          return s.holders == m && s.open == (part.open[l] != 0);
        });
        if (same != shared_.end())
          same->extent += extent;
        else
          shared_.push_back({m, part.open[l] != 0, extent});
      } else if (count == 1) {
        degree_[size_t(i)] += extent;
        if (!part.open[l]) {
          lone_.push_back({i, extent});
          alone_[size_t(i)] += extent;
        }
      } else {
        const int j = 31 - __builtin_clz(m);
        degree_[size_t(i)] += extent;
        degree_[size_t(j)] += extent;
        edge_[size_t(i * k_ + j)] += extent;
        edge_[size_t(j * k_ + i)] += extent;
      }
    }
    if (shared_.size() > kMaxShared) return lone_.clear(), false;
    sizes(subsets);
    return true;
  }

  // The cheapest tree, if it costs less than log2 `bar`; `splits`: how many were looked at.
  bool solve(double bar, double* splits) {
    const size_t subsets = size_t(1) << k_;
    cost_.assign(subsets, 1 - 1e-6);  // in units of 2^bar: nothing dearer is of use
    split_.assign(subsets, 0);
    for (int i = 0; i < k_; ++i) cost_[size_t(1) << i] = 0;
    for (Mask s = 3; s < subsets; ++s) {
      if (!(s & (s - 1))) continue;
      const Mask low = s & (~s + 1), rest = s ^ low;
      double best = cost_[s];
      for (Mask sub = (rest - 1) & rest;; sub = (sub - 1) & rest) {
        const Mask one = sub | low, two = s ^ one;
        const double below = cost_[one] + cost_[two];
        if (below < best) {
          double work = size_[one] + size_[two] + size_[s];
          if (!shared_.empty()) work -= weigh(alive_[one] & alive_[two] & alive_[s]);
          work = work / 2;
          if (time_) work = time_->log2_seconds(held(one), held(two), size_[s], work);
          work -= bar;
          if (work < 0) {
            const double total = below + std::exp2(work);
            if (total < best) {
              best = total;
              split_[s] = one;
            }
          }
        }
        if (sub == 0) break;
      }
      cost_[s] = best;
    }
    *splits = std::pow(3.0, k_) / 2;
    return split_[subsets - 1] != 0;
  }

  SsaPath order() const {  // at most k_ deep
    SsaPath path;
    grow((Mask(1) << k_) - 1, &path);
    return path;
  }

 private:
  struct Shared {
    Mask holders;
    bool open;
    double extent;
  };
  struct Lone {
    int tensor;
    double extent;
  };

  void sizes(size_t subsets) {
    size_.assign(subsets, 0);
    alive_.assign(subsets, 0);
    for (Mask s = 1; s < subsets; ++s) {
      const int i = __builtin_ctz(s);
      const Mask rest = s & (s - 1);
      double common = 0;
      for (Mask r = rest; r; r &= r - 1) common += edge_[size_t(i * k_ + __builtin_ctz(r))];
      size_[s] = size_[rest] + degree_[size_t(i)] - 2 * common;
    }
    // What only one tensor has leaves with its first step.
    for (const Lone& lone : lone_)
      for (Mask s = 1; s < subsets; ++s)
        if (s >> lone.tensor & 1)
          size_[s] += s == Mask(1) << lone.tensor ? lone.extent : -lone.extent;
    lone_.clear();
    for (size_t h = 0; h < shared_.size(); ++h) {
      const Shared& label = shared_[h];
      for (Mask s = 1; s < subsets; ++s) {
        if (!(s & label.holders) || (!label.open && !(label.holders & ~s))) continue;
        alive_[s] |= uint64_t(1) << h;
        size_[s] += label.extent;
      }
    }
  }
  double held(Mask s) const {
    return s & (s - 1) ? size_[s] : size_[s] - alone_[size_t(__builtin_ctz(s))];
  }
  double weigh(uint64_t set) const {
    double sum = 0;
    for (; set; set &= set - 1) sum += shared_[size_t(__builtin_ctzll(set))].extent;
    return sum;
  }
  int grow(Mask s, SsaPath* path) const {
    if (!(s & (s - 1))) return __builtin_ctz(s);
    const int a = grow(split_[s], path), b = grow(s ^ split_[s], path);
    path->emplace_back(a, b);
    return k_ + int(path->size()) - 1;
  }

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

}  // namespace

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
