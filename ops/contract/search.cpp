// The greedy search keeps a heap of candidate pairs and skips those whose tensors are gone; the
// optimal one fills a table over all subsets of the tensors.
#include "ops/contract/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace gradus::inline v1 {

namespace {

// Calls f(label, in_both) for every label of two sorted sets.
template <class F>
void for_union(const Labels& a, const Labels& b, F&& f) {
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i] < b[j]))
      f(a[i++], false);
    else if (i == a.size() || b[j] < a[i])
      f(b[j++], false);
    else
      f(a[i++], true), ++j;
  }
}

class Greedy {
 public:
  explicit Greedy(const Network& network)
      : network_(network),
        tensors_(network.tensors),
        alive_(tensors_.size(), true),
        uses_(network.extent.size()),
        holders_(network.extent.size()) {
    for (size_t l = 0; l < uses_.size(); ++l) uses_[l] = network.is_output[l];
    for (size_t k = 0; k < tensors_.size(); ++k)
      for (int64_t l : tensors_[k]) {
        ++uses_[size_t(l)];
        holders_[size_t(l)].push_back(int(k));
      }
  }
  SsaPath search() {
    merge_equal_sets();
    for (size_t k = 0; k < tensors_.size(); ++k)
      if (alive_[k]) push_candidates(int(k), true);
    while (!heap_.empty()) {
      const auto [cost, a, b] = heap_.top();
      heap_.pop();
      if (alive_[size_t(a)] && alive_[size_t(b)]) push_candidates(contract(a, b), false);
    }
    outer_products();
    return std::move(path_);
  }

 private:
  double size(const Labels& labels) const {
    double n = 1;
    for (int64_t l : labels) n *= network_.extent[size_t(l)];
    return n;
  }
  // A label stays if anyone but these two uses it.
  Labels result(int a, int b) const {
    Labels out;
    for_union(tensors_[size_t(a)], tensors_[size_t(b)], [&](int64_t l, bool both) {
      if (uses_[size_t(l)] - both > 1) out.push_back(l);
    });
    return out;
  }
  int contract(int a, int b) {
    Labels labels = result(a, b);
    const int id = int(tensors_.size());
    for_union(tensors_[size_t(a)], tensors_[size_t(b)],
              [&](int64_t l, bool both) { uses_[size_t(l)] -= both; });
    for (int64_t l : labels) holders_[size_t(l)].push_back(id);
    alive_[size_t(a)] = alive_[size_t(b)] = false;
    tensors_.push_back(std::move(labels));
    alive_.push_back(true);
    path_.emplace_back(std::min(a, b), std::max(a, b));
    return id;
  }
  void merge_equal_sets() {
    std::map<std::vector<int64_t>, int> known;
    for (size_t k = 0, n = tensors_.size(); k < n; ++k) {
      int id = int(k);
      while (true) {
        const Labels& labels = tensors_[size_t(id)];
        const auto [it, is_new] = known.emplace(std::vector(labels.begin(), labels.end()), id);
        if (is_new) break;
        const int other = it->second;
        known.erase(it);
        id = contract(other, id);
      }
    }
  }
  void push_candidates(int k, bool lower_only) {
    std::set<int> others;
    for (int64_t l : tensors_[size_t(k)]) {
      if (network_.is_output[size_t(l)]) continue;
      auto& holders = holders_[size_t(l)];
      std::erase_if(holders, [&](int h) { return !alive_[size_t(h)]; });
      for (int h : holders)
        if (h < k || (!lower_only && h != k)) others.insert(h);
    }
    for (int h : others)
      heap_.emplace(size(result(h, k)) - size(tensors_[size_t(h)]) - size(tensors_[size_t(k)]), h,
                    k);
  }
  void outer_products() {
    std::set<std::pair<double, int>> rest;
    for (size_t k = 0; k < tensors_.size(); ++k)
      if (alive_[k]) rest.emplace(size(tensors_[k]), int(k));
    while (rest.size() > 1) {
      const int a = rest.begin()->second, b = std::next(rest.begin())->second;
      rest.erase(rest.begin(), std::next(rest.begin(), 2));
      const int id = contract(a, b);
      rest.emplace(size(tensors_[size_t(id)]), id);
    }
  }

  using Candidate = std::tuple<double, int, int>;  // cost, lower, higher
  const Network& network_;
  std::vector<Labels> tensors_;
  std::vector<bool> alive_;
  std::vector<int> uses_;  // tensors alive that have the label, and the output
  std::vector<std::vector<int>> holders_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
  SsaPath path_;
};

class Optimal {
 public:
  explicit Optimal(const Network& network) : network_(network), n_(network.tensors.size()) {
    masks_.resize(network.extent.size());
    for (size_t k = 0; k < n_; ++k)
      for (int64_t l : network.tensors[k]) masks_[size_t(l)] |= 1u << k;
  }
  SsaPath search() {
    table_.resize(size_t(1) << n_);
    for (uint32_t s = 1; s < table_.size(); ++s) fill(s);
    order(uint32_t(table_.size() - 1));
    return std::move(path_);
  }

 private:
  struct Entry {
    Labels labels;
    double flops = 0, elements = 0;  // sums over the steps below
    uint32_t left = 0;
  };
  void fill(uint32_t s) {
    Entry& entry = table_[s];
    if ((s & (s - 1)) == 0) {
      entry.labels = network_.tensors[size_t(__builtin_ctz(s))];
      return;
    }
    entry.flops = std::numeric_limits<double>::infinity();
    const uint32_t lowest = s & -s;
    for (uint32_t left = (s - 1) & s; left; left = (left - 1) & s)
      if (left & lowest) try_split(entry, s, left);
    const Entry &a = table_[entry.left], &b = table_[s ^ entry.left];
    for_union(a.labels, b.labels, [&](int64_t l, bool) {
      if (stays(l, s)) entry.labels.push_back(l);
    });
  }
  bool stays(int64_t label, uint32_t s) const {
    return network_.is_output[size_t(label)] || (masks_[size_t(label)] & ~s);
  }
  void try_split(Entry& entry, uint32_t s, uint32_t left) const {
    const Entry &a = table_[left], &b = table_[s ^ left];
    double products = 1, elements = 1;
    bool sums = false;
    for_union(a.labels, b.labels, [&](int64_t l, bool) {
      const double n = network_.extent[size_t(l)];
      products *= n;
      if (stays(l, s))
        elements *= n;
      else
        sums = true;
    });
    const double flops = a.flops + b.flops + (sums ? 2 : 1) * products;
    elements += a.elements + b.elements;
    if (entry.left == 0 || std::tie(flops, elements) < std::tie(entry.flops, entry.elements)) {
      entry.flops = flops;
      entry.elements = elements;
      entry.left = left;
    }
  }
  int order(uint32_t s) {
    if ((s & (s - 1)) == 0) return __builtin_ctz(s);
    const int a = order(table_[s].left), b = order(s ^ table_[s].left);
    path_.emplace_back(std::min(a, b), std::max(a, b));
    return int(n_ + path_.size() - 1);
  }

  const Network& network_;
  size_t n_;
  std::vector<uint32_t> masks_;  // the tensors that have a label
  std::vector<Entry> table_;     // by subset
  SsaPath path_;
};

}  // namespace

SsaPath greedy_order(const Network& network) { return Greedy(network).search(); }
SsaPath optimal_order(const Network& network) { return Optimal(network).search(); }

SsaPath left_order(size_t tensors) {
  SsaPath path;
  for (size_t k = 1; k < tensors; ++k)
    path.emplace_back(k == 1 ? 0 : int(k), k == 1 ? 1 : int(tensors + k - 2));
  return path;
}

}  // namespace gradus
