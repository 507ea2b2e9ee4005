// One heap of candidate pairs, least work first; entries with a tensor that is gone are skipped.
#include "ops/contract/plan/simplify.hpp"

#include "ops/contract/plan/state.hpp"

#include <compare>
#include <queue>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

// How many holders of a label are looked at: what hides behind a label of thousands of tensors may
// stay unsimplified, for the sake of near-linear time.
constexpr int kAsPart = 64, kAsWhole = 8;

bool is_subset(const LabelSet& a, const LabelSet& b) {
  return a.size() <= b.size() && std::includes(b.begin(), b.end(), a.begin(), a.end());
}

class Simplifier {
 public:
  explicit Simplifier(const Network& network)
      : network_(network), state_(network), holders_(network.log2_extent.size()) {
    for (size_t k = 0; k < state_.tensors.size(); ++k)
      for (int l : state_.tensors[k]) holders_[size_t(l)].push_back(int(k));
  }
  Simplified run() {
    for (size_t k = 0, n = state_.alive.size(); k < n; ++k) look_at(int(k));
    contract_candidates();
    // A scalar has to be multiplied into something: best into a tensor with labels that are its
    // own, which that sums. If the tensor has no others, the scalar can go on to the next.
    for (int k : with_own_labels()) {
      merge_scalars();
      if (scalars_.empty()) break;
      if (!state_.alive[size_t(k)]) continue;
      const int scalar = scalars_.back();
      scalars_.pop_back();
      contract(scalar, k);
      contract_candidates();
    }
    place_scalar();
    return result();
  }

 private:
  struct Candidate {
    double work, result;  // log2
    int part, whole;
    auto operator<=>(const Candidate&) const = default;
  };
  const LabelSet& labels(int k) const { return state_.tensors[size_t(k)]; }
  double extent(int l) const { return state_.log2_extent[size_t(l)]; }

  void contract_candidates() {
    while (!heap_.empty()) {
      const Candidate c = heap_.top();
      heap_.pop();
      if (!state_.alive[size_t(c.part)]) continue;
      if (!state_.alive[size_t(c.whole)]) {
        look_for_whole(c.part);
      } else {
        const int other = companion(c);
        contract(c.part, other < 0 ? c.whole : other);
      }
    }
  }
  void contract(int a, int b) {
    const int id = state_.contract(a, b);
    for (int l : labels(id)) holders_[size_t(l)].push_back(id);
    look_at(id);
  }
  // Calls f for up to `most` tensors that have the label; those that are gone leave the list.
  template <class F>
  void for_holders(int label, int most, F&& f) {
    auto& h = holders_[size_t(label)];
    for (size_t i = 0; i < h.size() && most > 0;) {
      if (state_.alive[size_t(h[i])]) {
        f(h[i++]);
        --most;
      } else {
        h[i] = h.back();
        h.pop_back();
      }
    }
  }
  void look_at(int k) {
    if (labels(k).empty()) {
      scalars_.push_back(k);
      return;
    }
    look_for_whole(k);
    for (int l : labels(k)) {
      for_holders(l, kAsWhole, [&](int other) {
        if (other != k && is_subset(labels(other), labels(k))) push(other, k);
      });
    }
  }
  // Another part of the whole with which the part is better contracted first, since that takes less
  // than to go over the whole once more; -1 if there is none.
  int companion(const Candidate& c) {
    double least = c.result - 1e-9;
    int found = -1;
    for (int l : labels(c.whole))
      for_holders(l, kAsWhole, [&](int other) {
        if (other == c.part || other == c.whole || other == found) return;
        if (!is_subset(labels(other), labels(c.whole))) return;
        double both = state_.log2_size[size_t(c.part)];
        for (int m : labels(other))
          if (!std::binary_search(labels(c.part).begin(), labels(c.part).end(), m))
            both += extent(m);
        if (both < least) {
          least = both;
          found = other;
        }
      });
    return found;
  }
  // The smallest tensor that has all labels of k, among the holders of k's rarest label.
  void look_for_whole(int k) {
    const int rarest = *std::min_element(labels(k).begin(), labels(k).end(), [&](int a, int b) {
      return state_.uses[size_t(a)] < state_.uses[size_t(b)];
    });
    std::pair<double, int> best(0, -1);
    for_holders(rarest, kAsPart, [&](int other) {
      const std::pair size(state_.log2_size[size_t(other)], other);
      if (other != k && is_subset(labels(k), labels(other)) && (best.second < 0 || size < best))
        best = size;
    });
    if (best.second >= 0) push(k, best.second);
  }
  void push(int part, int whole) {
    double summed = 0;
    for (int l : labels(part))
      if (state_.uses[size_t(l)] == 2) summed += extent(l);
    const double work = state_.log2_size[size_t(whole)];
    heap_.push({work, work - summed, part, whole});
  }
  // Those of the tensors that have labels that nothing else has: first those that have no others,
  // smallest first, then those that shrink most. Results have no such labels.
  std::vector<int> with_own_labels() const {
    std::vector<std::tuple<bool, double, int>> found;
    for (size_t k = 0; k < network_.tensors.size(); ++k) {
      double own = 0;
      for (int l : labels(int(k)))
        if (state_.uses[size_t(l)] == 1 && !network_.open[size_t(l)]) own += extent(l);
      const bool others = own < state_.log2_size[k];
      if (own > 0) found.emplace_back(others, others ? -own : own, int(k));
    }
    std::sort(found.begin(), found.end());
    std::vector<int> order;
    for (const auto& f : found) order.push_back(std::get<2>(f));
    return order;
  }
  void merge_scalars() {
    while (scalars_.size() > 1) {
      const int a = scalars_.back();
      scalars_.pop_back();
      scalars_.back() = state_.contract(scalars_.back(), a);
    }
  }
  void place_scalar() {
    merge_scalars();
    int smallest = -1;
    for (size_t k = 0; k < state_.alive.size(); ++k)
      if (state_.alive[k] && !labels(int(k)).empty() &&
          (smallest < 0 || state_.log2_size[k] < state_.log2_size[size_t(smallest)]))
        smallest = int(k);
    if (scalars_.empty() || smallest < 0) return;
    double out = 0;
    for (size_t l = 0; l < holders_.size(); ++l)
      if (network_.open[l] && !holders_[l].empty()) out += extent(int(l));
    if (out <= state_.log2_size[size_t(smallest)])
      state_.alive[size_t(scalars_[0])] = 0;  // expanded() finds it at the end
    else
      state_.contract(scalars_[0], smallest);
  }
  Simplified result() {
    Simplified r;
    std::vector<std::vector<int>> where(holders_.size());  // the tensors, by label
    for (size_t k = 0; k < state_.alive.size(); ++k)
      if (state_.alive[k]) {
        for (int l : labels(int(k))) where[size_t(l)].push_back(int(r.ids.size()));
        r.ids.push_back(int(k));
      }
    // Labels of the same tensors stand side by side once they are sorted; the first one stays.
    std::vector<int> order;
    for (size_t l = 0; l < where.size(); ++l)
      if (!where[l].empty()) order.push_back(int(l));
    const auto key = [&](int l) { return std::tie(where[size_t(l)], network_.open[size_t(l)]); };
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::tuple_cat(key(a), std::tie(a)) < std::tuple_cat(key(b), std::tie(b));
    });
    std::vector<int> first(where.size(), -1);
    for (size_t i = 0; i < order.size(); ++i)
      first[size_t(order[i])] =
          i > 0 && key(order[i - 1]) == key(order[i]) ? first[size_t(order[i - 1])] : order[i];
    std::vector<int> number(where.size());
    r.network.tensors.resize(r.ids.size());
    for (size_t l = 0; l < where.size(); ++l) {
      if (first[l] < 0) continue;
      if (first[l] == int(l)) {
        number[l] = int(r.network.open.size());
        for (int k : where[l]) r.network.tensors[size_t(k)].push_back(number[l]);
        r.network.log2_extent.push_back(0);
        r.network.open.push_back(network_.open[l]);
      }
      r.network.log2_extent[size_t(number[size_t(first[l])])] += extent(int(l));
    }
    r.path = std::move(state_.path);
    r.network.time = network_.time;
    return r;
  }

  const Network& network_;
  State state_;
  std::vector<std::vector<int>> holders_;  // by label
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
  std::vector<int> scalars_;
};

}  // namespace

Simplified simplify(const Network& network) { return Simplifier(network).run(); }

SsaPath expanded(const Simplified& simplified, size_t n_original, const SsaPath& rest) {
  const size_t left = simplified.ids.size();
  if (rest.empty() && left > 1) return {};
  SsaPath path = simplified.path;
  const size_t made = n_original + path.size();
  const auto original = [&](int id) {
    return size_t(id) < left ? simplified.ids[size_t(id)] : int(made - left) + id;
  };
  for (const auto& [a, b] : rest) path.emplace_back(original(a), original(b));
  // What no pair has used up by now are the result and perhaps a scalar.
  std::vector<char> used(n_original + path.size());
  for (const auto& [a, b] : path) used[size_t(a)] = used[size_t(b)] = 1;
  int before = -1;
  for (size_t id = 0; id < used.size(); ++id) {
    if (used[id]) continue;
    if (before >= 0) {
      path.emplace_back(before, int(id));
      break;
    }
    before = int(id);
  }
  return path;
}

}  // namespace gradus::plan
