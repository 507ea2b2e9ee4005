// A label is held by the results on the ways from its tensors up to the step where the last of
// them meet. Where two tensors meet is the latest of the steps that join neighbours between them in
// an order of the leaves in which each result is a stretch, so no result's label set is ever
// built: n log n however large the sets would be.
#include "ops/contract/plan/network.hpp"

namespace gradus::inline v1::plan {

namespace {

void check(size_t tensors, const SsaPath& path) {
  const size_t pairs = tensors < 2 ? 0 : tensors - 1;
  if (path.size() != pairs)
    fail(ErrorKind::value, "einsum", "the contraction order has ", path.size(), " pairs; ", tensors,
         " tensors take ", pairs);
  std::vector<char> used(tensors + pairs);
  for (size_t i = 0; i < pairs; ++i)
    for (int id : {path[i].first, path[i].second}) {
      if (id < 0 || size_t(id) >= tensors + i)
        fail(ErrorKind::value, "einsum", "pair ", i, " of the contraction order names tensor ", id,
             "; there are ", tensors + i, " by then");
      if (used[size_t(id)]++)
        fail(ErrorKind::value, "einsum", "pair ", i, " of the contraction order names tensor ", id,
             ", which is contracted already");
    }
}

// The leaves in an order in which every result is a stretch: next[k] follows leaf k, and step
// joined[k] is the one that put them side by side.
struct Leaves {
  int first = 0;
  std::vector<int> next, joined;
};
Leaves leaves_in_order(size_t n, const SsaPath& path) {
  Leaves leaves{0, std::vector<int>(n, -1), std::vector<int>(n, -1)};
  std::vector<int> head(n + path.size()), tail(n + path.size());
  for (size_t k = 0; k < n; ++k) head[k] = tail[k] = int(k);
  for (size_t i = 0; i < path.size(); ++i) {
    const size_t a = size_t(path[i].first), b = size_t(path[i].second);
    leaves.next[size_t(tail[a])] = head[b];
    leaves.joined[size_t(tail[a])] = int(i);
    head[n + i] = head[a];
    tail[n + i] = tail[b];
  }
  leaves.first = head.back();
  return leaves;
}

}  // namespace

Cost cost_of(const Network& network, const SsaPath& path) {
  const size_t n = network.tensors.size(), steps = path.size();
  check(n, path);
  if (steps == 0) return {};
  // An extent of 0 counts as 1: a difference of infinities would be nothing at all.
  const auto weight = [&](int l) { return std::max(0.0, network.log2_extent[size_t(l)]); };

  std::vector<int> parent(n);
  for (size_t i = 0; i < steps; ++i)
    for (int id : {path[i].first, path[i].second})
      if (size_t(id) < n) parent[size_t(id)] = int(i);

  // shared[i]: of the labels that both operands of step i have; summed[i]: of those it sums.
  std::vector<double> shared(steps), summed(steps);
  std::vector<int> last(network.log2_extent.size(), -1), top(network.log2_extent.size(), -1);
  // For the leaves so far, places and steps of the joints that are later than all joints after
  // them: the first entry from a place on is the latest joint from there to here.
  std::vector<std::pair<int, int>> joints;
  const Leaves leaves = leaves_in_order(n, path);
  int place = 0;
  for (int k = leaves.first; k >= 0; k = leaves.next[size_t(k)], ++place) {
    for (int l : network.tensors[size_t(k)]) {
      int meet = parent[size_t(k)];
      if (last[size_t(l)] >= 0) {
        meet =
            std::lower_bound(joints.begin(), joints.end(), std::pair(last[size_t(l)], -1))->second;
        shared[size_t(meet)] += weight(l);
      }
      top[size_t(l)] = std::max(top[size_t(l)], meet);
      last[size_t(l)] = place;
    }
    const int joint = leaves.joined[size_t(k)];
    while (!joints.empty() && joints.back().second < joint) joints.pop_back();
    joints.emplace_back(place, joint);
  }
  for (size_t l = 0; l < top.size(); ++l)
    if (top[l] >= 0 && !network.open[l]) summed[size_t(top[l])] += weight(int(l));

  std::vector<double> size(n + steps), work(steps);
  for (size_t k = 0; k < n; ++k)
    for (int l : network.tensors[k]) size[k] += weight(l);
  Cost cost;
  double most = 0, sum = 0;
  for (size_t i = 0; i < steps; ++i) {
    work[i] = size[size_t(path[i].first)] + size[size_t(path[i].second)] - shared[i];
    size[n + i] = work[i] - summed[i];
    most = std::max(most, work[i]);
    cost.log2_largest = std::max(cost.log2_largest, size[n + i]);
  }
  for (double w : work) sum += std::exp2(w - most);
  cost.log2_cost = cost.log2_mults = most + std::log2(sum);
  if (network.time) {
    sum = 0;
    for (size_t i = 0; i < steps; ++i)
      sum += network.time->seconds(size[size_t(path[i].first)], size[size_t(path[i].second)],
                                   size[n + i], work[i]);
    cost.log2_cost = std::log2(sum);
  }
  return cost;
}

}  // namespace gradus::plan
