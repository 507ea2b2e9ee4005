// The order of the labels first, by either rule; then the tree that contracts in this order.
#include "ops/contract/plan/eliminate.hpp"

#include <queue>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

// Weights are whole numbers, so that equal scores are equal whatever the order of summation; above
// 0, so that only a clique inside another has no weight outside it.
std::vector<int64_t> weights_of(const Network& network) {
  std::vector<int64_t> w;
  w.reserve(network.log2_extent.size());
  for (double e : network.log2_extent) w.push_back(std::max<int64_t>(1, std::llround(64 * e)));
  return w;
}

// Labels by score, equal scores at random; an entry counts if it is its label's newest.
class Queue {
 public:
  Queue(size_t labels, uint64_t seed) : newest_(labels), random_(seed) {}
  void push(int label, int64_t score) {
    const uint64_t ticket = random_.next();
    newest_[size_t(label)] = ticket;
    heap_.push({score, ticket, label});
  }
  void remove(int label) { newest_[size_t(label)] = 0; }
  int pop() {  // -1 if none is left
    while (!heap_.empty()) {
      const auto [score, ticket, label] = heap_.top();
      heap_.pop();
      if (newest_[size_t(label)] == ticket) return label;
    }
    return -1;
  }

 private:
  using Entry = std::tuple<int64_t, uint64_t, int>;
  std::vector<uint64_t> newest_;
  Random random_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

// A set of numbers that is emptied in no time.
class Marks {
 public:
  explicit Marks(size_t n) : at_(n) {}
  void clear() { ++now_; }
  bool has(int i) const { return at_[size_t(i)] == now_; }
  bool add(int i) { return std::exchange(at_[size_t(i)], now_) != now_; }  // was it new?

 private:
  std::vector<int> at_;
  int now_ = 1;
};

// The graph is a list of cliques: the tensors, and what eliminations made of them.
bool min_degree(const Network& network, uint64_t seed, Budget& budget, std::vector<int>& order) {
  const size_t labels = network.log2_extent.size();
  const std::vector<int64_t> weight = weights_of(network);
  std::vector<LabelSet> clique(network.tensors);
  std::vector<std::vector<int>> cliques(labels);  // by label, ascending
  std::vector<int64_t> size(clique.size()), outside(clique.size()), score(labels);
  for (size_t k = 0; k < clique.size(); ++k)
    for (int l : clique[k]) {
      cliques[size_t(l)].push_back(int(k));
      size[k] += weight[size_t(l)];
    }
  Queue queue(labels, seed);
  Marks marks(labels), seen(clique.size() + labels);
  for (size_t l = 0; l < labels; ++l) {
    if (network.open[l] || cliques[l].empty()) continue;
    marks.clear();
    double read = 1;
    for (int k : cliques[l]) {
      read += double(clique[size_t(k)].size());
      for (int m : clique[size_t(k)])
        if (marks.add(m)) score[l] += weight[size_t(m)];
    }
    if (!budget.spend(0.003 * read)) return false;
    queue.push(int(l), score[l]);
  }
  LabelSet merged;
  for (int v; (v = queue.pop()) >= 0;) {
    order.push_back(v);
    const int e = int(clique.size());
    double read = 10;
    merged.clear();
    marks.clear();
    marks.add(v);
    seen.clear();
    for (int k : cliques[size_t(v)]) {
      seen.add(k);  // from now on part of e
      read += double(clique[size_t(k)].size());
      for (int m : clique[size_t(k)])
        if (marks.add(m)) merged.push_back(m);
      LabelSet().swap(clique[size_t(k)]);
    }
    // A label that only e has costs nothing more: it goes at once.
    LabelSet rest;
    int64_t total = 0;
    for (int m : merged) {
      std::vector<int>& of = cliques[size_t(m)];
      read += double(of.size());
      std::erase_if(of, [&](int k) { return seen.has(k); });
      if (of.empty() && !network.open[size_t(m)]) {
        queue.remove(m);
        order.push_back(m);
      } else {
        rest.push_back(m);
        total += weight[size_t(m)];
      }
    }
    // outside[k]: the weight of the labels of k that e does not have.
    for (int m : rest)
      for (int k : cliques[size_t(m)]) {
        if (seen.add(k)) outside[size_t(k)] = size[size_t(k)];
        outside[size_t(k)] -= weight[size_t(m)];
      }
    // A clique inside e is part of e from now on; labels that have only e then go, too.
    std::erase_if(rest, [&](int m) {
      std::vector<int>& of = cliques[size_t(m)];
      read += double(of.size());
      std::erase_if(of, [&](int k) { return outside[size_t(k)] == 0; });
      if (!of.empty() || network.open[size_t(m)]) return false;
      queue.remove(m);
      order.push_back(m);
      total -= weight[size_t(m)];
      return true;
    });
    for (int m : rest) {
      int64_t bound = total;
      for (int k : cliques[size_t(m)]) bound += outside[size_t(k)];
      read += 2 * double(cliques[size_t(m)].size()) + 20;
      cliques[size_t(m)].push_back(e);
      if (network.open[size_t(m)]) continue;
      // What m saw before, without v, and what e adds: another bound.
      const int64_t grown = score[size_t(m)] + total - weight[size_t(m)];
      if (bound = std::min(bound, grown); bound == score[size_t(m)]) continue;
      score[size_t(m)] = bound;
      queue.push(m, bound);
    }
    clique.push_back(std::move(rest));
    size.push_back(total);
    outside.push_back(0);
    if (!budget.spend(0.003 * read)) return false;
  }
  return true;
}

// The graph is kept as lists of neighbours and the fill of each label is kept up to date: it
// changes with each edge and only near it. Open labels meet in the output: pairs of them are no
// fill and are not listed.
class MinFill {
 public:
  MinFill(const Network& network, uint64_t seed, Budget& budget)
      : network_(network),
        budget_(budget),
        weight_(weights_of(network)),
        near_(weight_.size()),
        fill_(weight_.size()),
        queue_(weight_.size(), seed),
        marks_(weight_.size()),
        touched_(weight_.size()) {}

  bool run(std::vector<int>& order) {
    if (!build()) return false;
    for (int v; (v = queue_.pop()) >= 0;) {
      order.push_back(v);
      if (!eliminate(v)) return false;
    }
    return true;
  }

 private:
  static constexpr double kMaxPairs = 3e7;

  bool build() {
    double pairs = 0;
    for (const LabelSet& t : network_.tensors) pairs += double(t.size()) * double(t.size());
    if (pairs > kMaxPairs) return false;
    std::vector<std::vector<int>> holders(near_.size());
    for (size_t t = 0; t < network_.tensors.size(); ++t)
      for (int l : network_.tensors[t]) holders[size_t(l)].push_back(int(t));
    for (int l = 0; l < int(near_.size()); ++l) {
      marks_.clear();
      marks_.add(l);
      double read = 1;
      for (int t : holders[size_t(l)]) {
        read += double(network_.tensors[size_t(t)].size());
        for (int m : network_.tensors[size_t(t)])
          if (marks_.add(m) && !(open(l) && open(m))) near_[size_t(l)].push_back(m);
      }
      if (!budget_.spend(0.003 * read)) return false;
    }
    for (int l = 0; l < int(near_.size()); ++l) {
      if (open(l) || holders[size_t(l)].empty()) continue;
      marks_.clear();
      int64_t sum = 0, sum_open = 0, none = 0;  // none: pairs, twice, that are no fill
      double read = 1;
      for (int m : near_[size_t(l)]) marks_.add(m);
      for (int m : near_[size_t(l)]) {
        const int64_t w = weight(m);
        sum += w;
        if (open(m)) sum_open += w;
        none += open(m) ? 0 : w * w;
        read += double(near_[size_t(m)].size());
        for (int x : near_[size_t(m)])
          if (marks_.has(x)) none += w * weight(x);
      }
      fill_[size_t(l)] = (sum * sum - sum_open * sum_open - none) / 2;
      queue_.push(l, fill_[size_t(l)]);
      if (!budget_.spend(0.002 * read)) return false;
    }
    return true;
  }

  // v goes, its neighbours become a clique.
  bool eliminate(int v) {
    std::vector<int> clique = std::move(near_[size_t(v)]);
    const auto first_open =
        std::stable_partition(clique.begin(), clique.end(), [&](int a) { return !open(a); });
    const size_t closed = size_t(first_open - clique.begin());
    double read = 10;
    touched_.clear();
    changed_.clear();
    for (int a : clique) {
      std::erase(near_[size_t(a)], v);
      read += double(near_[size_t(a)].size());
    }
    // Pairs of v and a neighbour of a that v does not see are no fill of a any more.
    marks_.clear();
    for (int a : clique) marks_.add(a);
    for (int a : clique) {
      int64_t lost = 0;
      for (int x : near_[size_t(a)])
        if (!marks_.has(x)) lost += weight(x);
      if (lost) change(a, -lost * weight(v));
      read += 2 * double(near_[size_t(a)].size());
    }
    for (size_t i = 0; i < closed; ++i) {
      const int a = clique[i];
      int64_t sum = 0, sum_open = 0;  // of the neighbours of a
      marks_.clear();
      for (int x : near_[size_t(a)]) {
        marks_.add(x);
        sum += weight(x);
        if (open(x)) sum_open += weight(x);
      }
      for (size_t j = i + 1; j < clique.size(); ++j) {
        const int b = clique[j];
        if (marks_.has(b)) continue;
        int64_t common = 0, other = 0;
        for (int x : near_[size_t(b)])
          if (marks_.has(x)) {
            common += weight(x);
            change(x, -weight(a) * weight(b));
          } else {
            other += weight(x);
          }
        change(a, (sum - common - (open(b) ? sum_open : 0)) * weight(b));
        change(b, other * weight(a));
        read += double(near_[size_t(b)].size());
        near_[size_t(a)].push_back(b);
        near_[size_t(b)].push_back(a);
        marks_.add(b);
        sum += weight(b);
        if (open(b)) sum_open += weight(b);
      }
    }
    for (int x : changed_)
      if (!open(x)) queue_.push(x, fill_[size_t(x)]);
    return budget_.spend(0.002 * read + 0.1 * double(changed_.size()));
  }
  void change(int label, int64_t by) {
    fill_[size_t(label)] += by;
    if (touched_.add(label)) changed_.push_back(label);
  }
  int64_t weight(int label) const { return weight_[size_t(label)]; }
  bool open(int label) const { return network_.open[size_t(label)]; }

  const Network& network_;
  Budget& budget_;
  std::vector<int64_t> weight_;
  std::vector<std::vector<int>> near_;
  std::vector<int64_t> fill_;
  Queue queue_;
  Marks marks_, touched_;
  std::vector<int> changed_;
};

class Tree {
 public:
  Tree(const Network& network, Budget& budget)
      : network_(network),
        budget_(budget),
        tensors_(network.tensors),
        uses_(network.open.begin(), network.open.end()),
        holders_(uses_.size()),
        into_(tensors_.size(), -1) {
    for (size_t t = 0; t < tensors_.size(); ++t)
      for (int l : tensors_[t]) {
        ++uses_[size_t(l)];
        holders_[size_t(l)].push_back(int(t));
      }
    for (LabelSet& t : tensors_)  // a label of one tensor alone makes no difference
      std::erase_if(t, [&](int l) { return uses_[size_t(l)] == 1 && !network.open[size_t(l)]; });
  }

  bool run(const std::vector<int>& order, SsaPath& path) {
    for (int l : order)
      if (!contract(std::exchange(holders_[size_t(l)], {}), path)) return false;
    // Only open labels are left: those with a common one first.
    for (size_t l = 0; l < holders_.size(); ++l)
      if (network_.open[l] && !contract(std::exchange(holders_[l], {}), path)) return false;
    std::vector<int> rest;
    for (size_t t = 0; t < tensors_.size(); ++t)
      if (into_[t] < 0) rest.push_back(int(t));
    return contract(rest, path);
  }

 private:
  static constexpr size_t kWindow = 48;

  double weight(const LabelSet& t) const {
    double s = 0;
    for (int l : t) s += network_.log2_extent[size_t(l)];
    return s;
  }
  double weight_of_union(const LabelSet& a, const LabelSet& b) const {
    double s = 0;
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      const int l = std::min(a[i], b[j]);
      s += network_.log2_extent[size_t(l)];
      i += a[i] == l;
      j += b[j] == l;
    }
    for (; i < a.size(); ++i) s += network_.log2_extent[size_t(a[i])];
    for (; j < b.size(); ++j) s += network_.log2_extent[size_t(b[j])];
    return s;
  }

  // Contracts all of these that are left to one: always the pair of least work, among the smallest
  // kWindow of them.
  bool contract(std::vector<int> all, SsaPath& path) {
    for (int& t : all) t = newest(t);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() < 2) return true;
    std::vector<std::pair<double, int>> sorted;
    if (all.size() > kWindow) {  // else all are in the window
      for (int t : all) sorted.push_back({weight(tensors_[size_t(t)]), t});
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < all.size(); ++i) all[i] = sorted[i].second;
    }
    std::vector<int> window;
    std::vector<double> work(kWindow * kWindow);  // [i * kWindow + j] for i > j
    const auto fill_row = [&](size_t i) {
      double read = 0;
      for (size_t j = 0; j < window.size(); ++j) {
        if (j == i) continue;
        const LabelSet &a = tensors_[size_t(window[i])], &b = tensors_[size_t(window[j])];
        work[std::max(i, j) * kWindow + std::min(i, j)] = weight_of_union(a, b);
        read += double(a.size() + b.size());
      }
      return budget_.spend(0.002 * read);
    };
    size_t next = 0;
    while (next < all.size() || window.size() > 1) {
      while (window.size() < kWindow && next < all.size()) {
        window.push_back(all[next++]);
        if (!fill_row(window.size() - 1)) return false;
      }
      size_t a = 1, b = 0;
      for (size_t i = 1; i < window.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (work[i * kWindow + j] < work[a * kWindow + b]) a = i, b = j;
      budget_.spend(0.2 + 0.002 * double(window.size() * window.size()));
      path.push_back({window[b], window[a]});
      window[b] = join(window[b], window[a]);
      const size_t last = window.size() - 1;  // takes the place of a
      window[a] = window[last];
      window.pop_back();
      if (a != last)
        for (size_t j = 0; j < last; ++j)
          if (j != a) work[std::max(a, j) * kWindow + std::min(a, j)] = work[last * kWindow + j];
      if (!fill_row(b)) return false;
    }
    return true;
  }

  int newest(int t) {
    int end = t;
    while (into_[size_t(end)] >= 0) end = into_[size_t(end)];
    while (t != end) t = std::exchange(into_[size_t(t)], end);
    return end;
  }
  int join(int a, int b) {
    const int id = int(tensors_.size());
    LabelSet all, kept;
    std::set_union(tensors_[size_t(a)].begin(), tensors_[size_t(a)].end(),
                   tensors_[size_t(b)].begin(), tensors_[size_t(b)].end(), std::back_inserter(all));
    for (int t : {a, b}) {
      for (int l : tensors_[size_t(t)]) --uses_[size_t(l)];
      LabelSet().swap(tensors_[size_t(t)]);
      into_[size_t(t)] = id;
    }
    for (int l : all)
      if (uses_[size_t(l)] > 0) {
        ++uses_[size_t(l)];
        kept.push_back(l);
      }
    budget_.spend(0.005 * double(all.size()));
    tensors_.push_back(std::move(kept));
    into_.push_back(-1);
    return id;
  }

  const Network& network_;
  Budget& budget_;
  std::vector<LabelSet> tensors_;
  std::vector<int> uses_;                  // holders that are left, and the output
  std::vector<std::vector<int>> holders_;  // by label, as in the network
  std::vector<int> into_;                  // by tensor: a later one that it is part of, or -1
};

}  // namespace

SsaPath eliminate(const Network& network, Elimination rule, uint64_t seed, Budget& budget) {
  std::vector<int> order;
  SsaPath path;
  const bool ordered = rule == Elimination::min_fill ? MinFill(network, seed, budget).run(order)
                                                     : min_degree(network, seed, budget, order);
  if (!ordered || !Tree(network, budget).run(order, path)) path.clear();
  return path;
}

}  // namespace gradus::plan
