#include "ops/contract/plan/leaf.hpp"

#include <bit>
#include <limits>

namespace gradus::inline v1::plan {

SsaPath order_by_subsets(const Network& network) {
  const size_t n = network.tensors.size();
  if (n < 2) return {};
  const size_t full = (size_t(1) << n) - 1;
  std::vector<size_t> holders(network.log2_extent.size(), 0);
  for (size_t t = 0; t < n; ++t)
    for (int l : network.tensors[t]) holders[size_t(l)] |= size_t(1) << t;
  // Work of a with b = all labels that touch either, less those summed before, within a or b.
  std::vector<double> touching(full + 1, 0), within(full + 1, 0);
  for (size_t l = 0; l < holders.size(); ++l)
    for (size_t s = 1; holders[l] && s <= full; ++s) {
      if (s & holders[l]) touching[s] += network.log2_extent[l];
      if ((s & holders[l]) == holders[l] && !network.open[l] && std::popcount(s) > 1)
        within[s] += network.log2_extent[l];
    }
  std::vector<double> best(full + 1, std::numeric_limits<double>::infinity());
  std::vector<size_t> part(full + 1, 0);
  for (size_t s = 1; s <= full; ++s) {
    if (std::popcount(s) == 1) {
      best[s] = 0;
      continue;
    }
    const size_t low = s & (~s + 1), others = s ^ low;
    for (size_t a = others;; a = (a - 1) & others) {  // `low` goes with what is not in a
      const size_t b = s ^ a;
      if (a) {
        const double rest = best[a] + best[b];
        if (rest < best[s]) {
          const double sum = rest + std::exp2(touching[s] - within[a] - within[b] - touching[full]);
          if (sum < best[s]) best[s] = sum, part[s] = a;
        }
      }
      if (!a) break;
    }
  }
  // Parents first, then reversed: a split's number is counted from the root.
  std::vector<std::pair<size_t, int>> stack{{full, 0}};
  std::vector<std::pair<int, int>> splits(1);
  const auto node = [&](size_t s) {
    if (std::popcount(s) == 1) return std::countr_zero(s);
    splits.emplace_back();
    stack.push_back({s, int(splits.size()) - 1});
    return int(2 * n) - 1 - int(splits.size());
  };
  while (!stack.empty()) {
    const auto [s, k] = stack.back();
    stack.pop_back();
    const int a = node(part[s]), b = node(s ^ part[s]);
    splits[size_t(k)] = {a, b};
  }
  return {splits.rbegin(), splits.rend()};
}

namespace {

using Bits = std::vector<uint64_t>;

class Fill {
 public:
  explicit Fill(const Network& network)
      : network_(network),
        labels_(network.log2_extent.size()),
        words_((labels_ + 63) / 64),
        near_(labels_, Bits(words_, 0)),
        uses_(labels_, 0) {
    Bits open(words_, 0);
    for (size_t l = 0; l < labels_; ++l)
      if (network.open[l]) set(open, l), ++uses_[l];
    for (const LabelSet& tensor : network.tensors) {
      Bits bits(words_, 0);
      for (int l : tensor) set(bits, size_t(l)), ++uses_[size_t(l)];
      for (int l : tensor) unite(near_[size_t(l)], bits);
      tensors_.push_back(std::move(bits));
      alive_.push_back(int(alive_.size()));
    }
    for (size_t l = 0; l < labels_; ++l)
      if (network.open[l]) unite(near_[l], open);
  }

  SsaPath order(double jitter, Random& random) {
    std::vector<double> score(labels_, -1);  // -1: to be computed
    std::vector<char> left(labels_);
    for (size_t l = 0; l < labels_; ++l) left[l] = !network_.open[l] && uses_[l] > 0;
    for (;;) {
      size_t pick = labels_;
      for (size_t l = 0; l < labels_; ++l) {
        if (!left[l]) continue;
        if (score[l] < 0)
          score[l] = (fill(l) + 0.01 * near_weight(l)) * (1 + jitter * random.uniform());
        if (pick == labels_ || score[l] < score[pick]) pick = l;
      }
      if (pick == labels_) break;
      left[pick] = 0;
      eliminate(pick, score);
    }
    combine(std::move(alive_));
    return std::move(path_);
  }

 private:
  static void set(Bits& bits, size_t l) { bits[l / 64] |= uint64_t(1) << (l % 64); }
  static void clear(Bits& bits, size_t l) { bits[l / 64] &= ~(uint64_t(1) << (l % 64)); }
  static bool has(const Bits& bits, size_t l) { return bits[l / 64] >> (l % 64) & 1; }
  static void unite(Bits& a, const Bits& b) {
    for (size_t w = 0; w < a.size(); ++w) a[w] |= b[w];
  }
  template <class F>
  static void each(uint64_t word, size_t w, F&& f) {
    for (; word; word &= word - 1) f(w * 64 + size_t(std::countr_zero(word)));
  }
  template <class F>
  void each(const Bits& bits, F&& f) const {
    for (size_t w = 0; w < words_; ++w) each(bits[w], w, f);
  }
  double near_weight(size_t l) const {
    double sum = 0;
    each(near_[l], [&](size_t u) { sum += network_.log2_extent[u]; });
    return sum;
  }
  double fill(size_t l) const {
    double sum = 0;
    each(near_[l], [&](size_t u) {
      if (u == l) return;
      double missing = 0;
      for (size_t w = 0; w < words_; ++w)
        each(near_[l][w] & ~near_[u][w], w,
             [&](size_t v) { missing += v == l ? 0 : network_.log2_extent[v]; });
      sum += missing * network_.log2_extent[u];
    });
    return sum;
  }
  void eliminate(size_t l, std::vector<double>& score) {
    const Bits clique = near_[l];
    each(clique, [&](size_t u) {
      unite(near_[u], clique);
      clear(near_[u], l);
    });
    // The pairs missing around u change only if u touches the clique.
    for (size_t u = 0; u < labels_; ++u)
      for (size_t w = 0; w < words_; ++w)
        if (near_[u][w] & clique[w]) {
          score[u] = -1;
          break;
        }
    std::vector<int> bucket, rest;
    for (int t : alive_) (has(tensors_[size_t(t)], l) ? bucket : rest).push_back(t);
    alive_ = std::move(rest);
    if (!bucket.empty()) alive_.push_back(combine(std::move(bucket)));
  }
  double united_weight(const Bits& a, const Bits& b) const {
    double sum = 0;
    for (size_t w = 0; w < words_; ++w)
      each(a[w] | b[w], w, [&](size_t u) { sum += network_.log2_extent[u]; });
    return sum;
  }
  // Contracts these tensors, the smallest first and with the partner that adds the least.
  int combine(std::vector<int> bucket) {
    while (bucket.size() > 1) {
      size_t a = 0, b = 0;
      double least = INFINITY;
      for (size_t i = 0; i < bucket.size(); ++i) {
        const Bits& bits = tensors_[size_t(bucket[i])];
        const double w = united_weight(bits, bits);
        if (w < least) least = w, a = i;
      }
      least = INFINITY;
      for (size_t i = 0; i < bucket.size(); ++i) {
        if (i == a) continue;
        const double w = united_weight(tensors_[size_t(bucket[a])], tensors_[size_t(bucket[i])]);
        if (w < least) least = w, b = i;
      }
      Bits result = tensors_[size_t(bucket[a])];
      const Bits& other = tensors_[size_t(bucket[b])];
      for (size_t w = 0; w < words_; ++w)
        each(result[w] & other[w], w, [&](size_t u) { --uses_[u]; });
      unite(result, other);
      for (size_t w = 0; w < words_; ++w)
        each(result[w], w, [&](size_t u) {
          if (uses_[u] == 1) clear(result, u);
        });
      path_.push_back({bucket[a], bucket[b]});
      bucket[a] = int(tensors_.size());
      tensors_.push_back(std::move(result));
      bucket[b] = bucket.back();
      bucket.pop_back();
    }
    return bucket.empty() ? -1 : bucket[0];
  }

  const Network& network_;
  size_t labels_, words_;
  std::vector<Bits> near_;  // the labels that each label shares a tensor with, itself included
  std::vector<int> uses_;   // holders of each label, and one if it is open
  std::vector<Bits> tensors_;
  std::vector<int> alive_;
  SsaPath path_;
};

}  // namespace

SsaPath order_by_fill(const Network& network, double jitter, Random& random) {
  if (network.tensors.size() < 2) return {};
  return Fill(network).order(jitter, random);
}

}  // namespace gradus::plan
