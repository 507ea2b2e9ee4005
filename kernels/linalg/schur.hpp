// From an upper Hessenberg matrix to Schur form by implicit QR steps. A step chases a bulge down
// the active rows; what it does to columns is needed at once only next to the bulge, so the rest is
// kept and done afterwards row by row, where memory is contiguous.
#pragma once
#include "kernels/linalg/reflect.hpp"

namespace gradus::inline v1::linalg::detail {

constexpr int64_t kStepsForOne = 60;  // until it counts as no convergence
constexpr int64_t kUnusual = 10;      // so many steps without an end call for another shift

// Is h(i + 1, i) nothing beside its neighbours?
template <class T>
bool splits(Matrix<T> h, int64_t i) {
  using R = real_of<T>;
  const R size = size_of(h(i + 1, i)), around = size_of(h(i, i)) + size_of(h(i + 1, i + 1));
  return size <= kEpsilon<R> * around || size <= kNothing<R>;
}
// The first row of the active block that ends with `last`; what splits it off becomes 0.
template <class T>
int64_t find_first(Matrix<T> h, int64_t last) {
  int64_t first = last;
  while (first > 0 && !splits(h, first - 1)) --first;
  if (first > 0) h(first, first - 1) = T(0);
  return first;
}

// ---- complex numbers

// G = ((c, s), (-conj(s), c)) takes (x, y) to (r, 0).
template <class C>
struct PlaneTurn {
  real_of<C> c;
  C s, r;
};
template <class C>
PlaneTurn<C> plane_turn(C x, C y) {
  using R = real_of<C>;
  const R a = modulus(x), b = modulus(y);
  if (b == 0) return {R(1), C(0), x};
  if (a == 0) return {R(0), over(conj_of(y), b), C(b)};
  const R size = length(a, b);
  const C phase = over(x, a);
  return {a / size, over(phase * conj_of(y), size), times(size, phase)};
}
// (x, y) = G (x, y)
template <class C>
void turn(const PlaneTurn<C>& g, C& x, C& y) {
  const C a = x, b = y;
  x = times(g.c, a) + g.s * b;
  y = times(g.c, b) - conj_of(g.s) * a;
}
// (x, y) = (x, y) G^H
template <class C>
void turn_back(const PlaneTurn<C>& g, C& x, C& y) {
  const C a = x, b = y;
  x = times(g.c, a) + conj_of(g.s) * b;
  y = times(g.c, b) - g.s * a;
}

// The eigenvalue of the last two rows of the block that is nearer to the last entry.
template <class C>
C wilkinson_shift(Matrix<C> h, int64_t last) {
  using R = real_of<C>;
  const C d = h(last, last), half = times(R(0.5), h(last - 1, last - 1) - d);
  const C product = h(last - 1, last) * h(last, last - 1);
  // z^2 - 2 half z - product = 0 has the roots half +- root; the smaller one is the shift - d.
  const C square = half * half + product;
  const R size = modulus(square);
  R re = std::sqrt((size + std::fabs(square.re)) / 2), im = re > 0 ? square.im / (2 * re) : R(0);
  if (square.re < 0) std::swap(re, im);  // either sign of the root will do
  C root{re, im};
  if (half.re * root.re + half.im * root.im < 0) root = -root;
  const C larger = half + root;
  return larger == C(0) ? d : d - product / larger;
}

template <class C>
struct ComplexStep {
  Matrix<C> h, zt;
  PlaneTurn<C>* kept;  // of this step

  void operator()(int64_t first, int64_t last, C shift) const {
    const bool all = zt.data;  // else eigenvalues alone are wanted, and the block is all there is
    const int64_t top = all ? 0 : first, end = all ? h.cols : last + 1;
    C x = h(first, first) - shift, y = h(first + 1, first);
    for (int64_t k = first; k < last; ++k) {
      const PlaneTurn<C> g = kept[k] = plane_turn(x, y);
      if (k > first) {
        h(k, k - 1) = g.r;
        h(k + 1, k - 1) = C(0);
      }
      C* __restrict upper = h[k], * __restrict lower = h[k + 1];
      for (int64_t j = k; j < end; ++j) turn(g, upper[j], lower[j]);
      for (int64_t i = k + 1; i <= std::min(k + 2, last); ++i) turn_back(g, h(i, k), h(i, k + 1));
      if (all) {
        C* __restrict p = zt[k], * __restrict q = zt[k + 1];
        for (int64_t j = 0; j < zt.cols; ++j) turn_back(g, p[j], q[j]);
      }
      if (k + 1 == last) break;
      x = h(k + 1, k);
      y = h(k + 2, k);
    }
    for (int64_t i = top; i < last; ++i)
      for (int64_t k = std::max(first, i); k < last; ++k) turn_back(kept[k], h(i, k), h(i, k + 1));
  }
};

// h becomes upper triangular, zt = (Z G^H ...)^T. False: no convergence.
template <class C>
bool complex_schur(Matrix<C> h, Matrix<C> zt, Scratch& scratch) {
  const ComplexStep<C> step{h, zt, scratch.take<PlaneTurn<C>>(h.rows)};
  int64_t steps = 0;
  for (int64_t last = h.rows - 1; last > 0;) {
    const int64_t first = find_first(h, last);
    if (first == last) {
      --last;
      steps = 0;
      continue;
    }
    if (++steps > kStepsForOne) return false;
    const C shift = steps % kUnusual == 0 ? h(last, last) + C(size_of(h(last, last - 1)))
                                          : wilkinson_shift(h, last);
    step(first, last, shift);
  }
  return true;
}

// ---- real numbers

// H = 1 - tau v v^T over rows k, k + 1 and k + 2, or the first two of them: then v[2] is 0.
template <class R>
struct SmallReflection {
  R tau, v[3];
};

template <class R>
struct RealStep {
  Matrix<R> h, zt;
  SmallReflection<R>* kept;

  // A sum and a product of two shifts.
  void operator()(int64_t first, int64_t last, const R (&shifts)[4]) const {
    const bool all = zt.data;
    const int64_t top = all ? 0 : first, end = all ? h.cols : last + 1;
    R x[3];
    begin(first, last, shifts, x);
    for (int64_t k = first; k < last; ++k) {
      const int64_t rows = std::min<int64_t>(3, last - k + 1);
      SmallReflection<R>& g = kept[k];
      g = {0, {1, x[1], rows == 3 ? x[2] : R(0)}};
      const Reflection<R> found = reflect(x[0], rows - 1, g.v + 1);
      g.tau = found.tau;
      if (k > first) {
        h(k, k - 1) = found.beta;
        for (int64_t i = 1; i < rows; ++i) h(k + i, k - 1) = 0;
      }
      rows == 3 ? turn_rows<3>(g, h, k, k, end) : turn_rows<2>(g, h, k, k, end);
      for (int64_t i = k + 1; i <= std::min(k + 3, last); ++i) turn_row(g, rows, h[i] + k);
      if (all) rows == 3 ? turn_rows<3>(g, zt, k, 0, zt.cols) : turn_rows<2>(g, zt, k, 0, zt.cols);
      for (int64_t i = 0; i < 3; ++i) x[i] = k + 1 + i <= last ? h(k + 1 + i, k) : R(0);
    }
    for (int64_t i = top; i < last; ++i)
      for (int64_t k = std::max(first, i); k < last; ++k)
        turn_row(kept[k], std::min<int64_t>(3, last - k + 1), h[i] + k);
  }

 private:
  // The first column of (H - s1)(H - s2), divided by h(first + 1, first). The shifts are the
  // eigenvalues of ((s[0], s[1]), (s[2], s[3])).
  void begin(int64_t first, int64_t last, const R (&s)[4], R* x) const {
    const R a = h(first, first), below = h(first + 1, first);
    x[0] = ((s[0] - a) / below) * (s[3] - a) - (s[1] / below) * s[2] + h(first, first + 1);
    x[1] = (a - s[0]) + (h(first + 1, first + 1) - s[3]);
    x[2] = first + 2 <= last ? h(first + 2, first + 1) : R(0);
  }
  template <int Rows>
  static void turn_rows(const SmallReflection<R>& g, Matrix<R> a, int64_t k, int64_t from,
                        int64_t to) {
    R* __restrict p = a[k], * __restrict q = a[k + 1], * __restrict r = a[k + Rows - 1];
    const R v1 = g.v[1], v2 = g.v[2], t0 = g.tau, t1 = g.tau * v1, t2 = g.tau * v2;
    for (int64_t j = from; j < to; ++j) {
      R sum = p[j] + v1 * q[j];
      if constexpr (Rows == 3) sum += v2 * r[j];
      p[j] -= t0 * sum;
      q[j] -= t1 * sum;
      if constexpr (Rows == 3) r[j] -= t2 * sum;
    }
  }
  static void turn_row(const SmallReflection<R>& g, int64_t entries, R* x) {
    R sum = x[0] + g.v[1] * x[1];
    if (entries == 3) sum += g.v[2] * x[2];
    sum *= g.tau;
    x[0] -= sum;
    x[1] -= sum * g.v[1];
    if (entries == 3) x[2] -= sum * g.v[2];
  }
};

// What two conjugate or two real eigenvalues of ((a, b), (c, d)) are: middle +- root, where root is
// imaginary if `pair`.
template <class R>
struct TwoEigenvalues {
  R middle, half, root;  // half = (a - d) / 2
  bool pair;
};
template <class R>
TwoEigenvalues<R> eigenvalues_of_two(R a, R b, R c, R d) {
  const R half = (a - d) / 2, size = std::max({std::fabs(half), std::fabs(b), std::fabs(c)});
  if (size == 0) return {d, 0, 0, false};
  const R square = (half / size) * (half / size) + (b / size) * (c / size);
  return {d + half, half, size * std::sqrt(std::fabs(square)), square < 0};
}

// The block of rows k and k + 1 becomes upper triangular if its eigenvalues are real.
template <class R>
void split_two(Matrix<R> h, Matrix<R> zt, int64_t k) {
  const int64_t n = h.rows;
  const auto two = eigenvalues_of_two(h(k, k), h(k, k + 1), h(k + 1, k), h(k + 1, k + 1));
  if (two.pair) return;
  // (a - w, b; c, d - w) (x, y) = 0 of w = d + x, c = y.
  const Rotation<R> g = rotation(two.half + std::copysign(two.root, two.half), h(k + 1, k));
  const auto turn_both = [&](R& x, R& y) {
    const R a = x, b = y;
    x = g.c * a + g.s * b;
    y = g.c * b - g.s * a;
  };
  for (int64_t j = k; j < n; ++j) turn_both(h(k, j), h(k + 1, j));
  for (int64_t i = 0; i <= k + 1; ++i) turn_both(h(i, k), h(i, k + 1));
  h(k + 1, k) = 0;
  if (zt.data)
    for (int64_t j = 0; j < n; ++j) turn_both(zt(k, j), zt(k + 1, j));
}

// h becomes upper triangular but for blocks of two rows that have a conjugate pair.
template <class R>
bool real_schur(Matrix<R> h, Matrix<R> zt, Scratch& scratch) {
  const RealStep<R> step{h, zt, scratch.take<SmallReflection<R>>(h.rows)};
  int64_t steps = 0;
  for (int64_t last = h.rows - 1; last > 0;) {
    const int64_t first = find_first(h, last);
    if (first + 1 >= last) {
      if (first < last) split_two(h, zt, first);
      last = first - 1;
      steps = 0;
      continue;
    }
    if (++steps > kStepsForOne) return false;
    const R a = h(last - 1, last - 1), b = h(last - 1, last), c = h(last, last - 1);
    const R d = h(last, last), by = std::fabs(c) + std::fabs(h(last - 1, last - 2));
    if (steps % kUnusual == 0)
      step(first, last, {d + R(0.75) * by, R(-0.4375) * by, by, d + R(0.75) * by});
    else
      step(first, last, {a, b, c, d});
  }
  return true;
}

// The Schur form of a real matrix with its pairs split, t, and the transposed zt that goes with it.
template <class R, class C>
void split_pairs(Matrix<R> h, Matrix<R> real_zt, Matrix<C> t, Matrix<C> zt) {
  const int64_t n = h.rows;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      t(i, j) = C(j + 1 < i ? R(0) : h(i, j));
      if (zt.data) zt(i, j) = C(real_zt(i, j));
    }
  for (int64_t k = 0; k + 1 < n; ++k) {
    if (h(k + 1, k) == 0) continue;
    const R below = h(k + 1, k);
    const auto two = eigenvalues_of_two(h(k, k), h(k, k + 1), below, h(k + 1, k + 1));
    const PlaneTurn<C> g = plane_turn(C(two.half, two.root), C(below));
    for (int64_t j = k; j < n; ++j) turn(g, t(k, j), t(k + 1, j));
    for (int64_t i = 0; i <= k + 1; ++i) turn_back(g, t(i, k), t(i, k + 1));
    if (zt.data)
      for (int64_t j = 0; j < n; ++j) turn_back(g, zt(k, j), zt(k + 1, j));
    t(k + 1, k) = C(0);
    t(k, k) = C(two.middle, two.root);
    t(k + 1, k + 1) = C(two.middle, -two.root);
  }
}

}  // namespace gradus::linalg::detail
