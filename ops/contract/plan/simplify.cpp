// One heap of candidate pairs, least work first; entries with a tensor that is gone are skipped.
#include "ops/contract/plan/simplify.hpp"

#include "ops/contract/plan/heap.hpp"
#include "ops/contract/plan/state.hpp"

#include <tuple>

namespace gradus::inline v1::plan {

namespace {

// How many holders of a label are looked at: what hides behind a label of thousands of tensors may
// stay unsimplified, for the sake of near-linear time.
constexpr int kAsPart = 64, kAsWhole = 8;

class Simplifier {
 public:
  explicit Simplifier(const Network& network)
      : network_(network), state_(network), list_(state_.labels.size(), -1) {
    for (size_t l = 0; l < list_.size(); ++l)
      if (uses(int(l)) > 2) {
        list_[l] = int(holders_.size());
        holders_.emplace_back();
      }
    for (size_t k = 0; k < state_.tensors.size(); ++k) {
      list(int(k));
    }
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
    bool operator<(const Candidate& o) const {
      if (work != o.work) return work < o.work;
      if (result != o.result) return result < o.result;
      return part != o.part ? part < o.part : whole < o.whole;
    }
  };
  const State::Held& labels(int k) const { return state_.tensors[size_t(k)]; }
  bool is_subset(int a, int b) const {
    if (bits_[size_t(a)] & ~bits_[size_t(b)]) return false;
    return std::includes(labels(b).begin(), labels(b).end(), labels(a).begin(), labels(a).end());
  }
  void list(int k) {  // what is looked up of a new tensor
    uint64_t& bits = bits_.emplace_back(0);
    for (int l : labels(k)) {
      bits |= uint64_t(1) << (uint32_t(l) * 0x9e3779b9u >> 26);
      if (uses(l) > 2) holders_[size_t(list_[size_t(l)])].push_back(k);
    }
  }
  double extent(int l) const { return state_.labels[size_t(l)].log2_extent; }
  int uses(int l) const { return state_.labels[size_t(l)].uses; }

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
    list(id);
    look_at(id);
  }
  // Calls f for up to `most` tensors other than k that have the label; of a list those that are
  // gone leave it.
  template <class F>
  void for_others(int k, int label, int most, F&& f) {
    if (uses(label) <= 2) {
      if (const int other = uses(label) == 2 ? state_.other_than(k, label) : -1; other >= 0)
        f(other);
      return;
    }
    auto& h = holders_[size_t(list_[size_t(label)])];
    for (size_t i = 0; i < h.size() && most > 0;) {
      if (state_.alive[size_t(h[i])]) {
        if (h[i] != k) f(h[i]);
        ++i;
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
      for_others(k, l, kAsWhole, [&](int other) {
        if (is_subset(other, k)) push(other, k);
      });
    }
  }
  // Another part of the whole with which the part is better contracted first, since that takes less
  // than to go over the whole once more; -1 if there is none.
  int companion(const Candidate& c) {
    double least = c.result - 1e-9;
    int found = -1;
    for (int l : labels(c.whole))
      for_others(c.whole, l, kAsWhole, [&](int other) {
        if (other == c.part || other == found) return;
        if (!is_subset(other, c.whole)) return;
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
    const int rarest = *std::min_element(labels(k).begin(), labels(k).end(),
                                         [&](int a, int b) { return uses(a) < uses(b); });
    std::pair<double, int> best(0, -1);
    for_others(k, rarest, kAsPart, [&](int other) {
      const std::pair size(state_.log2_size[size_t(other)], other);
      if (is_subset(k, other) && (best.second < 0 || size < best)) best = size;
    });
    if (best.second >= 0) push(k, best.second);
  }
  void push(int part, int whole) {
    double summed = 0;
    for (int l : labels(part))
      if (uses(l) == 2) summed += extent(l);
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
        if (uses(l) == 1 && !network_.open[size_t(l)]) own += extent(l);
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
      list(scalars_.back());
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
    for (size_t l = 0; l < network_.open.size(); ++l)
      if (network_.open[l] && uses(int(l)) > 1) out += extent(int(l));
    if (out <= state_.log2_size[size_t(smallest)])
      state_.alive[size_t(scalars_[0])] = 0;  // expanded() finds it at the end
    else
      state_.contract(scalars_[0], smallest);
  }
  Simplified result() {
    Simplified r;
    // Labels that the same tensors have are one. They are told apart tensor by tensor: those of a
    // group that a tensor has leave it as a new group.
    std::vector<int> group(network_.open.begin(), network_.open.end());
    constexpr int kHeldByNone = 2;  // groups of labels that no tensor has
    int groups = kHeldByNone;
    std::vector<std::pair<int, int>> here;  // group, label
    for (size_t k = 0; k < state_.alive.size(); ++k) {
      if (!state_.alive[k]) continue;
      r.ids.push_back(int(k));
      here.clear();
      for (int l : labels(int(k))) here.emplace_back(group[size_t(l)], l);
      std::sort(here.begin(), here.end());
      for (size_t i = 0; i < here.size(); ++i) {
        if (i == 0 || here[i].first != here[i - 1].first) ++groups;
        group[size_t(here[i].second)] = groups - 1;
      }
    }
    std::vector<int> number(size_t(groups), -1);
    std::vector<char> stands(group.size());  // the first label of each group does, for all
    for (size_t l = 0; l < group.size(); ++l) {
      if (group[l] < kHeldByNone) continue;
      int& n = number[size_t(group[l])];
      if (n < 0) {
        stands[l] = 1;
        n = int(r.network.open.size());
        r.network.log2_extent.push_back(0);
        r.network.open.push_back(network_.open[l]);
      }
      r.network.log2_extent[size_t(n)] += extent(int(l));
    }
    for (const int k : r.ids) {
      LabelSet& set = r.network.tensors.emplace_back();
      for (int l : labels(k))
        if (stands[size_t(l)]) set.push_back(number[size_t(group[size_t(l)])]);
    }
    r.path = std::move(state_.path);
    r.network.time = network_.time;
    return r;
  }

  const Network& network_;
  State state_;
  std::vector<uint64_t> bits_;  // by tensor: one of 64 for each label
  std::vector<int> list_;       // by label: of its holders, -1: it has two uses at most
  std::vector<std::vector<int>> holders_;
  Heap<Candidate> heap_;
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
