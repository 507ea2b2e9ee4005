// What the slot normalize is made of: the call as axes between lines and axes of a line, sums of a
// span in lanes, the tree of means and squares, and the arithmetic of an element.
#pragma once
#include "kernels/cpu/isa/lane_tree.hpp"
#include "kernels/cpu/isa/lines.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

namespace gradus::inline v1::cpu {

inline constexpr int64_t kStrip = 64;  // lines side by side
// kB: the bias, or the cotangent of y. mean and var have one element for each line.
enum { kX, kW, kB, kMean, kVar, kY, kViews };

struct Job {
  Walk kept, inner;  // the axes between lines; those of a line, in row-major order
  int64_t length, spans;
  int32_t dtype, work, to;  // of the operands, of the arithmetic, of the output
  int32_t op;
  double eps;
  bool centred;
  int64_t span_length(int64_t span) const { return shorter(length - span * kSpan, kSpan); }
};

// ---- sums

// The tree of fold.hpp over spans of which each line has a mean and squares around it. `width`
// lines.
template <class T>
class Moments {
 public:
  explicit Moments(int64_t width) : width_(width) {}
  void add(int64_t n, const T* mean, const T* squares) {
    Level& top = level_[depth_++];
    top.n = n;
    memcpy(top.mean, mean, size_t(width_) * sizeof(T));
    memcpy(top.squares, squares, size_t(width_) * sizeof(T));
    for (int64_t k = spans_++; k & 1; k >>= 1) join_top();
  }
  // Their means, and their variances.
  void result(T* mean, T* var) {
    while (depth_ > 1) join_top();
    const Level& all = level_[0];
    for (int64_t j = 0; j < width_; ++j) {
      mean[j] = all.mean[j];
      var[j] = all.squares[j] / T(all.n);
    }
  }

 private:
  struct Level {
    int64_t n;
    T mean[kStrip], squares[kStrip];
  };
  void join_top() {
    const Level& b = level_[--depth_];
    Level& a = level_[depth_ - 1];
    const T share = T(b.n) / T(a.n + b.n), weight = T(a.n) * share;
    for (int64_t j = 0; j < width_; ++j) {
      const T step = b.mean[j] - a.mean[j];
      a.mean[j] = a.mean[j] + step * share;
      a.squares[j] = (a.squares[j] + b.squares[j]) + step * step * weight;
    }
    a.n += b.n;
  }
  Level level_[48];  // touched as far as the depth goes
  int64_t width_, spans_ = 0;
  int depth_ = 0;
};

// The batch at p, of which `left` elements are there; 0 for the others.
template <class T>
inline Batch<T> load_part(const T* p, int64_t left) {
  constexpr int64_t width = int64_t(Batch<T>::size);
  if (left >= width) return Batch<T>::load_unaligned(p);
  T part[width] = {};
  memcpy(part, p, size_t(left) * sizeof(T));
  return Batch<T>::load_unaligned(part);
}
template <class T>
inline void store_part(Batch<T> x, T* p, int64_t left) {
  constexpr int64_t width = int64_t(Batch<T>::size);
  if (left >= width) return x.store_unaligned(p);
  T part[width];
  x.store_unaligned(part);
  memcpy(p, part, size_t(left) * sizeof(T));
}
template <class T>
inline Batch<T> first_of(Batch<T> x, int64_t left) {  // 0 from lane `left` on
  constexpr int64_t width = int64_t(Batch<T>::size);
  if (left >= width) return x;
  T part[width] = {};
  store_part<T>(x, part, left);
  return Batch<T>::load_unaligned(part);
}
template <class T, class F>
__attribute__((always_inline)) inline void for_batches(int64_t n, F&& f) {
  constexpr int64_t width = int64_t(Batch<T>::size);
  int64_t i = 0;
  for (; i + width <= n; i += width) f(i, width);
  if (i < n) f(i, n - i);
}

// Sums of a span in lanes: term(i, left, sums) adds the batch at i to kSums sums.
template <class T, int kSums, class F>
__attribute__((always_inline)) inline void lane_sums(int64_t n, F&& term, T* out) {
  using B = Batch<T>;
  constexpr int64_t width = int64_t(B::size), registers = kLanes / width;
  B sum[registers][kSums];
#pragma GCC unroll 16
  for (auto& lane : sum)
    for (B& s : lane) s = B(T(0));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma GCC unroll 16
    for (int64_t k = 0; k < registers; ++k) term(i + k * width, width, sum[k]);
  if (i < n)
#pragma GCC unroll 16
    for (int64_t k = 0; k < registers; ++k)
      if (const int64_t left = n - i - k * width; left > 0) term(i + k * width, left, sum[k]);
#pragma GCC unroll 16
  for (int64_t half = registers / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int64_t k = 0; k < half; ++k)
      for (int s = 0; s < kSums; ++s) sum[k][s] = sum[k][s] + sum[k + half][s];
  for (int s = 0; s < kSums; ++s) out[s] = joined<T, int(width)>(sum[0][s].data, sum_of);
}

// ---- the arithmetic of an element, in one place for lines and strips

template <class T>
struct Terms {
  using B = Batch<T>;
  B mean, rstd, a, c;  // of vjp: the means of g w and of g w h
  B h(B x) const { return (x - mean) * rstd; }
  B value(B x, B w, B b) const { return fused<T>(h(x), w, b); }
  B vjp(B x, B w, B g) const { return fused_minus<T>(h(x), c, g * w - a) * rstd; }
};

}  // namespace gradus::cpu
