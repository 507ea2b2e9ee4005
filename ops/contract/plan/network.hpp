// What a planner sees: labels and extents, no tensors. Labels are numbers 0, 1, ... here. An order
// of contraction is a list of pairs in SSA form: tensors are 0 .. n-1, the result of pair i is
// n + i; n - 1 pairs contract all.
#pragma once
#include "engine/base/error.hpp"
#include "ops/contract/plan/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace gradus::inline v1::plan {

using LabelSet = std::vector<int>;  // sorted, distinct

struct Network {
  std::vector<LabelSet> tensors;
  std::vector<double> log2_extent;  // by label
  std::vector<char> open;           // by label: does the output have it?
  // What a step costs: its products, or, where there is a model, the time that it takes.
  std::optional<StepTime> time;

  double log2_size(const LabelSet& labels) const {
    double size = 0;
    for (int l : labels) size += log2_extent[size_t(l)];
    return size;
  }
};

using SsaPath = std::vector<std::pair<int, int>>;

// What an order costs. A step's work is the product of the extents of all labels that it touches;
// a label is summed by the step after which nothing else has it.
struct Cost {
  double log2_mults = 0;    // of the sum over all steps
  double log2_cost = 0;     // the same, or of the seconds where the network has a model of time
  double log2_largest = 0;  // elements of the largest result
};
// Error(value) for pairs that do not contract each tensor once.
Cost cost_of(const Network& network, const SsaPath& path);

// log2(2^a + 2^b).
inline double log2_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return std::isinf(b) ? a : a + std::log2(1 + std::exp2(b - a));
}

// Pseudo-random numbers whose sequence depends on the seed alone (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return double(next() >> 11) * 0x1p-53; }  // in [0, 1)
  int below(int n) { return int(next() % uint64_t(n)); }

 private:
  uint64_t state_;
};

// Work that a search may do, in units of about a microsecond of one core. Counted, not timed, so
// that the same budget finds the same order on every machine.
class Budget {
 public:
  explicit Budget(double units) : left_(units) {}
  bool spend(double units) {  // false once it is used up
    left_ -= units;
    return left_ > 0;
  }
  bool any() const { return left_ > 0; }
  double left() const { return left_; }

 private:
  double left_;
};

}  // namespace gradus::plan
