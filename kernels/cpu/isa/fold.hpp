// The order of every long sum on this device (also of products, maxima, ...): elements are taken in
// row-major order in spans of kSpan; within a span lane l joins elements l, l + kLanes, l + 2
// kLanes,
// ... one after the other, the lanes are joined in a tree, and the spans in a tree. So the order
// depends on the length alone, and an f32 sum errs like log n, not like n.
#pragma once
#include "engine/abi/complex.hpp"

#include <stdint.h>

namespace gradus::inline v1::cpu {

inline constexpr int64_t kLanes = 32, kSpan = 1024;

// ---- joins: join(a, b) with b later in the order, and the value of nothing.

template <class T>
struct Sum {
  using Element = T;
  static T empty() { return T(0); }
  static T join(T a, T b) { return a + b; }
};
template <class T>
struct Product {
  using Element = T;
  static T empty() { return T(1); }
  static T join(T a, T b) { return a * b; }
};
// The first NaN wins; maximum and minimum of nothing are never asked for.
template <class T>
struct Maximum {
  using Element = T;
  static T empty() { return T(0); }
  static T join(T a, T b) { return ((b > a) | ((b != b) & (a == a))) ? b : a; }
};
template <class T>
struct Minimum {
  using Element = T;
  static T empty() { return T(0); }
  static T join(T a, T b) { return ((b < a) | ((b != b) & (a == a))) ? b : a; }
};

struct Any {
  using Element = uint8_t;
  static uint8_t empty() { return 0; }
  static uint8_t join(uint8_t a, uint8_t b) { return a | b; }
};
struct All {
  using Element = uint8_t;
  static uint8_t empty() { return 1; }
  static uint8_t join(uint8_t a, uint8_t b) { return a & b; }
};

// Lanes [0, n) of kLanes into lane 0; lane l has `width` elements beginning at lane + l * width.
template <class J, class T>
inline void join_lanes(T* lane, int64_t n, int64_t width) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half && l + half < n; ++l)
      for (int64_t j = 0; j < width; ++j)
        lane[l * width + j] = J::join(lane[l * width + j], lane[(l + half) * width + j]);
}

// One span of 1 <= n <= kSpan contiguous elements.
template <class J, class T>
inline T fold_span(const T* x, int64_t n) {
  T lane[kLanes];
  if (n < kLanes) {
    for (int64_t l = 0; l < n; ++l) lane[l] = x[l];
    join_lanes<J>(lane, n, 1);
    return lane[0];
  }
  for (int64_t l = 0; l < kLanes; ++l) lane[l] = x[l];
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = J::join(lane[l], x[i + l]);
  for (int64_t l = 0; i + l < n; ++l) lane[l] = J::join(lane[l], x[i + l]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) lane[l] = J::join(lane[l], lane[l + half]);
  return lane[0];
}

// The tree over spans, fed one span after the other; each is a vector of `width` elements.
// Levels hold sums of 1, 2, 4, ... spans.
template <class J, class T, int64_t kMaxWidth>
class Tree {
 public:
  explicit Tree(int64_t width) : width_(width) {}
  void add(const T* x) {
    T* top = level_[depth_];
    for (int64_t j = 0; j < width_; ++j) top[j] = x[j];
    ++depth_;
    for (int64_t n = spans_++; n & 1; n >>= 1) join_top();
  }
  const T* result() {
    while (depth_ > 1) join_top();
    return level_[0];
  }

 private:
  void join_top() {
    --depth_;
    for (int64_t j = 0; j < width_; ++j)
      level_[depth_ - 1][j] = J::join(level_[depth_ - 1][j], level_[depth_][j]);
  }
  T level_[48][kMaxWidth];  // touched as far as the depth goes
  int64_t width_, spans_ = 0;
  int depth_ = 0;
};

// Any number of contiguous elements.
template <class J, class T>
inline T fold(const T* x, int64_t n) {
  if (n == 0) return J::empty();
  if (n <= kSpan) return fold_span<J>(x, n);
  Tree<J, T, 1> tree(1);
  for (int64_t i = 0; i < n; i += kSpan) {
    const T span = fold_span<J>(x + i, n - i < kSpan ? n - i : kSpan);
    tree.add(&span);
  }
  return *tree.result();
}

}  // namespace gradus::cpu
