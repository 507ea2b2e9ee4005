// The loops over contiguous rows in which the algorithms spend their time. Those over long rows of
// real numbers stand in rows.cpp, once for each kind of processor; they give the same bits on all,
// since each element's arithmetic is the same in vectors of any width.
#pragma once
#include "engine/abi/complex.hpp"

#include <cstdint>
#include <type_traits>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace gradus::inline v1::linalg {

// What a block of a product is made of: c (rows, n), rows 1 or 2, += or -= x (2, depth) b (depth,
// n), depth 1 or 4.
template <class T>
struct Strip {
  int64_t n;
  T* c;
  int64_t c_stride;
  const T* b;
  int64_t b_stride;
  T x[2][4];
};

// The side of a square that is transposed in one go: a line of memory wide.
inline constexpr int64_t kTile = 8;

namespace wide {
#define GRADUS_ROWS(R)                                                                   \
  void add_multiple(int64_t n, R a, const R* x, R* y);                                   \
  R dot(int64_t n, const R* x, const R* y);                                              \
  void rotate(int64_t n, R* x, int64_t step, int count, const R(&c)[4], const R(&s)[4]); \
  void add_strip(int rows, int depth, const Strip<R>& strip);                            \
  R zero_times(int64_t n, const R* x);                                                   \
  void turn_tile(R* to, int64_t to_row, const R* from, int64_t from_row);                \
  void mean_tile(R* to, int64_t to_row, const R* a, const R* other, int64_t from_row);
GRADUS_ROWS(float)
GRADUS_ROWS(double)
#undef GRADUS_ROWS
constexpr int64_t kLeast = 16;  // shorter rows are not worth a call
}  // namespace wide

// Of any numbers and lengths. Inlined into the functions of rows.cpp, they become what those are
// for.
namespace rows {

#define GRADUS_INLINE [[gnu::always_inline]] inline

template <class T>
GRADUS_INLINE void add_multiple(int64_t n, T a, const T* x, T* __restrict y) {
  for (int64_t j = 0; j < n; ++j) y[j] += a * x[j];
}
// The partial sums are independent, so that they can be lanes of a vector.
template <bool Conj, class T>
GRADUS_INLINE T dot(int64_t n, const T* x, const T* y) {
  constexpr int64_t kSums = is_complex_v<T> ? 4 : 8;
  const auto product = [&](int64_t j) {
    if constexpr (Conj)
      return conj_of(x[j]) * y[j];
    else
      return x[j] * y[j];
  };
  T sum{};
  int64_t j = 0;
  if (n >= kSums) {
    T part[kSums] = {};
    for (; j + kSums <= n; j += kSums)
      for (int64_t k = 0; k < kSums; ++k) part[k] += product(j + k);
    for (int64_t k = kSums / 2; k > 0; k /= 2)
      for (int64_t i = 0; i < k; ++i) part[i] += part[i + k];
    sum = part[0];
  }
  for (; j < n; ++j) sum += product(j);
  return sum;
}
// Each element of rows 0 .. Count passes through all rotations while it is in a register.
template <int Count, class R>
GRADUS_INLINE void rotate(int64_t n, R* x, int64_t step, const R (&c)[4], const R (&s)[4]) {
  R cosine[Count], sine[Count];
  for (int k = 0; k < Count; ++k) cosine[k] = c[k], sine[k] = s[k];
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (int64_t j = 0; j < n; ++j) {
    R a = x[j];
    for (int k = 0; k < Count; ++k) {
      const R b = x[(k + 1) * step + j];
      x[k * step + j] = cosine[k] * a + sine[k] * b;
      a = cosine[k] * b - sine[k] * a;
    }
    x[Count * step + j] = a;
  }
}
template <int Rows, int Depth, class T>
GRADUS_INLINE void add_rows(int64_t n, T* __restrict c, int64_t c_stride, const T* b,
                            int64_t b_stride, const T (&factors)[2][4]) {
  T x[Rows][Depth];  // not in memory that c might be
  for (int r = 0; r < Rows; ++r)
    for (int k = 0; k < Depth; ++k) x[r][k] = factors[r][k];
  for (int64_t j = 0; j < n; ++j)
    for (int r = 0; r < Rows; ++r) {
      T sum = c[r * c_stride + j];
      for (int k = 0; k < Depth; ++k) sum += x[r][k] * b[k * b_stride + j];
      c[r * c_stride + j] = sum;
    }
}
template <int Rows, int Depth, class T>
GRADUS_INLINE void add_strip(const Strip<T>& s) {
  add_rows<Rows, Depth>(s.n, s.c, s.c_stride, s.b, s.b_stride, s.x);
}

// The sum of 0 x, in lanes: 0 if all are finite.
template <class R>
GRADUS_INLINE R zero_times(int64_t n, const R* x) {
  constexpr int64_t kSums = 16;
  R sum[kSums] = {};
  int64_t j = 0;
  for (; j + kSums <= n; j += kSums)
    for (int64_t k = 0; k < kSums; ++k) sum[k] += R(0) * x[j + k];
  for (; j < n; ++j) sum[0] += R(0) * x[j];
  for (int64_t k = 1; k < kSums; ++k) sum[0] += sum[k];
  return sum[0];
}
#undef GRADUS_INLINE
}  // namespace rows

// y += a x
template <class T>
void add_multiple(int64_t n, T a, const T* x, T* y) {
  if constexpr (std::is_floating_point_v<T>)
    if (n >= wide::kLeast) return wide::add_multiple(n, a, x, y);
  rows::add_multiple(n, a, x, y);
}
// The sum of x[j] y[j], or of conj(x[j]) y[j].
template <bool Conj = false, class T>
T dot(int64_t n, const T* x, const T* y) {
  if constexpr (std::is_floating_point_v<T>)
    if (n >= wide::kLeast) return wide::dot(n, x, y);
  constexpr bool kConj = Conj && is_complex_v<T>;
  return rows::dot<kConj>(n, x, y);
}
// Rotations of the neighbouring rows k and k + 1 of x, `step` apart, for k = 0 .. count - 1, 1 to 4
// of them: (x, y) = (c x + s y, c y - s x).
template <class R>
void rotate(int64_t n, R* x, int64_t step, int count, const R (&c)[4], const R (&s)[4]) {
  wide::rotate(n, x, step, count, c, s);
}
template <int Rows, int Depth, class T>
void add_strip(const Strip<T>& strip) {
  if constexpr (std::is_floating_point_v<T>)
    if (strip.n >= wide::kLeast) return wide::add_strip(Rows, Depth, strip);
  rows::add_strip<Rows, Depth>(strip);
}

// While it lives, what this thread computes below the normal numbers is 0: entries of vectors may
// become as small, and cost a hundred times as much. Where processors have no such mode they stay.
class NoTinyNumbers {
#ifdef __SSE2__
 public:
  NoTinyNumbers() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kToZero | kAsZero); }
  ~NoTinyNumbers() { _mm_setcsr(before_); }
  NoTinyNumbers(const NoTinyNumbers&) = delete;
  NoTinyNumbers& operator=(const NoTinyNumbers&) = delete;

 private:
  static constexpr unsigned kToZero = 0x8000, kAsZero = 0x0040;  // results, operands
  const unsigned before_;
#else
 public:
  NoTinyNumbers() {}
#endif
};

}  // namespace gradus::linalg
