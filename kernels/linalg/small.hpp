// Matrices so small that nothing is blocked. An element E is a number, or a vector that holds the
// same entry of as many matrices as it has lanes, whose choices are lanes of a mask; T is its
// number. What a matrix becomes is the same to the bit either way.
#pragma once
#include "kernels/linalg/divisor.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace gradus::inline v1::linalg {

// A matrix by rows without gaps.
template <class E>
struct Small {
  E* data = nullptr;
  int rows = 0, cols = 0;

  E& operator()(int i, int j) const { return data[i * cols + j]; }
  int count() const { return rows * cols; }
};

// One whose side is known where it is compiled: then a place in it takes no arithmetic.
template <class E, int kSide>
struct Square {
  E* data = nullptr;
  static constexpr int rows = kSide, cols = kSide;

  E& operator()(int i, int j) const { return data[i * kSide + j]; }
};
// f(all of them as Squares), if they are squares of vectors of a side that is often met; false: not
// done.
template <class F, class M, class... More>
bool with_squares(F&& f, const M& a, const More&... more) {
  using E = std::remove_reference_t<decltype(*a.data)>;
  const int n = a.rows;
  if (std::is_floating_point_v<E> || a.cols != n || ((more.rows != n || more.cols != n) || ...))
    return false;
  if (n == 3) return f(Square<E, 3>{a.data}, Square<E, 3>{more.data}...), true;
  if (n == 4) return f(Square<E, 4>{a.data}, Square<E, 4>{more.data}...), true;
  return false;
}

// Row y of X of a triangular system whose right side has the row b there, `count` numbers, where
// `known` rows from x on are X's and by[k next] is what the system has for them; divided by the
// pivot, if there is one.
template <class E>
[[gnu::always_inline]] inline void solve_small_row(const E* b, E* y, int count, int known,
                                                   const E* by, int next, const E* x,
                                                   const E* pivot, int cols) {
  const Divisor<E> divided(pivot ? *pivot : E(1));
  int j = 0;
  for (; j + 4 <= count; j += 4) {  // four sums in registers
    E a = b[j], c = b[j + 1], d = b[j + 2], e = b[j + 3];
    const E* row = x + j;
    for (int k = 0; k < known; ++k, row += cols) {
      const E factor = by[k * next];
      a -= factor * row[0];
      c -= factor * row[1];
      d -= factor * row[2];
      e -= factor * row[3];
    }
    y[j] = pivot ? divided(a) : a;
    y[j + 1] = pivot ? divided(c) : c;
    y[j + 2] = pivot ? divided(d) : d;
    y[j + 3] = pivot ? divided(e) : e;
  }
  for (; j < count; ++j) {
    E sum = b[j];
    for (int k = 0; k < known; ++k) sum -= by[k * next] * x[k * cols + j];
    y[j] = pivot ? divided(sum) : sum;
  }
}

template <bool kForward, class M>
void solve_rows(M a, bool unit, bool turned, M b, M x) {
  const int n = x.rows, line = turned ? 1 : a.cols, next = turned ? a.cols : 1;
#pragma GCC unroll 4
  for (int step = 0; step < n; ++step) {
    const int i = kForward ? step : n - 1 - step, first = kForward ? 0 : std::min(i + 1, n - 1);
    solve_small_row(&b(i, 0), &x(i, 0), x.cols, step, a.data + i * line + first * next, next,
                    &x(first, 0), unit ? nullptr : &a(i, i), x.cols);
  }
}

// x becomes X of op(A) X = B, which may be where b is, with a triangular A, `turned` its transpose.
// Nothing is read of the rows that A has below that.
template <class M>
void solve_small_triangle(M a, bool upper, bool unit, bool turned, M b, M x) {
  const auto solve = [&](auto s, auto from, auto to) {
    upper == turned ? solve_rows<true>(s, unit, turned, from, to)
                    : solve_rows<false>(s, unit, turned, from, to);
  };
  if (!with_squares(solve, M{a.data, a.cols, a.cols}, b, x)) solve(a, b, x);
}

template <class T, class M, class E>
E lu_of(M a, E* order) {
  using std::abs;
  const E zero(T(0));
  E zero_pivot = zero;
  for (int i = 0; i < a.rows; ++i) order[i] = E(T(i));
  const int n = std::min(a.rows, a.cols);
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    E most = abs(a(k, k)), best = E(T(k));
#pragma GCC unroll 4
    for (int i = k + 1; i < a.rows; ++i) {
      const E size = abs(a(i, k));
      best = select(size > most, E(T(i)), best);
      most = select(size > most, size, most);
    }
#pragma GCC unroll 4
    for (int i = k + 1; i < a.rows; ++i) {
      const auto here = best == E(T(i));
      if (!any(here)) continue;
      const auto exchange = [&](E& x, E& y) {
        const E kept = x;
        x = select(here, y, x);
        y = select(here, kept, y);
      };
      for (int j = 0; j < a.cols; ++j) exchange(a(k, j), a(i, j));
      exchange(order[k], order[i]);
    }
    const E pivot = a(k, k);
    const auto none = pivot == zero;
    zero_pivot = select(none & (zero_pivot == zero), E(T(k + 1)), zero_pivot);
#pragma GCC unroll 4
    for (int i = k + 1; i < a.rows; ++i) {
      const E by = select(none, zero, a(i, k) / pivot);
      a(i, k) = by;
#pragma GCC unroll 4
      for (int j = k + 1; j < a.cols; ++j) a(i, j) -= by * a(k, j);
    }
  }
  return zero_pivot;
}

// a becomes its LU, order (a.rows) the order of its rows. Gives 0, or the first pivot that is 0.
template <class T, class M, class E>
E small_lu(M a, E* order) {
  E zero_pivot;
  const auto factor = [&](auto s) { zero_pivot = lu_of<T>(s, order); };
  if (!with_squares(factor, a)) factor(a);
  return zero_pivot;
}

}  // namespace gradus::linalg
