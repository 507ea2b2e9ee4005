// Each tensor keeps one candidate, its best partner at the time it was looked at, in a heap. The
// score of a pair never changes while both live (if a label lost its third holder, the second is
// new), so an entry whose partner is gone is merely too good: the tensor is looked at again when it
// comes up. What a pair shares is summed up label by label while its partners are found, so a look
// reads the tensor's own labels alone.
#include "ops/contract/plan/greedy.hpp"

#include "ops/contract/plan/state.hpp"

#include <queue>
#include <tuple>

namespace gradus::inline v1::plan {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr size_t kHolders = 24;  // at least so many are looked at per label, at most twice as many
constexpr double kUnitsPerPair = 0.06, kUnitsPerStep = 1;

// The tensors that have a label, some of them gone. Where they are many, the smallest ones stand
// apart from the others: `near` is looked at, `far` is a heap with the smallest on top.
struct Holders {
  SmallVector<int, 4> near;
  std::vector<int> far;
};

class Greedy {
 public:
  Greedy(const Network& network, const GreedyOptions& options, Budget& budget)
      : state_(network),
        options_(options),
        budget_(budget),
        holders_(network.log2_extent.size()),
        stays_(state_.log2_size),
        shared_(2 * network.tensors.size(), -1) {
    stays_.reserve(shared_.size());
    for (size_t k = 0; k < state_.tensors.size(); ++k)
      for (int l : state_.tensors[k]) {
        if (state_.uses[size_t(l)] == 1) stays_[k] -= state_.log2_extent[size_t(l)];
        holders_[size_t(l)].near.push_back(int(k));
      }
    for (Holders& h : holders_)
      if (h.near.size() > 2 * kHolders) split(h);
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
  bool smaller(int a, int b) const {
    return std::pair(state_.log2_size[size_t(a)], a) < std::pair(state_.log2_size[size_t(b)], b);
  }
  auto larger() const {
    return [this](int a, int b) { return smaller(b, a); };
  }
  bool gone(int k) const { return !state_.alive[size_t(k)]; }

  bool contract(int a, int b) {
    const int id = state_.contract(a, b);
    if (state_.log2_work > options_.stop_above) return false;
    budget_.spend(kUnitsPerStep);
    stays_.push_back(state_.log2_size.back());  // a result's labels all go on
    for (int l : state_.tensors[size_t(id)]) add(holders_[size_t(l)], id);
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
  const SmallVector<int, 4>& holders(int label) {
    Holders& h = holders_[size_t(label)];
    drop_gone(h);
    while (h.near.size() < kHolders && !h.far.empty()) {
      std::pop_heap(h.far.begin(), h.far.end(), larger());
      if (!gone(h.far.back())) h.near.push_back(h.far.back());
      h.far.pop_back();
    }
    return h.near;
  }

  // Puts the best partner of k on the heap; a tensor that has none is done.
  void look_at(int k) {
    partners_.clear();
    common_.clear();
    for (int l : state_.tensors[size_t(k)]) {
      const int uses = state_.uses[size_t(l)];
      if (uses == 1) continue;
      const auto& near = holders(l);
      const bool all = holders_[size_t(l)].far.empty();
      if (!all) common_.push_back(l);
      for (int other : near) {
        double& shared = shared_[size_t(other)];
        if (shared < 0) {
          shared = 0;
          partners_.push_back(other);
        }
        if (all) shared += lost(l);
      }
    }
    Candidate best{kInf, k, -1};
    for (int other : partners_) {
      double shared = std::exchange(shared_[size_t(other)], -1);
      if (other == k) continue;
      for (int l : common_)
        if (has(other, l)) shared += lost(l);
      const Candidate c{score(k, other, shared), k, other};
      if (std::get<2>(best) < 0 || c < best) best = c;
    }
    budget_.spend(kUnitsPerPair * double(1 + partners_.size() * (1 + common_.size())));
    if (std::get<2>(best) >= 0)
      heap_.push(best);
    else
      done_.emplace(state_.log2_size[size_t(k)], k);
  }
  // What a label that both of a pair have takes off the sum of their sizes.
  double lost(int label) const {
    return (state_.uses[size_t(label)] == 2 ? 2 : 1) * state_.log2_extent[size_t(label)];
  }
  bool has(int k, int label) const {
    const LabelSet& labels = state_.tensors[size_t(k)];
    return std::binary_search(labels.begin(), labels.end(), label);
  }
  double score(int k, int other, double shared) const {
    const double result = stays_[size_t(k)] + stays_[size_t(other)] - shared;
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
  std::vector<Holders> holders_;        // by label
  std::vector<double> stays_;           // by tensor: its log2 size without what it alone has
  std::vector<double> shared_;          // by tensor, within a look: what it shares; -1: not met
  std::vector<int> partners_, common_;  // within a look; labels that very many have
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
