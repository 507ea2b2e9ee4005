// Gains are sums of logarithms, so heaps stand where integers would have buckets. A heap keeps old
// entries; one counts only while it tells the vertex's gain of now.
#include "ops/contract/plan/bisect.hpp"

#include <numeric>
#include <queue>

namespace gradus::inline v1::plan {

namespace {

constexpr int kCoarsest = 40;       // vertices at which coarsening stops
constexpr int kWidestNet = 64;      // a wider net says little about which vertices belong together
constexpr double kPinCost = 0.006;  // microseconds for a visit of a pin, about

struct Level {
  Hypergraph graph;
  std::vector<int> vertex_start, nets;  // the nets of each vertex
  std::vector<int> coarse;              // the vertex of the next level that each becomes

  explicit Level(Hypergraph g) : graph(std::move(g)) {
    vertex_start.assign(size_t(graph.vertices()) + 1, 0);
    for (int v : graph.pins) ++vertex_start[size_t(v) + 1];
    std::partial_sum(vertex_start.begin(), vertex_start.end(), vertex_start.begin());
    nets.resize(graph.pins.size());
    std::vector<int> at(vertex_start.begin(), vertex_start.end() - 1);
    for (int e = 0; e < graph.nets(); ++e)
      for (int v : pins(e)) nets[size_t(at[size_t(v)]++)] = e;
  }
  struct Range {
    const int *first, *last;
    const int* begin() const { return first; }
    const int* end() const { return last; }
    int size() const { return int(last - first); }
  };
  Range pins(int e) const {
    return {graph.pins.data() + graph.net_start[size_t(e)],
            graph.pins.data() + graph.net_start[size_t(e) + 1]};
  }
  Range nets_of(int v) const {
    return {nets.data() + vertex_start[size_t(v)], nets.data() + vertex_start[size_t(v) + 1]};
  }
};

// Moves single vertices over the cut, the best first, each at most once in a pass; the pass ends in
// the best state that it saw.
class Mover {
 public:
  Mover(const Level& level, double limit, std::vector<char>& side, Budget& budget)
      : level_(level),
        graph_(level.graph),
        limit_(limit),
        side_(side),
        budget_(budget),
        gain_(side.size()),
        locked_(side.size()) {
    count_[0].assign(size_t(graph_.nets()), 0);
    count_[1].assign(size_t(graph_.nets()), 0);
  }

  // Side 0 grows from one vertex into side 1, which has all at first.
  void grow(Random& random) {
    std::fill(side_.begin(), side_.end(), 1);
    start_pass(false);
    const double total = weight_[1];
    const double goal = graph_.terminal < 0 ? total / 2 : std::min(limit_, total * 0.9);
    while (weight_[0] < goal) {
      int v = best(1);
      for (int k = 0; v < 0 && k < 8; ++k) {
        const int u = random.below(graph_.vertices());
        if (!locked_[size_t(u)]) v = u;
      }
      if (v < 0) v = first_free();
      if (v < 0 || weight_[0] + graph_.vertex_weight[size_t(v)] >= total) break;
      move(v);
    }
    end_pass();
  }
  void refine() {
    for (int pass = 0; pass < 12 && budget_.any(); ++pass)
      if (!improve()) break;
  }
  double cut() const { return cut_; }
  double excess() const { return std::max(0.0, std::max(weight_[0], weight_[1]) - limit_); }

 private:
  struct Entry {
    double gain;
    int v;
    bool operator<(const Entry& o) const { return gain != o.gain ? gain < o.gain : v > o.v; }
  };

  void start_pass(bool push_all) {
    weight_[0] = weight_[1] = cut_ = 0;
    for (auto& count : count_) std::fill(count.begin(), count.end(), 0);
    for (int v = 0; v < graph_.vertices(); ++v)
      weight_[size_t(side_[size_t(v)])] += graph_.vertex_weight[size_t(v)];
    std::fill(gain_.begin(), gain_.end(), 0.0);
    for (int e = 0; e < graph_.nets(); ++e) {
      for (int v : level_.pins(e)) ++count_[size_t(side_[size_t(v)])][size_t(e)];
      const double w = graph_.net_weight[size_t(e)];
      if (count_[0][size_t(e)] && count_[1][size_t(e)]) cut_ += w;
      for (int v : level_.pins(e)) {
        const size_t s = size_t(side_[size_t(v)]);
        if (count_[s][size_t(e)] == 1) gain_[size_t(v)] += w;
        if (count_[1 - s][size_t(e)] == 0) gain_[size_t(v)] -= w;
      }
    }
    std::fill(locked_.begin(), locked_.end(), 0);
    if (graph_.terminal >= 0) locked_[size_t(graph_.terminal)] = 1;
    for (auto& heap : heap_) heap = {};
    if (push_all)
      for (int v = 0; v < graph_.vertices(); ++v) push(v);
    moves_.clear();
    best_moves_ = 0;
    best_cut_ = cut_;
    best_excess_ = excess();
    budget_.spend(3 * kPinCost * double(graph_.pins.size() + side_.size()));
  }
  void push(int v) {
    if (!locked_[size_t(v)]) heap_[size_t(side_[size_t(v)])].push({gain_[size_t(v)], v});
  }
  // The vertex of this side with the highest gain, or -1.
  int best(size_t s) {
    auto& heap = heap_[s];
    while (!heap.empty()) {
      const auto [gain, v] = heap.top();
      if (!locked_[size_t(v)] && gain_[size_t(v)] == gain) return v;
      heap.pop();
    }
    return -1;
  }
  int first_free() const {
    for (size_t v = 0; v < locked_.size(); ++v)
      if (!locked_[v]) return int(v);
    return -1;
  }
  void add(int v, double w) {
    gain_[size_t(v)] += w;
    push(v);
  }
  void move(int v) {
    const size_t from = size_t(side_[size_t(v)]), to = 1 - from;
    cut_ -= gain_[size_t(v)];
    locked_[size_t(v)] = 1;
    side_[size_t(v)] = char(to);
    weight_[from] -= graph_.vertex_weight[size_t(v)];
    weight_[to] += graph_.vertex_weight[size_t(v)];
    double visited = 0;
    for (int e : level_.nets_of(v)) {
      const double w = graph_.net_weight[size_t(e)];
      const int there = count_[to][size_t(e)]++, left = --count_[from][size_t(e)];
      if (there > 1 && left > 1) continue;
      // Only a net with none or one of its pins on a side changes what its pins would gain.
      visited += level_.pins(e).size();
      for (int u : level_.pins(e)) {
        if (locked_[size_t(u)]) continue;
        const bool moved_side = size_t(side_[size_t(u)]) == to;
        double change = 0;
        if (there == 0) change += w;
        if (there == 1 && moved_side) change -= w;
        if (left == 0) change -= w;
        if (left == 1 && !moved_side) change += w;
        if (change != 0) add(u, change);
      }
    }
    budget_.spend(kPinCost * (4 * visited + 10));
    moves_.push_back(v);
    if (excess() < best_excess_ - 1e-9 ||
        (excess() <= best_excess_ + 1e-9 && cut_ < best_cut_ - 1e-9)) {
      best_moves_ = moves_.size();
      best_cut_ = cut_;
      best_excess_ = excess();
    }
  }
  void end_pass() {
    for (size_t i = best_moves_; i < moves_.size(); ++i) {
      const size_t v = size_t(moves_[i]), s = size_t(side_[v]);
      side_[v] = char(1 - s);
      weight_[s] -= graph_.vertex_weight[v];
      weight_[1 - s] += graph_.vertex_weight[v];
    }
    cut_ = best_cut_;
  }
  bool improve() {
    start_pass(true);
    const double cut = cut_, before = excess();
    const size_t patience = 60 + side_.size() / 8;
    while (moves_.size() - best_moves_ < patience) {
      int pick = -1;
      for (size_t s : {size_t(0), size_t(1)}) {
        const int v = best(s);
        if (v < 0) continue;
        const double w = graph_.vertex_weight[size_t(v)];
        if (weight_[s] <= w) continue;  // it is the last one there
        if (weight_[1 - s] + w > limit_ + 1e-9 && weight_[s] <= limit_ + 1e-9) continue;
        const bool must = weight_[s] > limit_ + 1e-9;
        if (pick < 0 || must ||
            (gain_[size_t(v)] > gain_[size_t(pick)] && weight_[1 - s] <= limit_ + 1e-9))
          pick = v;
      }
      if (pick < 0) break;
      move(pick);
    }
    end_pass();
    return cut_ < cut - 1e-9 || best_excess_ < before - 1e-9;
  }

  const Level& level_;
  const Hypergraph& graph_;
  const double limit_;
  std::vector<char>& side_;
  Budget& budget_;
  std::vector<double> gain_;
  std::vector<char> locked_;
  std::vector<int> count_[2];  // pins of each net on each side
  double weight_[2] = {0, 0}, cut_ = 0;
  std::priority_queue<Entry> heap_[2];
  std::vector<int> moves_;
  size_t best_moves_ = 0;
  double best_cut_ = 0, best_excess_ = 0;
};

// Pairs up vertices. Returns the number of clusters.
int match(Level& level, double heaviest, Random& random) {
  const Hypergraph& g = level.graph;
  const size_t n = size_t(g.vertices());
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[size_t(random.below(int(i)))]);
  level.coarse.assign(n, -1);
  std::vector<double> score(n, 0.0);
  std::vector<int> seen;
  int clusters = 0;
  for (int v : order) {
    if (level.coarse[size_t(v)] >= 0) continue;
    level.coarse[size_t(v)] = clusters;
    if (v != g.terminal) {
      for (int e : level.nets_of(v)) {
        const int wide = level.pins(e).size();
        if (wide > kWidestNet) continue;
        for (int u : level.pins(e)) {
          if (level.coarse[size_t(u)] >= 0 || u == g.terminal) continue;
          if (score[size_t(u)] == 0) seen.push_back(u);
          score[size_t(u)] += (g.net_weight[size_t(e)] + 1e-6) / (wide - 1);
        }
      }
      int mate = -1;
      double most = 0;
      for (int u : seen) {
        const double w = g.vertex_weight[size_t(u)] + g.vertex_weight[size_t(v)];
        // Light pairs first, lest a few clusters eat all.
        const double s = score[size_t(u)] / std::max(w, 1e-9);
        score[size_t(u)] = 0;
        if (w <= heaviest && s > most) most = s, mate = u;
      }
      seen.clear();
      if (mate >= 0) level.coarse[size_t(mate)] = clusters;
    }
    ++clusters;
  }
  return clusters;
}

// The hypergraph of the clusters: nets within one vanish, equal nets become one.
Hypergraph contract(const Level& level, int clusters) {
  const Hypergraph& g = level.graph;
  Hypergraph out;
  out.vertex_weight.assign(size_t(clusters), 0);
  for (size_t v = 0; v < level.coarse.size(); ++v)
    out.vertex_weight[size_t(level.coarse[v])] += g.vertex_weight[v];
  if (g.terminal >= 0) out.terminal = level.coarse[size_t(g.terminal)];
  std::vector<int> last(size_t(clusters), -1);
  std::vector<std::pair<uint64_t, int>> hashes;  // of a kept net's pins, and its number
  Hypergraph all;
  for (int e = 0; e < g.nets(); ++e) {
    const size_t begin = all.pins.size();
    uint64_t hash = 0;
    for (int v : level.pins(e)) {
      const int c = level.coarse[size_t(v)];
      if (last[size_t(c)] == e) continue;
      last[size_t(c)] = e;
      all.pins.push_back(c);
      hash += Random(uint64_t(c)).next();
    }
    if (all.pins.size() - begin < 2) {
      all.pins.resize(begin);
      continue;
    }
    std::sort(all.pins.begin() + std::ptrdiff_t(begin), all.pins.end());
    hashes.push_back({hash, all.nets()});
    all.net_start.push_back(int(all.pins.size()));
    all.net_weight.push_back(g.net_weight[size_t(e)]);
  }
  std::sort(hashes.begin(), hashes.end());
  for (size_t i = 0; i < hashes.size(); ++i) {
    const size_t e = size_t(hashes[i].second);
    const auto first = all.pins.begin() + all.net_start[e];
    const auto end = all.pins.begin() + all.net_start[e + 1];
    // The net before it in this order is the last one kept.
    if (i > 0 && hashes[i].first == hashes[i - 1].first) {
      const auto kept = out.pins.begin() + out.net_start[out.net_start.size() - 2];
      if (std::equal(kept, out.pins.end(), first, end)) {
        out.net_weight.back() += all.net_weight[e];
        continue;
      }
    }
    out.pins.insert(out.pins.end(), first, end);
    out.net_start.push_back(int(out.pins.size()));
    out.net_weight.push_back(all.net_weight[e]);
  }
  return out;
}

// The levels of the graph, each coarser than the one before it.
std::vector<Level> coarsened(const Hypergraph& graph, Random& random, Budget& budget) {
  const double total = std::accumulate(graph.vertex_weight.begin(), graph.vertex_weight.end(), 0.0);
  std::vector<Level> levels;
  levels.emplace_back(graph);
  while (levels.back().graph.vertices() > kCoarsest) {
    Level& level = levels.back();
    const int n = level.graph.vertices();
    budget.spend(kPinCost * 15 * double(level.graph.pins.size() + size_t(n)));
    const int clusters = match(level, std::max(total / 12, 2.0), random);
    if (clusters > 0.95 * n) break;
    levels.emplace_back(contract(level, clusters));
  }
  return levels;
}

// The best of several growths.
std::vector<char> grown(const Level& level, int tries, double limit, Random& random,
                        Budget& budget) {
  const size_t n = size_t(level.graph.vertices());
  double least = INFINITY, least_excess = INFINITY;
  std::vector<char> best(n, 1), trial(n);
  for (int t = 0; t < std::max(1, tries); ++t) {
    Mover mover(level, limit, trial, budget);
    mover.grow(random);
    mover.refine();
    if (mover.excess() < least_excess - 1e-9 ||
        (mover.excess() <= least_excess + 1e-9 && mover.cut() < least - 1e-9))
      least = mover.cut(), least_excess = mover.excess(), best = trial;
  }
  return best;
}

}  // namespace

std::vector<char> bisect(const Hypergraph& graph, const BisectOptions& options, Budget& budget) {
  const size_t n = size_t(graph.vertices());
  Random random(options.seed);
  double total = 0, heaviest = 0;
  for (double w : graph.vertex_weight) total += w, heaviest = std::max(heaviest, w);
  const double limit =
      std::max(total * (1 + std::min(options.imbalance, 0.98)) / 2, total / 2 + heaviest / 2);
  const std::vector<Level> levels = coarsened(graph, random, budget);
  std::vector<char> side = grown(levels.back(), options.tries, limit, random, budget);
  for (size_t k = levels.size(); k-- > 0;) {
    if (k + 1 < levels.size()) {
      std::vector<char> fine(levels[k].coarse.size());
      for (size_t v = 0; v < fine.size(); ++v) fine[v] = side[size_t(levels[k].coarse[v])];
      side = std::move(fine);
    }
    Mover(levels[k], limit, side, budget).refine();
  }
  int free_at[2] = {0, 0};
  for (size_t v = 0; v < n; ++v)
    if (int(v) != graph.terminal) ++free_at[size_t(side[v])];
  // Weights of zero may leave a side empty: then every other vertex changes it.
  if ((free_at[0] == 0 || free_at[1] == 0) && free_at[0] + free_at[1] > 1) {
    char next = 0;
    for (size_t v = 0; v < n; ++v)
      if (int(v) != graph.terminal) side[v] = next = char(1 - next);
  }
  return side;
}

}  // namespace gradus::plan
