#include "ops/contract/plan/anneal.hpp"

#include "ops/contract/plan/tree.hpp"

#include <array>
#include <limits>

namespace gradus::inline v1::plan {

namespace {

using Word = uint64_t;

// Ones of each byte; up to 31 such words may be added before ones() would overflow.
inline Word ones_by_byte(Word x) {
  x -= (x >> 1) & 0x5555555555555555;
  x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
  return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
}
inline int ones(Word bytes) { return int((bytes * 0x0101010101010101) >> 56); }

// Sets of labels as bits, sorted by extent: words whose labels have one extent are weighed by
// counting. Labels of extent 1 weigh nothing and have no bit.
class Bits {
 public:
  explicit Bits(const Network& network) : bit_(network.log2_extent.size(), -1) {
    std::vector<int> order;
    for (size_t l = 0; l < bit_.size(); ++l)
      if (network.log2_extent[l] > 0) order.push_back(int(l));
    const auto extent = [&](int l) { return network.log2_extent[size_t(l)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return extent(a) < extent(b); });
    for (size_t i = 0; i < order.size(); ++i) {
      bit_[size_t(order[i])] = int(i);
      weight_.push_back(extent(order[i]));
    }
    words_ = int(order.size() + 63) / 64;
    for (int w = 0; w < words_; ++w) {
      const size_t first = size_t(w) * 64, last = std::min(order.size(), first + 64) - 1;
      const bool mixed = weight_[first] != weight_[last];
      const bool joins = !runs_.empty() && !mixed && !runs_.back().mixed &&
                         runs_.back().weight == weight_[first] &&
                         runs_.back().end - runs_.back().begin < 31;
      if (!joins) runs_.push_back({w, w, weight_[first], mixed});
      runs_.back().end = w + 1;
    }
  }
  int words() const { return words_; }
  void set(const LabelSet& labels, Word* to) const {
    for (int l : labels)
      if (const int b = bit_[size_t(l)]; b >= 0) to[b / 64] |= Word(1) << (b % 64);
  }
  // log2 of the size of the set whose words word(i) gives.
  template <class Words>
  double weigh(Words word) const {
    double sum = 0;
    for (const Run& run : runs_) {
      if (run.mixed) {
        for (Word x = word(run.begin); x; x &= x - 1)
          sum += weight_[size_t(run.begin * 64 + __builtin_ctzll(x))];
      } else {
        Word bytes = 0;
        for (int i = run.begin; i < run.end; ++i) bytes += ones_by_byte(word(i));
        sum += ones(bytes) * run.weight;
      }
    }
    return sum;
  }

 private:
  struct Run {
    int begin, end;  // words
    double weight;   // of each label
    bool mixed;
  };
  std::vector<int> bit_;  // by label
  std::vector<double> weight_;
  std::vector<Run> runs_;
  int words_ = 0;
};

// log2(1 + 2^-x) and -ln(u) for u over (0, 1), looked up: the search needs no more digits.
struct Tables {
  std::array<double, 1025> add;
  std::array<double, 4096> exponential;
  Tables() {
    for (int i = 0; i <= 1024; ++i) add[size_t(i)] = std::log2(1 + std::exp2(-i / 64.0));
    for (int i = 0; i < 4096; ++i) exponential[size_t(i)] = -std::log((i + 0.5) / 4096);
  }
  double log2_sum(double a, double b) const {
    if (a < b) std::swap(a, b);
    const double x = (a - b) * 64;
    return x < 1024 ? a + add[size_t(x)] : a;
  }
};
const Tables& tables() {
  static const Tables t;
  return t;
}

class Annealer {
 public:
  Annealer(const Network& network, const Tree& tree, uint64_t seed)
      : bits_(network),
        words_(bits_.words()),
        leaves_(tree.leaves),
        random_(seed),
        time_(network.time) {
    const size_t nodes = size_t(tree.nodes());
    set_.assign(nodes * size_t(words_), 0);
    for (size_t i = 0; i < nodes; ++i) {
      bits_.set(tree.labels[i], &set_[i * size_t(words_)]);
      child_.push_back({tree.left[i], tree.right[i]});
    }
    work_ = tree.work;
    best_ = child_;
    best_total_ = log2_total(work_);
  }

  // Cools from `hot` to `cold` in about `units`, or until the budget ends.
  void run(double hot, double cold, double units, Budget& budget) {
    const double sweep_cost = double(leaves_) * (0.05 + 0.001 * words_);
    const double sweeps = std::max(1.0, units / sweep_cost);
    for (double i = 0; i < sweeps; ++i) {
      sweep(hot * std::pow(cold / hot, i / sweeps));
      keep_best();
      if (!budget.spend(sweep_cost)) break;
    }
  }
  double best_total() const { return best_total_; }
  // The best tree seen.
  SsaPath best() const {
    Tree t;
    t.leaves = leaves_;
    for (const auto& c : best_) {
      t.left.push_back(c[0]);
      t.right.push_back(c[1]);
    }
    return path_of(t);
  }

 private:
  const Word* set(int node) const { return &set_[size_t(node) * size_t(words_)]; }
  double size_of(const Word* set) const {
    return bits_.weigh([&](int i) { return set[i]; });
  }

  void sweep(double temperature) {
    const int inner = leaves_ - 1;
    for (int i = 0; i < inner; ++i) {
      const Word r = random_.next();
      const int p = leaves_ + int(((r >> 32) * Word(inner)) >> 32);
      move(p, int(r & 3), temperature * tables().exponential[(r >> 2) & 4095]);
    }
  }

  // p = (ab)c becomes (ac)b, or with a and b exchanged. Only the two steps change: what the inner
  // one leaves are the labels of a and c that b has or that the whole leaves.
  void move(int p, int which, double allowed) {
    auto& up = child_[size_t(p)];
    int side = which & 1;
    if (up[size_t(side)] < leaves_) side ^= 1;
    const int x = up[size_t(side)], c = up[size_t(side ^ 1)];
    if (x < leaves_) return;
    auto& low = child_[size_t(x)];
    const int keep = which >> 1, a = low[size_t(keep)], b = low[size_t(keep ^ 1)];
    const Word *sa = set(a), *sb = set(b), *sc = set(c), *sp = set(p);
    const auto left_over = [&](int i) { return (sa[i] | sc[i]) & (sb[i] | sp[i]); };
    const double limit = tables().log2_sum(work_[size_t(x)], work_[size_t(p)]) + allowed;
    double inside = bits_.weigh([&](int i) { return sa[i] | sc[i]; }), result = 0;
    if (time_) {
      result = bits_.weigh(left_over);
      inside = time_->log2_seconds(size_of(sa), size_of(sc), result, inside);
    }
    if (inside > limit) return;
    double outside = bits_.weigh([&](int i) { return left_over(i) | sb[i]; });
    if (time_) outside = time_->log2_seconds(result, size_of(sb), size_of(sp), outside);
    if (outside > limit || tables().log2_sum(inside, outside) > limit) return;
    Word* sx = &set_[size_t(x) * size_t(words_)];
    for (int i = 0; i < words_; ++i) sx[i] = left_over(i);
    work_[size_t(x)] = inside;
    work_[size_t(p)] = outside;
    low[size_t(keep ^ 1)] = c;
    up[size_t(side ^ 1)] = b;
  }

  void keep_best() {
    double top = -std::numeric_limits<double>::infinity();
    for (size_t i = size_t(leaves_); i < work_.size(); ++i) top = std::max(top, work_[i]);
    if (top >= best_total_) return;
    const double total = log2_total(work_);
    if (total >= best_total_ - 1e-9) return;
    best_total_ = total;
    best_ = child_;
  }

  Bits bits_;
  int words_, leaves_;
  Random random_;
  const std::optional<StepTime> time_;
  std::vector<Word> set_;
  std::vector<std::array<int, 2>> child_, best_;
  std::vector<double> work_;
  double best_total_ = 0;
};

// Larger trees are annealed piece by piece, so that memory stays near the network's.
constexpr double kMaxWords = 8e6;
constexpr int kPiece = 1000;

// Cools by `units` of the budget; the better of what it finds and `start`.
SsaPath cool(const Network& network, const SsaPath& start, uint64_t seed, double hot, double cold,
             double units, Budget& budget) {
  if (network.tensors.size() < 3 || !budget.any()) return start;
  Tree tree = tree_of(network, start);
  budget.spend(0.5 * double(tree.leaves));
  if (tree.leaves <= kPiece ||
      double(tree.nodes()) * double(network.log2_extent.size()) / 64 <= kMaxWords) {
    Annealer annealer(network, tree, seed);
    annealer.run(hot, cold, units, budget);
    return annealer.best_total() < log2_total(tree.work) ? annealer.best() : start;
  }
  Random seeds(seed);
  std::vector<int> tops = {tree.root()};
  for (size_t i = 0; i < tops.size() && budget.any(); ++i) {
    const Piece piece = piece_below(tree, tops[i], kPiece);
    for (int t : piece.tensors)
      if (!tree.is_leaf(t)) tops.push_back(t);
    LabelSet names;
    const Network part = network_of(network, tree, piece, &names);
    const SsaPath order = order_of(tree, piece);
    const double share = double(order.size()) / double(tree.leaves);
    const SsaPath better = cool(part, order, seeds.next(), hot, cold, units * share, budget);
    if (better != order) replant(&tree, piece, part, names, better);
  }
  return path_of(tree);
}

}  // namespace

SsaPath anneal(const Network& network, const SsaPath& start, uint64_t seed, Budget& budget) {
  return cool(network, start, seed, 1, 0.06, budget.left(), budget);
}

SsaPath refine(const Network& network, const SsaPath& start, uint64_t seed, Budget& budget) {
  if (network.tensors.size() < 3 || !budget.any()) return start;
  if (network.tensors.size() <= 10)
    return reconfigure(network, start, 10, seed, budget);  // optimal
  const double all = budget.left();
  Random seeds(seed);
  SsaPath best = start;
  double best_work = log2_total(tree_of(network, best).work);
  // Anneals the best order and reconfigures what comes out; whether that is the best so far.
  const auto round = [&](double hot, double cold, double share) {
    if (!budget.spend(0.5 * double(network.tensors.size()))) return false;
    Budget slice(std::min(budget.left(), all * share));
    const double given = slice.left();
    SsaPath path = best;
    if (hot > 0) path = cool(network, path, seeds.next(), hot, cold, given * 0.85, slice);
    path = reconfigure(network, path, 8, seeds.next(), slice);
    budget.spend(given - slice.left());
    const double work = log2_total(tree_of(network, path).work);
    const bool better = work < best_work - 1e-9;
    if (better) best_work = work, best = std::move(path);
    return better;
  };
  round(0, 0, 0.15);
  // How hot is best depends on the network: a short trial of each, then the best one at length.
  double hot = 0.5;
  for (double trial : {0.5, 1.0, 2.0, 4.0})
    if (round(trial, 0.08, 0.08)) hot = trial;
  round(hot, 0.06, 0.2);
  round(2 * hot, 0.06, 0.2);
  // Whatever is left, as short runs from the best.
  while (budget.left() > 0.01 * all) round(0.5, 0.04, std::min(0.07, budget.left() / all));
  return reconfigure(network, best, 10, seeds.next(), budget);
}

}  // namespace gradus::plan
