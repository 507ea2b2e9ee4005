// First components and labels are sorted out without a limit on size; then a search over bitsets of
// just enough words finds the tree of each component.
#include "ops/contract/plan/exact.hpp"

#include <bit>
#include <queue>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLess = 1e-9;  // what differs by rounding is not less
constexpr double kRise = 3;
constexpr int kSmall = 10;
constexpr size_t kMaxBytes = size_t(1) << 29;

template <int W>
struct Bits {
  uint64_t w[W] = {};
  void set(int i) { w[i / 64] |= uint64_t(1) << (i % 64); }
  bool operator==(const Bits&) const = default;
  bool meets(const Bits& o) const {
    uint64_t any = 0;
    for (int i = 0; i < W; ++i) any |= w[i] & o.w[i];
    return any != 0;
  }
  bool within(const Bits& o) const {
    uint64_t rest = 0;
    for (int i = 0; i < W; ++i) rest |= w[i] & ~o.w[i];
    return rest == 0;
  }
  template <class F>
  Bits with(const Bits& o, F f) const {
    Bits r;
    for (int i = 0; i < W; ++i) r.w[i] = f(w[i], o.w[i]);
    return r;
  }
  Bits operator|(const Bits& o) const {
    return with(o, [](uint64_t a, uint64_t b) { return a | b; });
  }
  Bits operator&(const Bits& o) const {
    return with(o, [](uint64_t a, uint64_t b) { return a & b; });
  }
  Bits minus(const Bits& o) const {
    return with(o, [](uint64_t a, uint64_t b) { return a & ~b; });
  }
  template <class F>
  void for_each(F&& f) const {
    for (int i = 0; i < W; ++i)
      for (uint64_t x = w[i]; x; x &= x - 1) f(64 * i + std::countr_zero(x));
  }
  int lowest() const {
    int i = 0;
    while (i + 1 < W && !w[i]) ++i;
    return 64 * i + std::countr_zero(w[i]);
  }
  uint64_t hash() const {
    uint64_t h = 0;
    for (int i = 0; i < W; ++i) {
      h = (h ^ w[i]) * 0x9e3779b97f4a7c15;
      h ^= h >> 32;
    }
    return h;
  }
};

// A connected component. Labels of equal holders are one label here; closed labels of one holder
// only make that leaf larger.
struct Label {
  std::vector<int> holders;  // numbers inside the component, ascending
  bool open;
  double log2_extent;
};
struct Component {
  std::vector<int> tensors;         // numbers in the network, ascending
  std::vector<double> log2_closed;  // by tensor: its closed labels that nobody else has
  std::vector<Label> labels;
  double log2_open = 0;
};

struct Step {
  int left, right;  // below the number of tensors: a tensor; else that number plus a step
};

template <int W>
class Search {
 public:
  using Set = Bits<W>;
  Search(const Component& c, Budget& budget) : count_(int(c.tensors.size())), budget_(budget) {
    nodes_.reserve(size_t(8 * count_));
    nodes_.resize(size_t(count_));
    log2_extent_.reserve(c.labels.size());
    holders_.resize(c.labels.size());
    for (size_t l = 0; l < c.labels.size(); ++l) {
      const Label& label = c.labels[l];
      log2_extent_.push_back(label.log2_extent);
      for (int t : label.holders) holders_[l].set(t);
      if (label.open) open_.set(int(l));
      if (!label.open && label.holders.size() == 2) simple_.set(int(l));
      for (int t : label.holders) {
        Node& leaf = nodes_[size_t(t)];
        leaf.cut.set(int(l));
        leaf.log2_size += label.log2_extent;
        leaf.near = leaf.near | holders_[l];
      }
    }
    for (int t = 0; t < count_; ++t) {
      Node& leaf = nodes_[size_t(t)];
      leaf.set.set(t);
      leaf.near = leaf.near.minus(leaf.set);
      leaf.log2_size += c.log2_closed[size_t(t)];
      all_.set(t);
    }
  }

  // False if the budget ended.
  bool run(std::vector<Step>& steps) {
    const double target = greedy_steps(steps);
    scale_ = target;
    if (!budget_.any()) return false;
    if (count_ <= 2) return true;  // no choice
    // Far above the least total stand many more sub-networks than below it, so the limit rises to
    // the target in steps; the last of them does most of the work.
    double rising = -kInf;
    for (const Node& leaf : nodes_) rising = std::max(rising, leaf.log2_size);
    if (count_ <= kSmall) rising = target;
    do {
      rising += kRise;
      scale_ = std::min(target, rising);
      if (!search()) return false;
    } while (best_ < 0 && scale_ < target);
    if (best_ >= 0) collect(best_, steps);  // else the greedy tree is the best there is
    return true;
  }

 private:
  struct Node {
    Set set, cut, near;  // tensors; labels that the result has; neighbouring tensors
    double log2_size = 0, size = 0, work = 0;
    int left = -1, right = -1;
    bool done = false;
  };
  struct Done {
    Set set;
    double bound;
    int node;
  };
  using Entry = std::pair<double, int>;

  double log2_step(const Node& a, const Node& b, const Set& shared) const {
    double s = a.log2_size + b.log2_size;
    shared.for_each([&](int l) { s -= log2_extent_[size_t(l)]; });
    return s;
  }
  // Of two results only labels that both have can be summed.
  Node join(const Node& a, const Node& b, const Set& shared, double log2_step) const {
    Node r;
    r.set = a.set | b.set;
    r.near = (a.near | b.near).minus(r.set);
    Set gone = shared & simple_;
    shared.minus(simple_).minus(open_).for_each([&](int l) {
      if (holders_[size_t(l)].within(r.set)) gone.set(l);
    });
    r.cut = (a.cut | b.cut).minus(gone);
    if (a.left < 0 || b.left < 0) {  // leaves also have closed labels of their own
      r.cut.for_each([&](int l) { r.log2_size += log2_extent_[size_t(l)]; });
    } else {
      r.log2_size = log2_step;
      gone.for_each([&](int l) { r.log2_size -= log2_extent_[size_t(l)]; });
    }
    return r;
  }

  // The pair that makes the network smallest, again and again: a first upper bound.
  double greedy_steps(std::vector<Step>& steps) const {
    const auto size = [](double log2) { return std::exp2(std::min(log2, 1000.0)); };
    std::vector<Node> live(nodes_);
    std::vector<int> id(live.size());
    for (size_t i = 0; i < id.size(); ++i) {
      id[i] = int(i);
      live[i].size = size(live[i].log2_size);
    }
    double total = -kInf;
    for (int made = count_; live.size() > 1; ++made) {
      double least = kInf, step = 0, met = 0;
      size_t a = 0, b = 1;
      Node best;
      for (size_t i = 0; i < live.size(); ++i)
        for (size_t j = i + 1; j < live.size(); ++j) {
          if (!live[i].near.meets(live[j].set)) continue;
          ++met;
          const Set shared = live[i].cut & live[j].cut;
          const double s = log2_step(live[i], live[j], shared);
          Node r = join(live[i], live[j], shared, s);
          r.size = size(r.log2_size);
          const double gain = r.size - live[i].size - live[j].size;
          if (gain < least) std::tie(least, step, a, b, best) = std::tie(gain, s, i, j, r);
        }
      const double pairs = double(live.size() * live.size());
      budget_.spend(0.0005 * W * pairs + 0.02 * W * met);
      if (live.size() > size_t(kSmall) && !budget_.any()) return kInf;
      total = log2_add(total, step);
      steps.push_back({id[a], id[b]});
      best.left = 0;
      live[a] = best;
      id[a] = made;
      live.erase(live.begin() + std::ptrdiff_t(b));
      id.erase(id.begin() + std::ptrdiff_t(b));
    }
    return total;
  }

  // Numbers of work and size are multiples of 2^scale_, the limit; terms too small for a double
  // are too small to matter. False if the budget ended.
  bool search() {
    nodes_.resize(size_t(count_));
    done_.assign(size_t(count_), {});
    heap_ = {};
    table_.assign(std::bit_ceil(size_t(16 * count_)), -1);
    for (int t = 0; t < count_; ++t) {
      Node& leaf = nodes_[size_t(t)];
      leaf.size = std::exp2(leaf.log2_size - scale_);
      leaf.done = false;
      slot(leaf.set) = t;
      if (leaf.size >= limit_) return true;
      heap_.push({leaf.size, t});
    }
    while (!heap_.empty() && heap_.top().first < limit_) {
      const double bound = heap_.top().first;
      const int n = heap_.top().second;
      heap_.pop();
      if (nodes_[size_t(n)].done) continue;
      nodes_[size_t(n)].done = true;
      if (n == best_) break;
      const Node s = nodes_[size_t(n)];  // a copy: partners may move the array
      size_t seen = 0, met = 0;
      all_.minus(s.set).for_each([&](int v) {
        for (const Done& d : done_[size_t(v)]) {
          ++seen;
          if (s.work + d.bound >= limit_) break;
          if (d.set.meets(s.set) || !d.set.meets(s.near)) continue;
          ++met;
          pair(n, s, d.node);
        }
      });
      done_[size_t(s.set.lowest())].push_back({s.set, bound, n});
      if (!budget_.spend(0.1 + 0.0004 * W * double(seen) + (0.01 + 0.012 * W) * double(met)))
        return false;
      if (nodes_.size() * sizeof(Node) > kMaxBytes) return false;
    }
    return true;
  }
  void pair(int a, const Node& s, int b) {
    const Node& t = nodes_[size_t(b)];
    const Set shared = s.cut & t.cut;
    const double log2 = log2_step(s, t, shared);
    if (log2 >= scale_) return;
    const double work = s.work + t.work + std::exp2(log2 - scale_);
    if (work >= limit_) return;
    const Set set = s.set | t.set;
    int at = slot(set);
    if (at >= 0 && work >= nodes_[size_t(at)].work) return;
    if (at < 0) {
      Node r = join(s, t, shared, log2);
      r.size = set == all_ ? 0 : std::exp2(r.log2_size - scale_);
      if (work + r.size >= limit_) return;
      if (2 * nodes_.size() >= table_.size()) grow();
      slot(set) = at = int(nodes_.size());
      budget_.spend(0.1 * W);
      nodes_.push_back(r);
    }
    Node& r = nodes_[size_t(at)];
    r.work = work;
    r.left = a;
    r.right = b;
    if (work + r.size >= limit_) return;
    if (set == all_) {
      limit_ = work;
      best_ = at;
      return;  // all that is still cheaper is looked at before the end
    }
    heap_.push({work + r.size, at});
  }
  int& slot(const Set& set) {
    const size_t mask = table_.size() - 1;
    size_t i = set.hash() & mask;
    while (table_[i] >= 0 && !(nodes_[size_t(table_[i])].set == set)) i = (i + 1) & mask;
    return table_[i];
  }
  void grow() {
    table_.assign(4 * table_.size(), -1);
    for (size_t n = 0; n < nodes_.size(); ++n) slot(nodes_[n].set) = int(n);
  }

  // Children before parents: a walk from the root, reversed.
  void collect(int root, std::vector<Step>& steps) const {
    std::vector<int> walk{root};
    for (size_t i = 0; i < walk.size(); ++i) {
      const Node& r = nodes_[size_t(walk[i])];
      for (int child : {r.left, r.right})
        if (child >= count_) walk.push_back(child);
    }
    std::vector<int> id(walk.size());
    steps.clear();
    // The children of walk[i] stand in the order of the walk: count them off from its end.
    size_t next = walk.size();
    for (size_t i = walk.size(); i-- > 0;) {
      const Node& r = nodes_[size_t(walk[i])];
      Step s{r.left, r.right};
      if (s.right >= count_) s.right = id[--next];
      if (s.left >= count_) s.left = id[--next];
      id[i] = count_ + int(steps.size());
      steps.push_back(s);
    }
  }

  int count_;
  Budget& budget_;
  double scale_ = 0;          // log2 of the unit of work
  double limit_ = 1 - kLess;  // total work must stay below
  int best_ = -1;
  Set all_, open_, simple_;  // simple: closed labels of two holders
  std::vector<double> log2_extent_;
  std::vector<Set> holders_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Done>> done_;  // by lowest tensor, in the order of their bounds
  std::vector<int> table_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

std::vector<Component> components_of(const Network& network) {
  const size_t n = network.tensors.size(), labels = network.log2_extent.size();
  std::vector<int> first(labels + 1), holders, component(n, -1), inside(n), queue;
  for (const LabelSet& t : network.tensors)
    for (int l : t) ++first[size_t(l) + 1];
  for (size_t l = 0; l < labels; ++l) first[l + 1] += first[l];
  holders.resize(size_t(first[labels]));
  std::vector<int> fill(first.begin(), first.end() - 1);
  for (size_t t = 0; t < n; ++t)
    for (int l : network.tensors[t]) holders[size_t(fill[size_t(l)]++)] = int(t);

  std::vector<Component> out;
  std::vector<char> seen(labels);
  for (size_t root = 0; root < n; ++root) {
    if (component[root] >= 0) continue;
    const int c = int(out.size());
    out.emplace_back();
    queue.assign(1, int(root));
    component[root] = c;
    for (size_t q = 0; q < queue.size(); ++q)
      for (int l : network.tensors[size_t(queue[q])]) {
        if (std::exchange(seen[size_t(l)], 1)) continue;
        for (int h = first[size_t(l)]; h < first[size_t(l) + 1]; ++h) {
          const int t = holders[size_t(h)];
          if (component[size_t(t)] < 0) component[size_t(t)] = c, queue.push_back(t);
        }
      }
  }
  for (size_t t = 0; t < n; ++t) {
    Component& c = out[size_t(component[t])];
    inside[t] = int(c.tensors.size());
    c.tensors.push_back(int(t));
  }
  for (Component& c : out) c.log2_closed.resize(c.tensors.size());
  for (size_t l = 0; l < labels; ++l) {
    if (first[l] == first[l + 1]) continue;
    Component& c = out[size_t(component[size_t(holders[size_t(first[l])])])];
    Label label{{}, bool(network.open[l]), network.log2_extent[l]};
    for (int h = first[l]; h < first[l + 1]; ++h)
      label.holders.push_back(inside[size_t(holders[size_t(h)])]);
    if (label.open) c.log2_open += label.log2_extent;
    if (!label.open && label.holders.size() == 1)
      c.log2_closed[size_t(label.holders[0])] += label.log2_extent;
    else
      c.labels.push_back(std::move(label));
  }
  for (Component& c : out) {
    const auto key = [](const Label& l) { return std::tie(l.open, l.holders); };
    std::stable_sort(c.labels.begin(), c.labels.end(),
                     [&](const Label& a, const Label& b) { return key(a) < key(b); });
    size_t kept = 0;
    for (size_t l = 0; l < c.labels.size(); ++l)
      if (kept && key(c.labels[kept - 1]) == key(c.labels[l]))
        c.labels[kept - 1].log2_extent += c.labels[l].log2_extent;
      else if (kept++ != l)
        c.labels[kept - 1] = std::move(c.labels[l]);
    c.labels.resize(kept);
  }
  return out;
}

template <int W>
bool solve(const Component& c, Budget& budget, std::vector<Step>& steps) {
  if (std::max(c.tensors.size(), c.labels.size()) > size_t(64 * W)) {
    if constexpr (W < 8) return solve<2 * W>(c, budget, steps);
    return false;
  }
  return Search<W>(c, budget).run(steps);
}

}  // namespace

SsaPath exact(const Network& network, Budget& budget) {
  SsaPath path;
  const int n = int(network.tensors.size());
  if (n < 2) return path;
  // Results to multiply: log2 of elements when read (a lone tensor still has its closed labels) and
  // of open labels, number.
  using Part = std::tuple<double, double, int>;
  std::priority_queue<Part, std::vector<Part>, std::greater<>> parts;
  std::vector<Step> steps;
  for (const Component& c : components_of(network)) {
    int root = c.tensors[0];
    const int base = n + int(path.size()), count = int(c.tensors.size());
    if (count > 1) {
      steps.clear();
      if (!solve<1>(c, budget, steps)) return {};
      const auto id = [&](int k) { return k < count ? c.tensors[size_t(k)] : base + k - count; };
      for (const Step& s : steps) path.push_back({id(s.left), id(s.right)});
      root = n + int(path.size()) - 1;
    }
    parts.push({c.log2_open + (count == 1 ? c.log2_closed[0] : 0), c.log2_open, root});
  }
  while (parts.size() > 1) {
    const auto [size_a, open_a, a] = parts.top();
    parts.pop();
    const auto [size_b, open_b, b] = parts.top();
    parts.pop();
    path.push_back({a, b});
    parts.push({open_a + open_b, open_a + open_b, n + int(path.size()) - 1});
  }
  return path;
}

}  // namespace gradus::plan
