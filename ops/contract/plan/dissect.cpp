#include "ops/contract/plan/dissect.hpp"

#include "ops/contract/plan/bisect.hpp"
#include "ops/contract/plan/eliminate.hpp"
#include "ops/contract/plan/subsets.hpp"

#include <numeric>

namespace gradus::inline v1::plan {

namespace {

// A child is a tensor t >= 0 or ~k for split k. Split 0 is the root, parents come before children.
using Split = std::pair<int, int>;

SsaPath path_of_splits(const std::vector<Split>& splits) {
  const int pairs = int(splits.size()), n = pairs + 1;
  SsaPath path;
  const auto id = [&](int child) { return child >= 0 ? child : n + pairs - 1 - ~child; };
  for (auto s = splits.rbegin(); s != splits.rend(); ++s)
    path.push_back({id(s->first), id(s->second)});
  return path;
}

// Log2 of a sum of powers of two.
double log2_sum(const std::vector<double>& work) {
  const double most = work.empty() ? -INFINITY : *std::max_element(work.begin(), work.end());
  if (std::isinf(most)) return most;
  double sum = 0;
  for (double w : work) sum += std::exp2(w - most);
  return most + std::log2(sum);
}

class Dissector {
 public:
  explicit Dissector(const Network& network)
      : network_(network), holders_(network.log2_extent.size(), 0), local_(holders_.size(), -1) {
    for (const LabelSet& tensor : network.tensors)
      for (int l : tensor) ++holders_[size_t(l)];
    for (size_t l = 0; l < holders_.size(); ++l) holders_[l] += network.open[l] ? 1 : 0;
  }

  // Splits of these tensors (two or more), or none if the budget ends first.
  std::vector<Split> splits(std::vector<int> tensors, const DissectOptions& options,
                            Budget& budget) {
    struct Part {
      size_t begin, end;
      int split;
    };
    Random random(options.seed);
    std::vector<Split> out(1);
    std::vector<Part> stack{{0, tensors.size(), 0}};
    std::vector<int> second;
    while (!stack.empty()) {
      const auto [begin, end, split] = stack.back();
      stack.pop_back();
      if (!budget.any()) return {};
      if (end - begin == 2) {
        out[size_t(split)] = {tensors[begin], tensors[begin + 1]};
        continue;
      }
      const int* first = tensors.data() + begin;
      if (end - begin <= size_t(std::max(options.leaf, 3))) {
        order_leaf(first, end - begin, split, random, budget, out);
        continue;
      }
      const std::vector<char> side = bisect_part(first, end - begin, options, random, budget);
      size_t middle = begin;
      second.clear();
      for (size_t i = begin; i < end; ++i)
        if (side[i - begin])
          second.push_back(tensors[i]);
        else
          tensors[middle++] = tensors[i];
      std::copy(second.begin(), second.end(), tensors.begin() + std::ptrdiff_t(middle));
      const auto child = [&](size_t b, size_t e) {
        if (e - b == 1) return tensors[b];
        out.emplace_back();
        const int k = int(out.size()) - 1;
        stack.push_back({b, e, k});
        return ~k;
      };
      const int a = child(begin, middle), b = child(middle, end);
      out[size_t(split)] = {a, b};
    }
    return out;
  }

  // log2 of the work of each split.
  std::vector<double> work(const std::vector<Split>& splits, Budget& budget) const {
    using Held = std::vector<std::pair<int, int>>;  // labels, and how many tensors below have them
    std::vector<Held> results(splits.size());
    std::vector<double> out(splits.size());
    size_t visited = 0;
    const auto take = [&](int child) {
      if (child < 0) return std::move(results[size_t(~child)]);
      Held held;
      for (int l : network_.tensors[size_t(child)]) held.push_back({l, 1});
      return held;
    };
    for (size_t k = splits.size(); k-- > 0;) {
      const Held a = take(splits[k].first), b = take(splits[k].second);
      visited += a.size() + b.size() + 10;
      Held& result = results[k];
      const auto add = [&](int l, int count) {
        out[k] += network_.log2_extent[size_t(l)];
        if (count < holders_[size_t(l)]) result.push_back({l, count});
      };
      size_t i = 0, j = 0;
      while (i < a.size() || j < b.size()) {
        if (j == b.size() || (i < a.size() && a[i].first < b[j].first))
          add(a[i].first, a[i].second), ++i;
        else if (i == a.size() || b[j].first < a[i].first)
          add(b[j].first, b[j].second), ++j;
        else
          add(a[i].first, a[i].second + b[j].second), ++i, ++j;
      }
    }
    budget.spend(0.005 * double(visited));
    return out;
  }

 private:
  // Numbers the labels of these tensors 0, 1, ... in `local_`; forget() undoes it.
  void number(const int* first, size_t n) {
    for (size_t i = 0; i < n; ++i)
      for (int l : network_.tensors[size_t(first[i])]) {
        if (local_[size_t(l)] < 0) {
          local_[size_t(l)] = int(names_.size());
          names_.push_back(l);
          here_.push_back(0);
        }
        ++here_[size_t(local_[size_t(l)])];
      }
  }
  void forget() {
    for (int l : names_) local_[size_t(l)] = -1;
    names_.clear();
    here_.clear();
  }
  bool outer(size_t local) const { return here_[local] < holders_[size_t(names_[local])]; }

  // The weight of a tensor's labels that the outside has too, a cut label shared by its holders.
  double shore_of(int tensor) const {
    double sum = 0;
    for (int l : network_.tensors[size_t(tensor)]) {
      const size_t local = size_t(local_[size_t(l)]);
      if (outer(local)) sum += network_.log2_extent[size_t(l)] / here_[local];
    }
    return sum;
  }

  std::vector<char> bisect_part(const int* first, size_t n, const DissectOptions& options,
                                Random& random, Budget& budget) {
    number(first, n);
    Hypergraph graph;
    graph.vertex_weight.assign(n, 1.0);
    if (options.pull) graph.terminal = int(n), graph.vertex_weight.push_back(0.0);
    std::vector<int> net(names_.size(), -1), at;
    for (size_t l = 0; l < names_.size(); ++l) {
      const bool pulled = options.pull && outer(l);
      if (here_[l] + pulled < 2) continue;
      net[l] = graph.nets();
      at.push_back(graph.net_start.back());
      graph.net_start.push_back(graph.net_start.back() + here_[l] + pulled);
      graph.net_weight.push_back(network_.log2_extent[size_t(names_[l])] *
                                 (outer(l) ? options.outer : 1.0));
    }
    graph.pins.resize(size_t(graph.net_start.back()));
    for (size_t i = 0; i < n; ++i)
      for (int l : network_.tensors[size_t(first[i])]) {
        const int e = net[size_t(local_[size_t(l)])];
        if (e >= 0) graph.pins[size_t(at[size_t(e)]++)] = int(i);
      }
    double shore = 0;
    for (size_t i = 0; i < n; ++i) shore += shore_of(first[i]);
    if (shore > 0)
      for (size_t i = 0; i < n; ++i)
        graph.vertex_weight[i] =
            1 - options.shore + options.shore * shore_of(first[i]) * double(n) / shore;
    if (options.pull)
      for (size_t e = 0; e < at.size(); ++e)
        if (at[e] < graph.net_start[e + 1]) graph.pins[size_t(at[e])] = int(n);
    budget.spend(0.02 * double(graph.pins.size() + n));
    forget();
    BisectOptions cut;
    cut.imbalance = options.imbalance;
    cut.seed = random.next();
    std::vector<char> side = bisect(graph, cut, budget);
    side.resize(n);
    return side;
  }

  void order_leaf(const int* first, size_t n, int split, Random& random, Budget& budget,
                  std::vector<Split>& out) {
    number(first, n);
    Network part;
    for (size_t l = 0; l < names_.size(); ++l) {
      part.log2_extent.push_back(network_.log2_extent[size_t(names_[l])]);
      part.open.push_back(outer(l));
    }
    for (size_t i = 0; i < n; ++i) {
      LabelSet labels;
      for (int l : network_.tensors[size_t(first[i])]) labels.push_back(local_[size_t(l)]);
      std::sort(labels.begin(), labels.end());
      part.tensors.push_back(std::move(labels));
    }
    const double m = double(names_.size());
    forget();
    budget.spend(n <= 8 ? 0.01 * std::pow(3.0, double(n)) + 2 : 0.05 * m * m + 20);
    SsaPath path;
    if (n <= 8) path = order_by_subsets(part);
    if (path.empty()) {
      Budget all(INFINITY);
      path = eliminate(part, Elimination::min_fill, random.next(), all);
      if (path.empty()) path = eliminate(part, Elimination::min_degree, random.next(), all);
    }
    const int base = int(out.size());
    out.resize(out.size() + n - 2);
    // The last pair is the leaf's root, the ones before it get numbers downwards from it.
    const auto number_of = [&](int pair) {
      return pair == int(n) - 2 ? split : base + int(n) - 3 - pair;
    };
    const auto child = [&](int id) { return id < int(n) ? first[id] : ~number_of(id - int(n)); };
    for (size_t k = 0; k + 1 < n; ++k)
      out[size_t(number_of(int(k)))] = {child(path[k].first), child(path[k].second)};
  }

  const Network& network_;
  std::vector<int> holders_;  // tensors that have each label, and one if it is open
  std::vector<int> local_, names_, here_;
};

// Draws options: afresh, or near some that did well before.
class Taste {
 public:
  explicit Taste(uint64_t seed) : random_(seed) {}

  DissectOptions draw(size_t tensors) {
    DissectOptions o;
    if (!liked_.empty() && random_.below(3)) {
      o = liked_[size_t(random_.below(int(liked_.size())))];
      o.imbalance = near(o.imbalance, 0.2, 0.02, 0.97);
      o.shore = near(o.shore, 0.2, 0, 1);
      o.outer = near(o.outer, 0.2, 0, 1);
    } else {
      o.imbalance = 0.05 + 0.92 * random_.uniform();
      o.shore = random_.below(4) ? 0.6 + 0.4 * random_.uniform() : random_.uniform();
      o.outer = random_.uniform() * random_.uniform();
      o.pull = random_.below(10) == 0;
    }
    const int leaves[] = {8, 8, 20, 50, 120};
    o.leaf = leaves[random_.below(5)];
    if (size_t(o.leaf) >= tensors && random_.below(4)) o.leaf = 8;
    o.seed = random_.next();
    return o;
  }
  void like(const DissectOptions& options) {
    if (liked_.size() < 16)
      liked_.push_back(options);
    else
      liked_[size_t(next_++ % 16)] = options;
  }
  Random& random() { return random_; }

 private:
  double near(double x, double by, double low, double high) {
    return std::clamp(x + by * (random_.uniform() - random_.uniform()), low, high);
  }

  Random random_;
  std::vector<DissectOptions> liked_;
  int next_ = 0;
};

// A tree that changes by subtrees: a new subtree takes the numbers of the old one's splits.
class Patient {
 public:
  Patient(Dissector& dissector, std::vector<Split> splits, std::vector<double> work)
      : dissector_(dissector), splits_(std::move(splits)), work_(std::move(work)) {
    parent_.assign(splits_.size(), -1);
    for (size_t k = 0; k < splits_.size(); ++k) adopt(int(k));
  }

  void operate(Taste& taste, Budget& budget) {
    Random& random = taste.random();
    while (budget.any()) {
      budget.spend(1 + 0.015 * double(splits_.size()));
      if (random.below(12) == 0) reroot(random.below(int(splits_.size())), budget);
      const int top = climb(costly(random), random);
      std::vector<int> numbers, tensors;
      std::vector<double> before;
      collect(top, numbers, tensors, before);
      if (tensors.size() < 3) {
        if (splits_.size() < 2) break;
        continue;
      }
      const DissectOptions options = taste.draw(tensors.size());
      const std::vector<Split> fresh = dissector_.splits(tensors, options, budget);
      if (fresh.empty()) break;
      const std::vector<double> after = dissector_.work(fresh, budget);
      const double change = log2_sum(after) - log2_sum(before);
      if (change > 0) continue;
      if (change < -1e-6) taste.like(options);
      const auto child = [&](int c) { return c >= 0 ? c : ~numbers[size_t(~c)]; };
      for (size_t k = 0; k < fresh.size(); ++k) {
        const size_t at = size_t(numbers[k]);
        splits_[at] = {child(fresh[k].first), child(fresh[k].second)};
        work_[at] = after[k];
        adopt(int(at));
      }
    }
  }

  SsaPath path() const { return path_of_splits(sorted()); }

 private:
  // The splits in the order of a walk from the root, so that parents come first.
  std::vector<Split> sorted() const {
    std::vector<int> order, tensors;
    std::vector<double> work;
    collect(0, order, tensors, work);
    std::vector<int> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[size_t(order[i])] = int(i);
    std::vector<Split> out;
    const auto child = [&](int c) { return c >= 0 ? c : ~place[size_t(~c)]; };
    for (int k : order)
      out.push_back({child(splits_[size_t(k)].first), child(splits_[size_t(k)].second)});
    return out;
  }
  // Puts the root on the edge above split `k`. Without open labels a split costs what its three
  // branches have in pairs, wherever the root is, so this is free and brings what was above the
  // split into a subtree. With open labels it may cost more, and then nothing is done.
  void reroot(int k, Budget& budget) {
    if (k == 0 || parent_[size_t(k)] == 0) return;
    budget.spend(0.03 * double(splits_.size()));
    const std::vector<Split> old = splits_;
    const auto replace = [&](int at, int from, int to) {
      Split& s = splits_[size_t(at)];
      (s.first == from ? s.first : s.second) = to;
    };
    int below = k, at = parent_[size_t(k)];
    const Split root{~k, ~at};
    while (at != 0) {
      const int up = parent_[size_t(at)];
      const Split& top = splits_[0];
      replace(at, ~below, up != 0 ? ~up : top.first == ~at ? top.second : top.first);
      below = at;
      at = up;
    }
    splits_[0] = root;
    std::vector<Split> fresh = sorted();
    std::vector<double> work = dissector_.work(fresh, budget);
    if (log2_sum(work) > log2_sum(work_) + 1e-9) {
      splits_ = old;
      return;
    }
    splits_ = std::move(fresh);
    work_ = std::move(work);
    for (size_t i = 0; i < splits_.size(); ++i) adopt(int(i));
    parent_[0] = -1;
  }
  void adopt(int k) {
    for (int c : {splits_[size_t(k)].first, splits_[size_t(k)].second})
      if (c < 0) parent_[size_t(~c)] = k;
  }
  void collect(int top, std::vector<int>& numbers, std::vector<int>& tensors,
               std::vector<double>& work) const {
    std::vector<int> stack{top};
    while (!stack.empty()) {
      const int k = stack.back();
      stack.pop_back();
      numbers.push_back(k);
      work.push_back(work_[size_t(k)]);
      for (int c : {splits_[size_t(k)].first, splits_[size_t(k)].second})
        if (c < 0)
          stack.push_back(~c);
        else
          tensors.push_back(c);
    }
  }
  // A split drawn by its share of the work, or more evenly: by the root or fourth root of it.
  int costly(Random& random) {
    const double power = std::exp2(-double(random.below(3)));
    const double most = *std::max_element(work_.begin(), work_.end());
    double sum = 0;
    shares_.clear();
    for (double w : work_) shares_.push_back(sum += std::exp2(power * (w - most)));
    const double draw = sum * random.uniform();
    const auto at = std::upper_bound(shares_.begin(), shares_.end(), draw);
    return std::min(int(at - shares_.begin()), int(shares_.size()) - 1);
  }
  int climb(int k, Random& random) const {
    while (parent_[size_t(k)] >= 0 && random.below(5) < 3) k = parent_[size_t(k)];
    return k;
  }

  Dissector& dissector_;
  std::vector<Split> splits_;
  std::vector<double> work_;
  std::vector<int> parent_;
  std::vector<double> shares_;
};

std::vector<int> all_tensors(const Network& network) {
  std::vector<int> all(network.tensors.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

SsaPath dissect(const Network& network, const DissectOptions& options, Budget& budget) {
  if (network.tensors.size() < 2) return {};
  const auto splits = Dissector(network).splits(all_tensors(network), options, budget);
  return splits.empty() ? SsaPath() : path_of_splits(splits);
}

SsaPath dissection(const Network& network, uint64_t seed, Budget& budget) {
  if (network.tensors.size() <= 8) return dissect(network, {}, budget);  // one leaf
  Dissector dissector(network);
  Taste taste(seed);
  const double reserve = 0.7 * budget.left();
  std::vector<Split> best;
  std::vector<double> best_work;
  double least = INFINITY;
  for (int attempt = 0; best.empty() || budget.left() > reserve; ++attempt) {
    DissectOptions options = taste.draw(network.tensors.size());
    if (attempt == 0) options = {.seed = options.seed};
    // Unbalanced trials of large networks may be long; only the first may use up what there is.
    const double allowed = attempt == 0 ? budget.left() : budget.left() - reserve;
    Budget trial(allowed);
    auto splits = dissector.splits(all_tensors(network), options, trial);
    budget.spend(allowed - trial.left());
    if (splits.empty()) break;
    auto work = dissector.work(splits, budget);
    const double cost = log2_sum(work);
    if (best.empty() || cost < least) {
      least = cost, best = std::move(splits), best_work = std::move(work);
      taste.like(options);
    }
  }
  if (best.empty()) return {};
  Patient patient(dissector, std::move(best), std::move(best_work));
  patient.operate(taste, budget);
  return patient.path();
}

SsaPath waist_surgery(const Network& network, const SsaPath& path, uint64_t seed, Budget& budget) {
  if (path.empty()) return {};
  const int n = int(network.tensors.size()), pairs = n - 1;
  std::vector<Split> splits;
  const auto child = [&](int id) { return id < n ? id : ~(pairs - 1 - (id - n)); };
  for (auto p = path.rbegin(); p != path.rend(); ++p)
    splits.push_back({child(p->first), child(p->second)});
  Dissector dissector(network);
  std::vector<double> work = dissector.work(splits, budget);
  Patient patient(dissector, std::move(splits), std::move(work));
  Taste taste(seed);
  patient.operate(taste, budget);
  return patient.path();
}

}  // namespace gradus::plan
