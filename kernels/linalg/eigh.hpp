// A = V diag(w) V^H of a Hermitian A: reduced to a real tridiagonal matrix by reflections from the
// last row upwards, of which the lower triangle alone is read (Golub & Van Loan 8.3.1), then
// implicit QR steps with Wilkinson's shift (8.3.5).
#pragma once
#include "kernels/linalg/reflect.hpp"

#include <numeric>

namespace gradus::inline v1::linalg {

// A run of a matrix's diagonals, walked from either end: a chase runs from the large numbers to the
// small ones, which keeps the digits of the small ones.
template <class R>
struct Run {
  R *d, *e;  // e[i] stands between d[i] and d[i + 1]
  int64_t first, last;
  bool turned;

  R& diagonal(int64_t i) const { return d[turned ? last - i : first + i]; }
  R& beside(int64_t i) const { return e[turned ? last - 1 - i : first + i]; }
  int64_t length() const { return last - first + 1; }
  // The rotation (c, s) of entries i and i + 1 of the run.
  void rotate(Rotations<R>& rows, int64_t i, R c, R s) const {
    turned ? rows.add(last - 1 - i, c, -s) : rows.add(first + i, c, s);
  }
};

namespace detail {

// a becomes d and e, a's lower triangle is lost. The reflections go to v and tau in the order in
// which they make Q, with A = Q T Q^H; without v they are lost.
template <class T>
void tridiagonalize(Matrix<T> a, real_of<T>* d, real_of<T>* e, Matrix<T> v, T* tau,
                    Scratch& scratch) {
  using R = real_of<T>;
  const int64_t n = a.rows;
  T *const own = scratch.take<T>(n), *const conj_u = scratch.take<T>(n);
  T *const p = scratch.take<T>(n), *const conj_p = scratch.take<T>(n);
  for (int64_t i = n - 1; i > 0; --i) {
    T* const u = v.data ? v[n - 1 - i] : own;
    for (int64_t j = 0; j < i; ++j) u[j] = conj_of(a(i, j));
    const Reflection<T> h = reflect(u[i - 1], i - 1, u);
    u[i - 1] = T(1);
    if (v.data) {
      std::fill(u + i, u + n, T(0));
      tau[n - 1 - i] = h.tau;
    }
    d[i] = real_part(a(i, i));
    e[i - 1] = h.beta;
    if (h.tau == T(0)) continue;
    for (int64_t j = 0; j < i; ++j) conj_u[j] = conj_of(u[j]);
    // p = tau A u: a row of the triangle is a row of A and, as its conjugate, a column.
    std::fill_n(conj_p, i, T(0));
    for (int64_t j = 0; j < i; ++j) {
      p[j] = dot(j, a[j], u) + times(real_part(a(j, j)), u[j]);
      add_multiple(j, conj_u[j], a[j], conj_p);
    }
    for (int64_t j = 0; j < i; ++j) p[j] = h.tau * (p[j] + conj_of(conj_p[j]));
    // H^H A H = A - u q^H - q u^H with q = p - (conj(tau) u^H p / 2) u.
    const T half = times(R(-0.5), conj_of(h.tau) * dot(i, conj_u, p));
    add_multiple(i, half, u, p);
    for (int64_t j = 0; j < i; ++j) conj_p[j] = conj_of(p[j]);
    for (int64_t j = 0; j < i; ++j) {
      const T by_u = -u[j], by_p = -p[j];
      T* __restrict row = a[j];
      for (int64_t l = 0; l <= j; ++l) row[l] = row[l] + by_u * conj_p[l] + by_p * conj_u[l];
    }
  }
  if (n > 0) d[0] = real_part(a(0, 0));
}

// One implicit QR step.
template <class R>
void step(const Run<R>& t, Rotations<R>& rows) {
  const int64_t end = t.length() - 1;
  const R b = t.beside(end - 1), half = (t.diagonal(end - 1) - t.diagonal(end)) / 2;
  const R shift = t.diagonal(end) - b * (b / (half + std::copysign(length(half, b), half)));
  R x = t.diagonal(0) - shift, z = t.beside(0);
  for (int64_t k = 0; k < end; ++k) {
    const Rotation<R> g = rotation(x, z);
    if (k > 0) t.beside(k - 1) = g.r;
    R &upper = t.diagonal(k), &lower = t.diagonal(k + 1), &between = t.beside(k);
    const R by = g.s * (lower - upper) + 2 * g.c * between;
    upper += g.s * by;
    lower -= g.s * by;
    between = g.c * by - between;
    t.rotate(rows, k, g.c, g.s);
    if (k + 1 == end) break;
    x = between;
    z = g.s * t.beside(k + 1);
    t.beside(k + 1) *= g.c;
  }
}

}  // namespace detail

// The eigenvalues of the tridiagonal matrix d, e in no order, in d. rows: those of the transposed
// matrix of its vectors. False: no convergence.
template <class R>
bool solve_tridiagonal(int64_t n, R* d, R* e, Rotations<R>& rows) {
  // What is left of entries that are nearly equal may be the rounding errors of a step: after many
  // steps for one eigenvalue some more of them count as nothing.
  constexpr int kMany = 20;
  int steps = 0;
  const auto negligible = [&](int64_t i) {
    const R size = std::fabs(e[i]), small = steps < kMany ? kEpsilon<R> : 8 * kEpsilon<R>;
    return size <= small * std::sqrt(std::fabs(d[i])) * std::sqrt(std::fabs(d[i + 1])) ||
           size <= kNothing<R>;
  };
  int64_t steps_left = 60 * n;
  for (int64_t last = n - 1; last > 0;) {
    if (negligible(last - 1)) {
      e[--last] = 0;
      steps = 0;
      continue;
    }
    int64_t first = last - 1;
    while (first > 0 && !negligible(first - 1)) --first;
    if (steps_left-- == 0) return false;
    ++steps;
    // It ends when either end comes off: the last index goes down alone, a first one is found.
    detail::step(Run<R>{d, e, first, last, std::fabs(d[first]) < std::fabs(d[last])}, rows);
  }
  return true;
}

// w ascending; v (n, n), if it has data, the vectors as columns, of any phase. Of a the lower
// triangle is read, and lost.
template <class T>
bool eigh(Matrix<T> a, real_of<T>* w, Matrix<T> v, Scratch& scratch) {
  using R = real_of<T>;
  const int64_t n = a.rows;
  for (int64_t i = 0; i < n; ++i) std::fill(a[i] + i + 1, a[i] + n, T(0));
  const int scaled = normalize_scale(a);
  R *const d = scratch.take<R>(n), *const e = scratch.take<R>(n);
  const int64_t count = std::max<int64_t>(n - 1, 0);
  const Matrix<T> reflections = v.data ? scratch.matrix<T>(count, n) : Matrix<T>{};
  T* const tau = scratch.take<T>(count);
  detail::tridiagonalize(a, d, e, reflections, tau, scratch);
  const Matrix<R> z = v.data ? scratch.matrix<R>(n, n) : Matrix<R>{};
  if (v.data) set_identity(z);
  Rotations<R> rows(z, scratch);
  if (!solve_tridiagonal(n, d, e, rows)) return false;
  rows.apply();
  int64_t* const order = scratch.take<int64_t>(n);
  std::iota(order, order + n, int64_t(0));
  std::sort(order, order + n,
            [&](int64_t i, int64_t j) { return d[i] < d[j] || (d[i] == d[j] && i < j); });
  for (int64_t i = 0; i < n; ++i) w[i] = scale_by_power(d[order[i]], -scaled);
  if (!v.data) return true;
  const NoTinyNumbers mode;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) v(i, j) = T(z(order[j], i));
  apply_reflections(reflections, tau, true, v, scratch);
  return true;
}

}  // namespace gradus::linalg
