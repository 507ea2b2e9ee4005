#include "ops/contract/layout.hpp"

#include <algorithm>
#include <span>

namespace gradus::inline v1 {

namespace {

using Program = ContractionProgram;
using Axes = Program::Axes;

// Places of labels in the three tensors of a step.
class Jumps {
 public:
  explicit Jumps(const std::vector<int64_t>& extents) : extents_(extents) {
    for (auto& places : place_) places.assign(extents.size(), 0);
  }
  double of(const Program::Step& step, const std::vector<Axes>& orders) {
    const Axes* all[3];
    size_t count = 0;
    for (const int v : {step.a.value, step.b.value, step.out})
      if (v >= 0) all[count++] = &orders[size_t(v)];
    const std::span<const Axes* const> tensors(all, count);
    for (size_t t = 0; t < count; ++t)
      for (size_t k = 0; k < all[t]->size(); ++k) place_[t][size_t((*all[t])[k])] = int(k) + 1;
    double n = 0;
    for (const Axes* order : tensors) n += within(*order);
    if (count == 3 && !end_alike(tensors))
      for (const Axes* order : tensors)
        if (ends_with_batch(*order)) n += elements(*order);
    for (size_t t = 0; t < count; ++t)
      for (const int l : *all[t]) place_[t][size_t(l)] = 0;
    return n;
  }

 private:
  bool stay_together(int left, int right) const {
    return std::all_of(std::begin(place_), std::end(place_), [&](const std::vector<int>& place) {
      const int l = place[size_t(left)], r = place[size_t(right)];
      return (!l && !r) || (l && r == l + 1);
    });
  }
  bool ends_with_batch(const Axes& order) const {
    return !order.empty() &&
           std::all_of(std::begin(place_), std::end(place_),
                       [&](const auto& place) { return place[size_t(order.back())] > 0; });
  }
  static bool end_alike(std::span<const Axes* const> tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const Axes* order) {
      return !order->empty() && !tensors[0]->empty() && order->back() == tensors[0]->back();
    });
  }
  double elements(const Axes& order) const {
    double n = 1;
    for (const int l : order) n *= double(extents_[size_t(l)]);
    return n;
  }
  double within(const Axes& order) const {
    double n = 0, share = 1;  // share: of a run among the elements
    for (size_t k = 0; k + 1 < order.size(); ++k) {
      share *= double(extents_[size_t(order[k])]);
      if (!stay_together(order[k], order[k + 1])) n += share;
    }
    return n;
  }
  const std::vector<int64_t>& extents_;
  std::vector<int> place_[3];  // from 1; 0: the tensor lacks the label
};

class Search {
 public:
  Search(const Program& p, const Chosen& free, const std::vector<double>& times)
      : p_(p),
        times_(times),
        jumps_(p.extents),
        orders_(p.values),
        steps_of_(p.values.size()),
        rank_(p.extents.size()) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const Program::Step& s = p.steps[i];
      std::vector<int> values = {s.a.value, s.b.value, s.out};
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
      for (const int v : values)
        if (v >= 0 && free[size_t(v)]) steps_of_[size_t(v)].push_back(i);
    }
  }
  std::vector<Axes> run() {
    constexpr int kPasses = 4;
    const int n = int(orders_.size());
    for (int pass = 0; pass < kPasses; ++pass) {
      bool better = false;
      for (int k = 0; k < n; ++k) better |= improve(pass % 2 ? n - 1 - k : k);
      if (!better) break;
    }
    return std::move(orders_);
  }

 private:
  double jumps_at(int value) {
    double n = 0;
    for (const size_t i : steps_of_[size_t(value)])
      n += times_[i] * jumps_.of(p_.steps[i], orders_);
    return n;
  }
  // The other tensors of a value's steps, the first few.
  std::vector<int> nearest(int value) const {
    constexpr size_t kMost = 4;
    std::vector<int> near;
    for (const size_t i : steps_of_[size_t(value)])
      for (const int v : {p_.steps[i].a.value, p_.steps[i].b.value, p_.steps[i].out})
        if (v >= 0 && v != value && near.size() < kMost &&
            std::find(near.begin(), near.end(), v) == near.end())
          near.push_back(v);
    return near;
  }
  // The labels of one tensor that are in another, in that one's order, before (-1) or behind (1)
  // the rest, which stays as it is.
  Axes follow(const Axes& order, int other, int side) {
    const Axes& lead = orders_[size_t(other)];
    const int n = int(lead.size());
    for (int k = 0; k < n; ++k) rank_[size_t(lead[size_t(k)])] = side < 0 ? k - n : k + 1;
    Axes sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int l, int r) { return rank_[size_t(l)] < rank_[size_t(r)]; });
    for (const int l : lead) rank_[size_t(l)] = 0;
    return sorted;
  }
  bool improve(int value) {
    constexpr double kFew = 200;        // jumps that are not worth a search
    constexpr size_t kMostLabels = 63;  // 2^64 elements are not going to be there
    Axes& order = orders_[size_t(value)];
    if (steps_of_[size_t(value)].empty() || order.size() < 2 || order.size() > kMostLabels)
      return false;
    const double before = jumps_at(value);
    if (before < kFew) return false;
    const Axes was = order;
    Axes best = was;
    double least = before;
    const auto consider = [&](Axes candidate) {
      if (candidate == was) return;
      order = std::move(candidate);
      if (const double n = jumps_at(value); n < least) {
        least = n;
        best = order;
      }
    };
    const std::vector<int> near = nearest(value);
    for (const int first : near)
      for (const int side : {-1, 1}) {
        const Axes led = follow(was, first, side);
        consider(led);
        for (const int second : near)
          if (second != first) consider(follow(led, second, 1));
      }
    order = best;
    return least < before;
  }

  const Program& p_;
  const std::vector<double>& times_;
  Jumps jumps_;
  std::vector<Axes> orders_;
  std::vector<std::vector<size_t>> steps_of_;  // of free values
  std::vector<int> rank_;                      // by label; 0 between uses
};

}  // namespace

double jumps(const Program::Step& step, const std::vector<Axes>& orders,
             const std::vector<int64_t>& extents) {
  return Jumps(extents).of(step, orders);
}

std::vector<Axes> choose_orders(const Program& p, const Chosen& free,
                                const std::vector<double>& times) {
  return Search(p, free, times).run();
}

}  // namespace gradus
