#include "ops/contract/plan/slice.hpp"

#include "ops/contract/plan/anneal.hpp"
#include "ops/contract/plan/tree.hpp"

#include <iterator>
#include <limits>

namespace gradus::inline v1::plan {

namespace {

double log2_size(const Network& network, const LabelSet& set) {
  double size = 0;
  for (int l : set) size += network.log2_extent[size_t(l)];
  return size;
}

// What slicing each label changes, found in one pass over the tree.
struct Effects {
  double total = 0;            // log2 of the work of one slice
  double largest = 0;          // log2 of the largest result that counts
  std::vector<double> left;    // by label: share of the work that a slice keeps
  std::vector<double> relief;  // by label: log2 taken off results that are too large, summed
};
Effects effects_of(const Network& network, const Tree& tree, double allowed) {
  const size_t labels = network.log2_extent.size();
  Effects e;
  e.total = log2_total(tree.work);
  e.left.assign(labels, 1);
  e.relief.assign(labels, 0);
  LabelSet touched;
  for (int i = tree.leaves; i < tree.nodes(); ++i) {
    const LabelSet& a = tree.labels[size_t(tree.left[size_t(i)])];
    const LabelSet& b = tree.labels[size_t(tree.right[size_t(i)])];
    touched.clear();
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(touched));
    const double share = std::exp2(tree.work[size_t(i)] - e.total);
    for (int l : touched)
      e.left[size_t(l)] -= share * (1 - std::exp2(-network.log2_extent[size_t(l)]));
    if (i == tree.root()) continue;
    const double size = log2_size(network, tree.labels[size_t(i)]);
    e.largest = std::max(e.largest, size);
    if (size <= allowed + 1e-9) continue;
    for (int l : tree.labels[size_t(i)])
      e.relief[size_t(l)] += std::min(network.log2_extent[size_t(l)], size - allowed);
  }
  return e;
}

// -1: no label helps.
int choose(const Network& network, const Effects& e, double noise, Random& random) {
  int best = -1;
  double best_score = std::numeric_limits<double>::infinity();
  for (size_t l = 0; l < e.relief.size(); ++l) {
    if (e.relief[l] <= 0 || network.open[l]) continue;
    const double added = network.log2_extent[l] + std::log2(std::max(e.left[l], 1e-300));
    const double score = (added + 0.01) / e.relief[l] * (1 + noise * random.uniform());
    if (score < best_score) best_score = score, best = int(l);
  }
  return best;
}

}  // namespace

Sliced slice(const Network& network, const SsaPath& start, double log2_largest_allowed,
             uint64_t seed, Budget& budget) {
  Sliced best;
  best.path = start;
  if (network.tensors.size() < 2) return best;
  const double work = log2_total(tree_of(network, start).work);
  const double all = budget.left();
  constexpr int kTries = 8;
  Random random(seed);
  bool found = false, reached = false;
  for (int i = 0; i < kTries && (budget.any() || !found); ++i) {
    Network rest = network;  // with extents of 1 where it is sliced
    Sliced now;
    now.path = start;
    double slices = 0;  // log2 of their number
    Effects e;
    for (;;) {
      const Tree tree = tree_of(rest, now.path);
      e = effects_of(rest, tree, log2_largest_allowed);
      budget.spend(2 * double(tree.leaves));
      const int l =
          e.largest > log2_largest_allowed + 1e-9 ? choose(rest, e, i ? 1 : 0, random) : -1;
      if (l < 0) break;
      now.labels.push_back(l);
      slices += rest.log2_extent[size_t(l)];
      rest.log2_extent[size_t(l)] = 0;
      // A better order for what is left, unless it needs more memory.
      Budget part(std::min(budget.left(), all / 40));
      const double given = part.left();
      SsaPath path = reconfigure(rest, now.path, 8, random.next(), part);
      budget.spend(given - part.left());
      const double before = effects_of(rest, tree_of(rest, now.path), log2_largest_allowed).largest;
      const double after = effects_of(rest, tree_of(rest, path), log2_largest_allowed).largest;
      if (after <= std::max(before, log2_largest_allowed) + 1e-9) now.path = std::move(path);
    }
    now.log2_overhead = e.total + slices - work;
    const bool fits = e.largest <= log2_largest_allowed + 1e-9;
    if (!found || fits > reached ||
        (fits == reached && now.log2_overhead < best.log2_overhead - 1e-9)) {
      best = std::move(now);
      reached = fits;
    }
    found = true;
  }
  std::sort(best.labels.begin(), best.labels.end());
  return best;
}

}  // namespace gradus::plan
