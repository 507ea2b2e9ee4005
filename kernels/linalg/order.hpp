// Matrices by columns, as LAPACK wants them, and copies between any two orders in memory.
#pragma once
#include "kernels/linalg/matrix.hpp"

namespace gradus::inline v1::linalg {

// A matrix in scratch memory whose columns are contiguous.
template <class T>
struct ByColumns {
  T* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;

  T* column(int64_t j) const { return data + j * stride; }
  T& operator()(int64_t i, int64_t j) const { return data[j * stride + i]; }
  // Its transpose, by rows, where it lies.
  Matrix<T> turned() const { return {data, cols, rows, stride}; }
};
template <class T>
bool finite(ByColumns<T> a) {
  return finite(a.turned());
}

// A matrix in any order, of a view or in scratch memory.
template <class T>
struct Strided {
  T* data;
  int64_t rows, cols, down, by;

  T& operator()(int64_t i, int64_t j) const { return data[i * down + j * by]; }
};
template <class T>
Strided<T> strided(Matrix<T> a) {
  return {a.data, a.rows, a.cols, a.stride, 1};
}
template <class T>
Strided<T> strided(ByColumns<T> a) {
  return {a.data, a.rows, a.cols, 1, a.stride};
}

template <class T>
Strided<T> turned(Strided<T> a) {
  return {a.data, a.cols, a.rows, a.by, a.down};
}

enum class Part { kAll, kLower, kUpper };

namespace detail {

// Tiles of that size, each a line of memory wide, are read whole before they are written: what lies
// along rows here and along columns there costs no more than a copy, whatever the strides.
inline constexpr int64_t kTile = 8, kPage = 4096;

// Two numbers of 8 bytes at a time, a square of four turned in registers.
inline void turn_tile(double* __restrict to, int64_t by, const double* __restrict from,
                      int64_t down) {
  using Pair [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = double;
  for (int64_t j = 0; j < kTile; j += 2)
    for (int64_t i = 0; i < kTile; i += 2) {
      const Pair x = *reinterpret_cast<const Pair*>(from + i * down + j);
      const Pair y = *reinterpret_cast<const Pair*>(from + (i + 1) * down + j);
      *reinterpret_cast<Pair*>(to + j * by + i) = Pair{x[0], y[0]};
      *reinterpret_cast<Pair*>(to + (j + 1) * by + i) = Pair{x[1], y[1]};
    }
}
template <class T>
void turn_tile(T* __restrict to, int64_t by, const T* __restrict from, int64_t down) {
  T tile[kTile][kTile];
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) tile[i][j] = from[i * down + j];
  for (int64_t j = 0; j < kTile; ++j)
    for (int64_t i = 0; i < kTile; ++i) to[j * by + i] = tile[i][j];
}

}  // namespace detail

// to = from, of to's size.
template <class T>
void copy(Strided<T> to, Strided<T> from) {
  using detail::kTile;
  if (from.by != 1 && from.down == 1) to = turned(to), from = turned(from);
  const int64_t m = to.rows, n = to.cols;
  if (from.by == 1 && to.by == 1) {
    for (int64_t i = 0; i < m; ++i) std::copy_n(&from(i, 0), n, &to(i, 0));
    return;
  }
  const bool turns = from.by == 1 && to.down == 1;
  const auto tile = [&](int64_t i0, int64_t j0) {
    const int64_t i1 = std::min(i0 + kTile, m), j1 = std::min(j0 + kTile, n);
    if (turns && i1 - i0 == kTile && j1 - j0 == kTile)
      return detail::turn_tile(&to(i0, j0), to.by, &from(i0, j0), from.down);
    for (int64_t i = i0; i < i1; ++i)
      for (int64_t j = j0; j < j1; ++j) to(i, j) = from(i, j);
  };
  // Columns a multiple of a page apart share few cache sets: then they are written one after
  // another.
  if (turns && to.by * int64_t(sizeof(T)) % detail::kPage == 0) {
    for (int64_t j0 = 0; j0 < n; j0 += kTile)
      for (int64_t i0 = 0; i0 < m; i0 += kTile) tile(i0, j0);
  } else {
    for (int64_t i0 = 0; i0 < m; i0 += kTile)
      for (int64_t j0 = 0; j0 < n; j0 += kTile) tile(i0, j0);
  }
}

// The same of a part alone, the rest of `to` becomes 0.
template <class T>
void copy(Strided<T> to, Strided<T> from, Part part) {
  if (part == Part::kAll) return copy(to, from);
  for (int64_t i = 0; i < to.rows; ++i) {
    const int64_t first = part == Part::kUpper ? i : 0;
    const int64_t end = part == Part::kLower ? i + 1 : to.cols;
    for (int64_t j = 0; j < to.cols; ++j) to(i, j) = first <= j && j < end ? from(i, j) : T(0);
  }
}

namespace detail {
template <class T>
void hermitian_tile(Strided<T> to, const T* a, const T* other, int64_t stride) {
  const real_of<T> half(0.5);
  T tile[kTile][kTile];
  turn_tile(tile[0], kTile, other, stride);
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j)
      tile[i][j] = times(half, a[i * stride + j]) + times(half, conj_of(tile[i][j]));
  if (to.down == 1) return turn_tile(to.data, to.by, tile[0], kTile);
  for (int64_t i = 0; i < kTile; ++i) std::copy_n(tile[i], kTile, to.data + i * to.down);
}
}  // namespace detail

// The lower triangle of `to` becomes that of (A + A^H) / 2; they may be the same.
template <class T>
void copy_hermitian(Strided<T> to, Strided<T> a) {
  using detail::kTile;
  const real_of<T> half(0.5);
  const bool in_tiles = a.by == 1 && (to.by == 1 || to.down == 1);
  for (int64_t i0 = 0; i0 < a.rows; i0 += kTile)
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      if (in_tiles && j0 < i0 && i0 + kTile <= a.rows) {
        const Strided<T> tile{&to(i0, j0), kTile, kTile, to.down, to.by};
        detail::hermitian_tile(tile, &a(i0, j0), &a(j0, i0), a.down);
        continue;
      }
      for (int64_t i = i0; i < std::min(i0 + kTile, a.rows); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, i + 1); ++j)
          to(i, j) = times(half, a(i, j)) + times(half, conj_of(a(j, i)));
    }
}

template <class T>
bool finite_lower(Strided<T> a) {
  bool all = true;
  for (int64_t k = 0; k < a.rows; ++k)
    all &= a.by == 1 ? finite(Matrix<T>{&a(k, 0), 1, k + 1, 0})
                     : finite(Matrix<T>{&a(k, k), 1, a.rows - k, 0});
  return all;
}

}  // namespace gradus::linalg
