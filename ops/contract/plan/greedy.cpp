// Each tensor keeps one candidate, its best partner at the time it was looked at, in a heap. The
// score of a pair never changes while both live (if a label lost its third holder, the second is
// new), so an entry whose partner is gone is merely too good: the tensor is looked at again when it
// comes up. A tensor of very many labels keeps its next best partners too, and goes on to those
// first; what came later than its look looked at it in turn. What a pair shares is summed up label
// by label while its partners are found, so a look reads the tensor's own labels alone.
#include "ops/contract/plan/greedy.hpp"

#include "ops/contract/plan/heap.hpp"
#include "ops/contract/plan/state.hpp"

#include <array>
#include <bit>
#include <unordered_map>

namespace gradus::inline v1::plan {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr size_t kHolders = 24;  // at least so many are looked at per label, at most twice as many
constexpr size_t kLarge = 64;    // labels of a tensor that keeps more partners than one
constexpr size_t kKept = 256;    // partners that it keeps
constexpr double kUnitsPerPair = 0.06, kUnitsPerStep = 1;

// The tensors that have a label of more than two uses, some of them gone. Where they are many, the
// smallest ones stand apart from the others: `near` is looked at, `far` is a heap with the smallest
// on top.
struct Holders {
  SmallVector<int, 4> near;
  std::vector<int> far;
};

// A pair that may be contracted next; the least comes first. Ties are many, so nothing branches on
// them.
struct Candidate {
  double score;
  int tensor, partner;
  bool operator<(const Candidate& o) const {
    return bool(int(score < o.score) | (int(score == o.score) & int(pair() < o.pair())));
  }

 private:
  uint64_t pair() const { return uint64_t(uint32_t(tensor)) << 32 | uint32_t(partner); }
};

struct Later {
  bool operator()(const Candidate& x, const Candidate& y) const { return y < x; }
};

class Greedy {
 public:
  Greedy(const Network& network, const GreedyOptions& options, Budget& budget)
      : state_(network), options_(options), budget_(budget), list_(state_.labels.size(), -1) {
    seen_.reserve(2 * network.tensors.size());
    int lists = 0;
    for (size_t l = 0; l < list_.size(); ++l)
      if (state_.labels[l].uses > 2) list_[l] = lists++;
    holders_.resize(size_t(lists));
    for (size_t k = 0; k < state_.tensors.size(); ++k) {
      seen_.emplace_back(state_.log2_size[k]);
      for (int l : state_.tensors[k]) {
        if (label(l).uses == 1) {
          own_.resize(state_.tensors.size());
          own_[k] += label(l).log2_extent;
        }
        if (label(l).uses > 2) list_of(l).near.push_back(int(k));
      }
    }
    for (Holders& h : holders_)
      if (h.near.size() > 2 * kHolders) split(h);
  }
  SsaPath search() {
    constexpr size_t kAhead = 8;
    for (size_t k = 0, n = state_.alive.size(); k < n; ++k) {
      if (k + 2 * kAhead < n) state_.fetch(state_.tensors[k + 2 * kAhead]);
      if (k + kAhead < n) fetch_partners(int(k + kAhead));
      look_at(int(k));
    }
    while (!heap_.empty() && budget_.any()) {
      const auto [score, a, b] = heap_.top();
      heap_.pop();
      fetch_next();
      if (!state_.alive[size_t(a)]) continue;
      if (!state_.alive[size_t(b)])
        look_again(a);
      else if (!contract(a, b))
        return {};
    }
    while (done_.size() > 1 && budget_.any()) {
      const int a = done_.top().second;
      done_.pop();
      const int b = done_.top().second;
      done_.pop();
      if (!contract(a, b)) return {};
    }
    return budget_.any() ? std::move(state_.path) : SsaPath();
  }

 private:
  struct Seen {
    double size;         // log2
    double shared = -1;  // within a look: what it shares; -1: not met
    explicit Seen(double all) : size(all) {}
  };
  const Seen& seen(int k) const { return seen_[size_t(k)]; }
  // The log2 of its size without the labels that it alone has.
  double stays(int k) const {
    return size_t(k) < own_.size() ? seen(k).size - own_[size_t(k)] : seen(k).size;
  }

  bool smaller(int a, int b) const {
    return std::pair(seen(a).size, a) < std::pair(seen(b).size, b);
  }
  auto larger() const {
    return [this](int a, int b) { return smaller(b, a); };
  }
  bool gone(int k) const { return !state_.alive[size_t(k)]; }
  const State::Label& label(int l) const { return state_.labels[size_t(l)]; }
  Holders& list_of(int l) { return holders_[size_t(list_[size_t(l)])]; }

  bool contract(int a, int b) {
    const int id = state_.contract(a, b);
    if (!next_.empty()) next_.erase(a), next_.erase(b);
    if (state_.log2_work > options_.stop_above) return false;
    budget_.spend(kUnitsPerStep);
    seen_.emplace_back(state_.log2_size.back());
    for (int l : state_.tensors[size_t(id)])
      if (label(l).uses > 2) add(list_of(l), id);
    look_at(id);
    return true;
  }

  // Moves all but the kHolders smallest away from the others.
  void split(Holders& h) {
    std::nth_element(h.near.begin(), h.near.begin() + kHolders, h.near.end(),
                     [this](int a, int b) { return smaller(a, b); });
    h.far.insert(h.far.end(), h.near.begin() + kHolders, h.near.end());
    h.near.resize(kHolders);
    std::make_heap(h.far.begin(), h.far.end(), larger());
  }
  void add(Holders& h, int id) {
    if (!h.far.empty() && smaller(h.far.front(), id)) {
      h.far.push_back(id);
      std::push_heap(h.far.begin(), h.far.end(), larger());
      return;
    }
    if (h.near.size() >= 4) drop_gone(h);
    h.near.push_back(id);
    if (h.near.size() > 2 * kHolders) split(h);
  }
  void drop_gone(Holders& h) {
    int* end = std::remove_if(h.near.begin(), h.near.end(), [this](int k) { return gone(k); });
    h.near.resize(size_t(end - h.near.begin()));
  }
  // The live tensors that have the label, or of very many the smallest.
  const SmallVector<int, 4>& holders(Holders& h) {
    drop_gone(h);
    while (h.near.size() < kHolders && !h.far.empty()) {
      std::pop_heap(h.far.begin(), h.far.end(), larger());
      if (!gone(h.far.back())) h.near.push_back(h.far.back());
      h.far.pop_back();
    }
    return h.near;
  }

  void look_again(int k) {
    const auto kept = next_.find(k);
    if (kept == next_.end()) return look_at(k);
    auto& list = kept->second;
    while (!list.empty() && gone(list.front().partner)) drop_first(list);
    if (list.empty()) return look_at(k);
    heap_.push(list.front());
    drop_first(list);
    budget_.spend(kUnitsPerPair);
  }
  static void drop_first(std::vector<Candidate>& heap) {
    std::pop_heap(heap.begin(), heap.end(), Later());
    heap.pop_back();
  }
  // In large networks almost each read is a miss: what is read soon is asked for before.
  void fetch_partners(int k) const {
    for (int l : state_.tensors[size_t(k)])
      if (const int other = state_.other_than(k, l); label(l).uses == 2 && other >= 0)
        __builtin_prefetch(&seen(other));
  }
  void fetch_next() const {
    if (heap_.empty()) return;
    for (const Candidate& soon : heap_.first()) {
      __builtin_prefetch(&state_.tensors[size_t(soon.tensor)]);
      __builtin_prefetch(&state_.tensors[size_t(soon.partner)]);
    }
    state_.fetch(state_.tensors[size_t(heap_.top().tensor)]);
    state_.fetch(state_.tensors[size_t(heap_.top().partner)]);
  }
  // Puts the best partner of k on the heap; a tensor that has none is done.
  void look_at(int k) {
    partners_.clear();
    common_.clear();
    const State::Held& labels = state_.tensors[size_t(k)];
    state_.fetch(labels);
    fetch_partners(k);
    for (int l : labels) {
      const int uses = label(l).uses;
      if (uses == 1) continue;
      if (uses == 2) {
        meet(k);  // as one of its holders
        if (const int other = state_.other_than(k, l); other >= 0) meet(other).shared += lost(l);
        continue;
      }
      Holders& h = list_of(l);
      const auto& near = holders(h);
      const bool all = h.far.empty();
      if (!all) common_.push_back(l);
      for (int other : near) {
        Seen& met = meet(other);
        if (all) met.shared += lost(l);
      }
    }
    Candidate best{kInf, k, -1};
    const bool large = labels.size() > kLarge;
    for (int other : partners_) {
      double shared = std::exchange(seen_[size_t(other)].shared, -1);
      if (other == k) continue;
      for (int l : common_)
        if (has(other, l)) shared += lost(l);
      const Candidate c{score(k, other, shared), k, other};
      if (best.partner < 0 || c < best) best = c;
      if (large) all_.push_back(c);
    }
    if (large) keep_next(k);
    budget_.spend(kUnitsPerPair * double(1 + partners_.size() * (1 + common_.size())));
    if (best.partner >= 0)
      heap_.push(best);
    else
      done_.push({seen(k).size, k});
  }
  // The best candidates of all_ but `best`, as a heap with the best one on top.
  void keep_next(int k) {
    if (all_.size() > kKept + 1) {
      std::nth_element(all_.begin(), all_.begin() + kKept, all_.end());
      all_.resize(kKept + 1);
    }
    auto& list = next_[k];
    list.assign(all_.begin(), all_.end());
    std::make_heap(list.begin(), list.end(), Later());
    all_.clear();
    if (!list.empty()) drop_first(list);
  }
  Seen& meet(int other) {
    Seen& met = seen_[size_t(other)];
    if (met.shared < 0) {
      met.shared = 0;
      partners_.push_back(other);
    }
    return met;
  }
  // What a label that both of a pair have takes off the sum of their sizes.
  double lost(int l) const { return (label(l).uses == 2 ? 2 : 1) * label(l).log2_extent; }
  bool has(int k, int label) const {
    const State::Held& labels = state_.tensors[size_t(k)];
    return std::binary_search(labels.begin(), labels.end(), label);
  }
  double score(int k, int other, double shared) {
    const double result = stays(k) + stays(other) - shared;
    const double a = seen(k).size, b = seen(other).size;
    const uint64_t bits = std::bit_cast<uint64_t>(result) * 3 + std::bit_cast<uint64_t>(a) * 5 +
                          std::bit_cast<uint64_t>(b) * 7;
    Known& known = known_[bits * 0x9e3779b97f4a7c15 >> 56];
    if (known.result != result || known.a != a || known.b != b)
      known = {result, a, b, score_of(result, a, b)};
    return known.score + (options_.temperature > 0 ? noise(k, other) : 0);
  }
  double score_of(double result, double a, double b) const {
    // sign(s) log2(1 + |s|) for s = result - alpha (a + b), without the powers, which can overflow.
    const double most = std::max({result, a, b});
    const double s =
        std::exp2(result - most) - options_.alpha * (std::exp2(a - most) + std::exp2(b - most));
    const double size = s == 0 ? 0 : log2_add(0, std::log2(std::abs(s)) + most);
    return std::copysign(size, s);
  }
  // Gumbel noise, which makes the least score a draw from the Boltzmann distribution. It depends on
  // the pair alone: a pair that is looked at twice gets no second chance.
  double noise(int a, int b) const {
    Random random(options_.seed ^ (uint64_t(std::min(a, b)) << 32 | uint64_t(std::max(a, b))));
    random.next();
    return options_.temperature * std::log(-std::log(random.uniform() + 0x1p-54));
  }

  // Scores by the sizes they were made of, of which few occur in most networks.
  struct Known {
    double result = std::numeric_limits<double>::quiet_NaN(), a = 0, b = 0, score = 0;
  };
  State state_;
  std::array<Known, 256> known_;
  const GreedyOptions& options_;
  Budget& budget_;
  std::vector<Seen> seen_;   // by tensor
  std::vector<double> own_;  // by tensor, empty if none: labels that it alone has, log2; results
                             // have none, since their labels all go on
  std::vector<int> list_;    // by label: its place in holders_, -1: two uses at most
  std::vector<Holders> holders_;
  std::vector<int> partners_, common_;  // within a look; labels that very many have
  std::vector<Candidate> all_;          // within a look at a large tensor
  std::unordered_map<int, std::vector<Candidate>> next_;  // by large tensor
  Heap<Candidate> heap_;
  Heap<std::pair<double, int>> done_;  // size, tensor
};

}  // namespace

SsaPath greedy(const Network& network, const GreedyOptions& options, Budget& budget) {
  if (network.tensors.size() < 2) return {};
  return Greedy(network, options, budget).search();
}

SsaPath random_greedy(const Network& network, uint64_t seed, Budget& budget) {
  constexpr int kAgree = 32;  // chains and trees: so many tries in a row that all find the same
  constexpr double kTie = 1e-9;
  Random random(seed);
  GreedyOptions options, of_best;
  SsaPath best = greedy(network, options, budget);
  if (best.empty()) return best;
  double work = cost_of(network, best).log2_mults;
  of_best.temperature = 0.1;
  for (int i = 0, agreed = 0; budget.any() && agreed < kAgree; ++i) {
    // Every other try stays near the parameters of the best. The rest roams: large alphas are right
    // for circuits, small ones for chains. Without noise ties go by number, which can be the
    // natural order of a model and far better than any draw.
    const double u = random.uniform(), v = random.uniform();
    if (i % 2) {
      options.alpha = of_best.alpha * (0.75 + 0.5 * u);
      options.temperature = of_best.temperature * std::exp2(2 * v - 1);
    } else {
      options.alpha = 8 * u * u;
      options.temperature = v < 0.15 ? 0 : std::exp2(-8 + 9 * v);
    }
    options.seed = random.next();
    options.stop_above = work + kTie;
    SsaPath path = greedy(network, options, budget);
    const double found = path.empty() ? options.stop_above + 1 : cost_of(network, path).log2_mults;
    agreed = std::abs(found - work) <= kTie ? agreed + 1 : 0;
    if (found >= work) continue;
    work = found;
    best = std::move(path);
    of_best = options;
  }
  return best;
}

}  // namespace gradus::plan
