// Dense matrices in scratch memory, rows contiguous, and what all algorithms of the room are made
// of: products and sums over contiguous rows, lengths that neither overflow nor underflow.
#pragma once
#include "kernels/linalg/rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gradus::inline v1::linalg {

template <class R>
inline constexpr R kEpsilon = std::numeric_limits<R>::epsilon();
// Below it, squares and reciprocals leave the normal numbers.
template <class R>
inline constexpr R kTiny = std::numeric_limits<R>::min() / kEpsilon<R>;

// What is nothing beside numbers near 1, and has a square: the root of the least normal number.
template <class R>
inline constexpr R kNothing = R(sizeof(R) == 4 ? 0x1p-63 : 0x1p-511);

template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;

  T* operator[](int64_t i) const { return data + i * stride; }
  T& operator()(int64_t i, int64_t j) const { return data[i * stride + j]; }
  Matrix block(int64_t i, int64_t j, int64_t m, int64_t n) const {
    return {data + i * stride + j, m, n, stride};
  }
};

// The left factor of a product: a matrix, its transpose or its adjoint, read where it lies.
template <class T>
struct Factor {
  const T* data;
  int64_t rows, cols, row_step, col_step;
  bool conj;

  T operator()(int64_t i, int64_t j) const {
    const T x = data[i * row_step + j * col_step];
    return conj ? conj_of(x) : x;
  }
  Factor block(int64_t i, int64_t j, int64_t m, int64_t n) const {
    return {data + i * row_step + j * col_step, m, n, row_step, col_step, conj};
  }
};
template <class T>
Factor<T> plain(Matrix<T> a) {
  return {a.data, a.rows, a.cols, a.stride, 1, false};
}
template <class T>
Factor<T> conjugate(Matrix<T> a) {
  return {a.data, a.rows, a.cols, a.stride, 1, true};
}
template <class T>
Factor<T> transpose(Matrix<T> a) {
  return {a.data, a.cols, a.rows, 1, a.stride, false};
}
template <class T>
Factor<T> adjoint(Matrix<T> a) {
  return {a.data, a.cols, a.rows, 1, a.stride, true};
}

// ---- numbers

template <class T>
real_of<T> real_part(T x) {
  if constexpr (is_complex_v<T>)
    return x.re;
  else
    return x;
}
template <class T>
real_of<T> imaginary_part(T x) {
  if constexpr (is_complex_v<T>)
    return x.im;
  else
    return 0;
}
// A real number times x, which costs less than a complex one.
template <class T>
T times(real_of<T> a, T x) {
  if constexpr (is_complex_v<T>)
    return {a * x.re, a * x.im};
  else
    return a * x;
}
template <class T>
T over(T x, real_of<T> a) {
  if constexpr (is_complex_v<T>)
    return {x.re / a, x.im / a};
  else
    return x / a;
}
// sqrt(a^2 + b^2); of usual numbers without the cost of hypot.
template <class R>
R length(R a, R b) {
  const R sum = a * a + b * b;
  if (sum > kTiny<R> && sum < R(1) / kTiny<R>) return std::sqrt(sum);
  return std::hypot(a, b);
}
template <class T>
real_of<T> modulus(T x) {
  if constexpr (is_complex_v<T>)
    return length(x.re, x.im);
  else
    return std::fabs(x);
}
// |re| + |im|: between the modulus and its sqrt(2)-fold; for choices.
template <class T>
real_of<T> size_of(T x) {
  if constexpr (is_complex_v<T>)
    return std::fabs(x.re) + std::fabs(x.im);
  else
    return std::fabs(x);
}
template <class T>
bool finite(T x) {
  if constexpr (is_complex_v<T>)
    return std::isfinite(x.re) && std::isfinite(x.im);
  else
    return std::isfinite(x);
}
template <class T>
T not_a_number() {
  const auto nan = std::numeric_limits<real_of<T>>::quiet_NaN();
  if constexpr (is_complex_v<T>)
    return {nan, nan};
  else
    return nan;
}

// ---- rows

template <class T>
void scale_row(int64_t n, T a, T* x) {
  for (int64_t j = 0; j < n; ++j) x[j] = a * x[j];
}
template <class T>
real_of<T> largest_size(int64_t n, const T* x) {
  real_of<T> most = 0;
  for (int64_t j = 0; j < n; ++j) most = std::max(most, size_of(x[j]));
  return most;
}
// The Euclidean norm.
template <class T>
real_of<T> norm(int64_t n, const T* x) {
  using R = real_of<T>;
  const auto sum = [&](R by) {
    R s = 0;
    for (int64_t j = 0; j < n; ++j) {
      const T z = times(by, x[j]);
      s += real_part(z) * real_part(z) + imaginary_part(z) * imaginary_part(z);
    }
    return s;
  };
  const R plain_sum = sum(1);
  if (plain_sum > kTiny<R> && plain_sum < R(1) / kTiny<R>) return std::sqrt(plain_sum);
  const R most = largest_size(n, x);
  if (most == 0 || !std::isfinite(most)) return most;
  int exponent;
  std::frexp(most, &exponent);
  exponent = std::max(exponent, std::numeric_limits<R>::min_exponent + 2);
  return std::ldexp(std::sqrt(sum(std::ldexp(R(1), -exponent))), exponent);
}

// ---- matrices

template <class T>
void fill(Matrix<T> a, T x) {
  for (int64_t i = 0; i < a.rows; ++i) std::fill_n(a[i], a.cols, x);
}
template <class T>
void set_identity(Matrix<T> a) {
  fill(a, T(0));
  for (int64_t i = 0; i < std::min(a.rows, a.cols); ++i) a(i, i) = T(1);
}
// 0 x is 0 of a finite x alone.
template <class T>
bool finite(Matrix<T> a) {
  using R = real_of<T>;
  const int64_t numbers = a.cols * int64_t(sizeof(T) / sizeof(R));
  R sum = 0;
  for (int64_t i = 0; i < a.rows; ++i)
    sum += wide::zero_times(numbers, reinterpret_cast<const R*>(a[i]));
  return sum == 0;
}
// 2^by x
template <class T>
T scale_by_power(T x, int by) {
  if (by == 0) return x;
  if constexpr (is_complex_v<T>)
    return {std::ldexp(x.re, by), std::ldexp(x.im, by)};
  else
    return std::ldexp(x, by);
}
// The same of n numbers, by what normalize_scale() gave or took.
template <class T>
void scale_by_power(int64_t n, T* x, int by) {
  if (by == 0) return;
  const real_of<T> factor = std::ldexp(real_of<T>(1), by);
  for (int64_t i = 0; i < n; ++i) x[i] = times(factor, x[i]);
}
// Brings the largest entry near 1 by a power of two, and gives its exponent. One within
// 2^-near to 2^near is near enough.
template <class T>
int normalize_scale(Matrix<T> a, int near = 0) {
  using R = real_of<T>;
  R most = 0;
  for (int64_t i = 0; i < a.rows; ++i) most = std::max(most, largest_size(a.cols, a[i]));
  if (most == 0) return 0;
  int exponent;
  std::frexp(most, &exponent);
  constexpr int kMost = std::numeric_limits<R>::max_exponent - 4;
  const int by = std::clamp(-exponent, -kMost, kMost);
  if (std::abs(by) <= near) return 0;
  for (int64_t i = 0; i < a.rows; ++i) scale_by_power(a.cols, a[i], by);
  return by;
}

namespace detail {
// `Rows` rows of c += a b or -= a b over `Depth` rows of b.
template <int Rows, int Depth, bool Minus, class T>
void add_rows(Matrix<T> c, Factor<T> a, const T* b, int64_t b_stride) {
  Strip<T> strip{c.cols, c.data, c.stride, b, b_stride, {}};
  for (int r = 0; r < Rows; ++r)
    for (int k = 0; k < Depth; ++k) strip.x[r][k] = Minus ? -a(r, k) : a(r, k);
  add_strip<Rows, Depth>(strip);
}
template <int Rows, bool Minus, class T>
void add_depth(Matrix<T> c, Factor<T> a, Matrix<T> b) {
  int64_t k = 0;
  for (; k + 4 <= b.rows; k += 4)
    add_rows<Rows, 4, Minus>(c, a.block(0, k, Rows, 4), b[k], b.stride);
  for (; k < b.rows; ++k) add_rows<Rows, 1, Minus>(c, a.block(0, k, Rows, 1), b[k], b.stride);
}
}  // namespace detail

// c += a b, or c -= a b. In blocks of b that stay in the second cache.
template <bool Minus = false, class T>
void add_product(Matrix<T> c, Factor<T> a, Matrix<T> b) {
  constexpr int64_t kDepth = 64, kWidth = 4096 / int64_t(sizeof(T));
  for (int64_t k = 0; k < b.rows; k += kDepth)
    for (int64_t j = 0; j < c.cols; j += kWidth) {
      const int64_t depth = std::min(kDepth, b.rows - k), width = std::min(kWidth, c.cols - j);
      const Matrix<T> part = b.block(k, j, depth, width);
      int64_t i = 0;
      for (; i + 2 <= c.rows; i += 2)
        detail::add_depth<2, Minus>(c.block(i, j, 2, width), a.block(i, k, 2, depth), part);
      if (i < c.rows)
        detail::add_depth<1, Minus>(c.block(i, j, 1, width), a.block(i, k, 1, depth), part);
    }
}
template <class T>
void subtract_product(Matrix<T> c, Factor<T> a, Matrix<T> b) {
  add_product<true>(c, a, b);
}

}  // namespace gradus::linalg
