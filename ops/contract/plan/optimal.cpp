// Fills a table over all subsets of the tensors, the smaller ones first.
#include "ops/contract/plan/optimal.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

// Calls f(label, in_both) for every label of two sorted sets.
template <class F>
void for_union(const LabelSet& a, const LabelSet& b, F&& f) {
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

class Optimal {
 public:
  explicit Optimal(const Network& network) : network_(network), n_(network.tensors.size()) {
    masks_.resize(network.log2_extent.size());
    for (const double e : network.log2_extent) extent_.push_back(std::exp2(e));
    for (size_t k = 0; k < n_; ++k)
      for (int l : network.tensors[k]) masks_[size_t(l)] |= 1u << k;
  }
  SsaPath search() {
    table_.resize(size_t(1) << n_);
    for (uint32_t s = 1; s < table_.size(); ++s) fill(s);
    order(uint32_t(table_.size() - 1));
    return std::move(path_);
  }

 private:
  struct Entry {
    LabelSet labels;
    double cost = 0, elements = 0;  // sums over the steps below: flops, or seconds
    uint32_t left = 0;
  };
  void fill(uint32_t s) {
    Entry& entry = table_[s];
    if ((s & (s - 1)) == 0) {
      entry.labels = network_.tensors[size_t(__builtin_ctz(s))];
      return;
    }
    entry.cost = std::numeric_limits<double>::infinity();
    const uint32_t lowest = s & -s;
    for (uint32_t left = (s - 1) & s; left; left = (left - 1) & s)
      if (left & lowest) try_split(entry, s, left);
    const Entry &a = table_[entry.left], &b = table_[s ^ entry.left];
    for_union(a.labels, b.labels, [&](int l, bool) {
      if (stays(l, s)) entry.labels.push_back(l);
    });
  }
  bool stays(int label, uint32_t s) const {
    return network_.open[size_t(label)] || (masks_[size_t(label)] & ~s);
  }
  void try_split(Entry& entry, uint32_t s, uint32_t left) const {
    const Entry &a = table_[left], &b = table_[s ^ left];
    double products = 1, elements = 1;
    bool sums = false;
    for_union(a.labels, b.labels, [&](int l, bool) {
      const double n = extent_[size_t(l)];
      products *= n;
      if (stays(l, s))
        elements *= n;
      else
        sums = true;
    });
    double cost = (sums ? 2 : 1) * products;
    if (const auto& time = network_.time)
      cost = time->seconds(network_.log2_size(a.labels), network_.log2_size(b.labels),
                           std::log2(elements), std::log2(products));
    cost += a.cost + b.cost;
    elements += a.elements + b.elements;
    if (entry.left == 0 || std::tie(cost, elements) < std::tie(entry.cost, entry.elements)) {
      entry.cost = cost;
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
  std::vector<double> extent_;
  std::vector<uint32_t> masks_;  // the tensors that have a label
  std::vector<Entry> table_;     // by subset
  SsaPath path_;
};

}  // namespace

SsaPath optimal(const Network& network) { return Optimal(network).search(); }

}  // namespace gradus::plan
