// Matrices by columns, as LAPACK wants them, and copies between any two orders in memory.
#pragma once
#include "kernels/linalg/matrix.hpp"

#include <utility>

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

template <class T>
Strided<T> rows_of(Strided<T> a, int64_t first, int64_t count) {
  return {a.data + first * a.down, count, a.cols, a.down, a.by};
}

template <class T>
bool finite(Strided<T> a) {
  bool all = true;
  for (int64_t i = 0; i < a.rows; ++i)
    if (a.by == 1)
      all &= finite(Matrix<T>{&a(i, 0), 1, a.cols, a.cols});
    else
      for (int64_t j = 0; j < a.cols; ++j) all &= finite(a(i, j));
  return all;
}

enum class Part { kAll, kLower, kUpper };

namespace detail {

// What lies along rows here and along columns there costs little more than a copy if it is done in
// tiles, whole lines of memory; the processor is told which ones will be written soon.
inline constexpr int64_t kAhead = 4 * kTile;
template <class T>
void fetch_tile(Strided<T> a, int64_t i0, int64_t j0) {
  if (i0 + kTile > a.rows || j0 + kTile > a.cols) return;
  for (int64_t k = 0; k < kTile; ++k)
    __builtin_prefetch(a.by == 1 ? &a(i0 + k, j0) : &a(i0, j0 + k));
}

template <class T>
void turn_tile(T* to, int64_t by, const T* from, int64_t down) {
  if constexpr (std::is_floating_point_v<T>) return wide::turn_tile(to, by, from, down);
  T tile[kTile][kTile];
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) tile[i][j] = from[i * down + j];
  for (int64_t j = 0; j < kTile; ++j)
    for (int64_t i = 0; i < kTile; ++i) to[j * by + i] = tile[i][j];
}

// a square becomes its transpose.
template <class T>
void turn_in_place(Strided<T> a) {
  for (int64_t i0 = 0; i0 < a.rows; i0 += kTile)
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      if (a.by == 1 && j0 < i0 && i0 + kTile <= a.rows) {
        T kept[kTile][kTile];
        turn_tile(kept[0], kTile, &a(i0, j0), a.down);
        turn_tile(&a(i0, j0), a.down, &a(j0, i0), a.down);
        for (int64_t k = 0; k < kTile; ++k) std::copy_n(kept[k], kTile, &a(j0 + k, i0));
        continue;
      }
      for (int64_t i = i0; i < std::min(i0 + kTile, a.rows); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, i); ++j) std::swap(a(i, j), a(j, i));
    }
}

}  // namespace detail

// to = from, of to's size, or that of a part alone, and the rest of `to` becomes 0. They may be one
// in memory; a whole square also by rows here and by columns there.
template <class T>
void copy(Strided<T> to, Strided<T> from, Part part = Part::kAll) {
  if (to.data == from.data && to.down == from.by && to.by == from.down && part == Part::kAll)
    return detail::turn_in_place(to);
  if (from.by != 1 && from.down == 1) {
    to = turned(to), from = turned(from);
    if (part != Part::kAll) part = part == Part::kLower ? Part::kUpper : Part::kLower;
  }
  const int64_t m = to.rows, n = to.cols;
  const auto inside = [&](int64_t i, int64_t j) {
    return part == Part::kAll || (part == Part::kLower ? j <= i : i <= j);
  };
  if (from.by == 1 && to.by == 1) {
    for (int64_t i = 0; i < m; ++i) {
      const int64_t first = part == Part::kUpper ? std::min(i, n) : 0,
                    end = part == Part::kLower ? std::min(i + 1, n) : n;
      std::fill_n(&to(i, 0), first, T(0));
      if (to.data != from.data) std::copy_n(&from(i, 0) + first, end - first, &to(i, 0) + first);
      std::fill_n(&to(i, 0) + end, n - end, T(0));
    }
    return;
  }
  const bool turns = from.by == 1 && to.down == 1;
  for (int64_t i0 = 0; i0 < m; i0 += kTile)
    for (int64_t j0 = 0; j0 < n; j0 += kTile) {
      const int64_t i1 = std::min(i0 + kTile, m), j1 = std::min(j0 + kTile, n);
      const bool some = inside(i0, j1 - 1) || inside(i1 - 1, j0),
                 whole = inside(i0, j1 - 1) && inside(i1 - 1, j0);
      if (turns && whole && i1 - i0 == kTile && j1 - j0 == kTile) {
        detail::turn_tile(&to(i0, j0), to.by, &from(i0, j0), from.down);
        detail::fetch_tile(to, i0, j0 + detail::kAhead);
      } else if (some) {
        for (int64_t i = i0; i < i1; ++i)
          for (int64_t j = j0; j < j1; ++j) to(i, j) = inside(i, j) ? from(i, j) : T(0);
      } else {
        for (int64_t j = j0; j < j1; ++j)
          for (int64_t i = i0; i < i1; ++i) to(i, j) = T(0);
      }
    }
}

namespace detail {
// to, by rows, becomes half the tile a and half the conjugate of the tile `other`, turned.
template <class T>
void hermitian_tile(T* to, int64_t to_row, const T* a, const T* other, int64_t from_row) {
  if constexpr (std::is_floating_point_v<T>) return wide::mean_tile(to, to_row, a, other, from_row);
  const real_of<T> half(0.5);
  T tile[kTile][kTile];
  turn_tile(tile[0], kTile, other, from_row);
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) {
      to[i * to_row + j] = times(half, a[i * from_row + j]) + times(half, conj_of(tile[i][j]));
    }
}
}  // namespace detail

// The lower triangle of `to` becomes that of (A + A^H) / 2; they may be the same.
template <class T>
void copy_hermitian(Matrix<T> to, Strided<T> a) {
  const real_of<T> half(0.5);
  for (int64_t i0 = 0; i0 < a.rows; i0 += kTile)
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      if (a.by == 1 && j0 < i0 && i0 + kTile <= a.rows) {
        detail::hermitian_tile(&to(i0, j0), to.stride, &a(i0, j0), &a(j0, i0), a.down);
        detail::fetch_tile(strided(to), i0, j0 + detail::kAhead);
        continue;
      }
      for (int64_t i = i0; i < std::min(i0 + kTile, a.rows); ++i)
        for (int64_t j = j0; j < std::min(j0 + kTile, i + 1); ++j)
          to(i, j) = times(half, a(i, j)) + times(half, conj_of(a(j, i)));
    }
}

}  // namespace gradus::linalg
