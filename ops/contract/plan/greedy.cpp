// Each tensor keeps one candidate, its best partner at the time it was looked at, in a heap. The
// score of a pair never changes while both live (if a label lost its third holder, the second is
// new), so an entry whose partner is gone is merely too good: the tensor is looked at again when it
// comes up.
#include "ops/contract/plan/greedy.hpp"

#include "ops/contract/plan/state.hpp"

#include <queue>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

constexpr int kHolders = 24;  // that are looked at per label
constexpr double kUnitsPerLabel = 0.012, kUnitsPerPair = 0.12, kUnitsPerStep = 2;

class Greedy {
  // Of two tensors, is a the one to look at later?
  auto larger() const {
    return [this](int a, int b) {
      return std::pair(state_.log2_size[size_t(a)], a) > std::pair(state_.log2_size[size_t(b)], b);
    };
  }

 public:
  Greedy(const Network& network, const GreedyOptions& options, Budget& budget)
      : state_(network),
        options_(options),
        budget_(budget),
        holders_(network.log2_extent.size()),
        seen_(2 * network.tensors.size(), -1),
        mark_(network.log2_extent.size(), -1) {
    for (size_t k = 0; k < state_.tensors.size(); ++k)
      for (int l : state_.tensors[k]) holders_[size_t(l)].push_back(int(k));
    for (auto& h : holders_) std::make_heap(h.begin(), h.end(), larger());
  }
  SsaPath search() {
    for (size_t k = 0; k < state_.alive.size(); ++k) look_at(int(k));
    while (!heap_.empty() && budget_.any()) {
      const auto [score, a, b] = heap_.top();
      heap_.pop();
      if (!state_.alive[size_t(a)]) continue;
      if (!state_.alive[size_t(b)])
        look_at(a);
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
  bool contract(int a, int b) {
    const int id = state_.contract(a, b);
    if (state_.log2_work > options_.stop_above) return false;
    budget_.spend(kUnitsPerStep);
    for (int l : state_.tensors[size_t(id)]) {
      auto& h = holders_[size_t(l)];
      h.push_back(id);
      std::push_heap(h.begin(), h.end(), larger());
    }
    look_at(id);
    return true;
  }
  // Calls f for the tensors that have the label, at most the kHolders smallest.
  template <class F>
  void for_holders(int label, F&& f) {
    auto& h = holders_[size_t(label)];
    const auto gone = [&](int k) { return !state_.alive[size_t(k)]; };
    if (h.size() > 2 * size_t(state_.uses[size_t(label)])) {
      std::erase_if(h, gone);
      std::make_heap(h.begin(), h.end(), larger());
    }
    if (h.size() <= 2 * kHolders) {
      for (int k : h)
        if (!gone(k)) f(k);
      return;
    }
    std::vector<int> smallest;
    while (!h.empty() && smallest.size() < kHolders) {
      std::pop_heap(h.begin(), h.end(), larger());
      if (!gone(h.back())) smallest.push_back(h.back());
      h.pop_back();
    }
    for (int k : smallest) {
      f(k);
      h.push_back(k);
      std::push_heap(h.begin(), h.end(), larger());
    }
  }
  // Puts the best partner of k on the heap; a tensor that has none is done.
  void look_at(int k) {
    double stays = 0;  // of k's labels, those that someone else has
    for (int l : state_.tensors[size_t(k)]) {
      mark_[size_t(l)] = k;
      if (state_.uses[size_t(l)] > 1) stays += state_.log2_extent[size_t(l)];
    }
    Candidate best{std::numeric_limits<double>::infinity(), k, -1};
    seen_[size_t(k)] = stamp_;
    for (int l : state_.tensors[size_t(k)])
      if (state_.uses[size_t(l)] > 1)
        for_holders(l, [&](int other) {
          if (seen_[size_t(other)] == stamp_) return;
          seen_[size_t(other)] = stamp_;
          const Candidate c{score(k, other, stays), k, other};
          if (std::get<2>(best) < 0 || c < best) best = c;
        });
    ++stamp_;
    budget_.spend(kUnitsPerPair + kUnitsPerLabel * double(state_.tensors[size_t(k)].size()));
    if (std::get<2>(best) >= 0)
      heap_.push(best);
    else
      done_.emplace(state_.log2_size[size_t(k)], k);
  }
  double score(int k, int other, double stays) {
    const LabelSet& labels = state_.tensors[size_t(other)];
    budget_.spend(kUnitsPerPair + kUnitsPerLabel * double(labels.size()));
    double result = stays;
    for (int l : labels) {
      const int uses = state_.uses[size_t(l)];
      if (mark_[size_t(l)] != k)
        result += uses > 1 ? state_.log2_extent[size_t(l)] : 0;
      else if (uses == 2)
        result -= state_.log2_extent[size_t(l)];
    }
    // sign(s) log2(1 + |s|) for s = result - alpha (a + b), without the powers, which can overflow.
    const double a = state_.log2_size[size_t(k)], b = state_.log2_size[size_t(other)];
    const double most = std::max({result, a, b});
    const double s =
        std::exp2(result - most) - options_.alpha * (std::exp2(a - most) + std::exp2(b - most));
    const double size = s == 0 ? 0 : log2_add(0, std::log2(std::abs(s)) + most);
    return std::copysign(size, s) + (options_.temperature > 0 ? noise(k, other) : 0);
  }
  // Gumbel noise, which makes the least score a draw from the Boltzmann distribution. It depends on
  // the pair alone: a pair that is looked at twice gets no second chance.
  double noise(int a, int b) const {
    Random random(options_.seed ^ (uint64_t(std::min(a, b)) << 32 | uint64_t(std::max(a, b))));
    random.next();
    return options_.temperature * std::log(-std::log(random.uniform() + 0x1p-54));
  }

  using Candidate = std::tuple<double, int, int>;  // score, tensor, partner
  State state_;
  const GreedyOptions& options_;
  Budget& budget_;
  std::vector<std::vector<int>> holders_;  // by label: heaps, the smallest tensor on top
  std::vector<int> seen_, mark_;           // by tensor: the last look; by label: the last tensor
  int stamp_ = 0;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>>
      done_;  // size, tensor
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
