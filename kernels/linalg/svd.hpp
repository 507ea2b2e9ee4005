// A = U diag(s) V^H: reduced to a real upper bidiagonal matrix by reflections from both sides
// (Golub & Van Loan 5.4.8), then the implicit QR steps of Demmel & Kahan (SIAM J. Sci. Stat.
// Comput. 11, 1990), which without a shift keep the digits of small singular values.
#pragma once
#include "kernels/linalg/eigh.hpp"

namespace gradus::inline v1::linalg {

namespace detail {

// a (m, n), m >= n, becomes d and e and is lost. The vectors of the reflections go to the rows of
// left (n, m) and right (n, n): A = H_0 H_1 .. B (G_0 G_1 ..)^H.
template <class T>
void bidiagonalize(Matrix<T> a, real_of<T>* d, real_of<T>* e, Matrix<T> left, T* tau_left,
                   Matrix<T> right, T* tau_right, Scratch& scratch) {
  const int64_t m = a.rows, n = a.cols;
  T *const room = scratch.take<T>(n), *const conj_u = scratch.take<T>(n);
  for (int64_t k = 0; k < n; ++k) {
    T* const v = left[k];
    std::fill_n(v, k, T(0));
    for (int64_t i = k; i < m; ++i) v[i] = a(i, k);
    const Reflection<T> h = reflect(v[k], m - k - 1, v + k + 1);
    v[k] = T(1);
    d[k] = h.beta;
    tau_left[k] = h.tau;
    reflect_rows(a.block(k, k + 1, m - k, n - k - 1), v + k, conj_of(h.tau), room);

    T* const u = right[k];
    std::fill_n(u, std::min(k + 1, n), T(0));
    tau_right[k] = T(0);
    if (k + 1 == n) break;
    for (int64_t j = k + 1; j < n; ++j) u[j] = conj_of(a(k, j));
    const Reflection<T> g = reflect(u[k + 1], n - k - 2, u + k + 2);
    u[k + 1] = T(1);
    e[k] = g.beta;
    tau_right[k] = g.tau;
    for (int64_t j = k + 1; j < n; ++j) conj_u[j] = conj_of(u[j]);
    reflect_columns(a.block(k + 1, k + 1, m - k - 1, n - k - 1), u + k + 1, conj_u + k + 1, g.tau);
  }
}

// The smaller singular value of ((f, g), (0, h)).
template <class R>
R smaller_singular_value(R f, R g, R h) {
  f = std::fabs(f);
  h = std::fabs(h);
  const R least = std::min(f, h), most = std::max(f, h);
  if (least == 0) return 0;
  return least * (2 * most / (length(most + least, g) + length(most - least, g)));
}

// The rotations of a run: on its way from the end of large numbers the matrix is upper bidiagonal,
// turned it is the transposed one, and left and right change places.
template <class R>
struct Sides {
  Rotations<R>&left, &right;
};

template <class R>
void shifted_step(const Run<R>& b, R shift, Sides<R> sides) {
  const int64_t end = b.length() - 1;
  const R head = b.diagonal(0);
  R f = (std::fabs(head) - shift) * (std::copysign(R(1), head) + shift / head), g = b.beside(0);
  for (int64_t k = 0; k < end; ++k) {
    R &upper = b.diagonal(k), &lower = b.diagonal(k + 1), &between = b.beside(k);
    const Rotation<R> right = rotation(f, g);
    if (k > 0) b.beside(k - 1) = right.r;
    f = right.c * upper + right.s * between;
    between = right.c * between - right.s * upper;
    g = right.s * lower;
    lower *= right.c;
    b.rotate(sides.right, k, right.c, right.s);
    const Rotation<R> left = rotation(f, g);
    upper = left.r;
    f = left.c * between + left.s * lower;
    lower = left.c * lower - left.s * between;
    if (k + 1 < end) {
      g = left.s * b.beside(k + 1);
      b.beside(k + 1) *= left.c;
    }
    b.rotate(sides.left, k, left.c, left.s);
  }
  b.beside(end - 1) = f;
}

template <class R>
void unshifted_step(const Run<R>& b, Sides<R> sides) {
  const int64_t end = b.length() - 1;
  R c = 1;
  Rotation<R> left{1, 0, 0};
  for (int64_t k = 0; k < end; ++k) {
    const Rotation<R> right = rotation(b.diagonal(k) * c, b.beside(k));
    if (k > 0) b.beside(k - 1) = left.s * right.r;
    left = rotation(left.c * right.r, b.diagonal(k + 1) * right.s);
    b.diagonal(k) = left.r;
    c = right.c;
    b.rotate(sides.right, k, right.c, right.s);
    b.rotate(sides.left, k, left.c, left.s);
  }
  const R tail = b.diagonal(end) * c;
  b.diagonal(end) = tail * left.c;
  b.beside(end - 1) = tail * left.s;
}

// The shift of a run, 0 if it would spoil small singular values. Numbers between the diagonals that
// no singular value feels become 0 and split the run: then *split is true.
template <class R>
R find_shift(const Run<R>& b, bool* split) {
  constexpr R kAccuracy = 8 * kEpsilon<R>;
  const int64_t end = b.length() - 1;
  R most = std::fabs(b.diagonal(0)), mu = most, least = most;
  for (int64_t k = 0; k < end; ++k) {
    const R beside = std::fabs(b.beside(k)), next = std::fabs(b.diagonal(k + 1));
    if (beside <= kAccuracy * mu || (k + 1 == end && beside <= kAccuracy * next)) {
      b.beside(k) = 0;
      *split = true;
      return 0;
    }
    mu = next * (mu / (mu + beside));
    least = std::min(least, mu);
    most = std::max({most, beside, next});
  }
  if (R(b.length()) * kAccuracy * (least / most) <= kEpsilon<R>) return 0;
  const R shift = smaller_singular_value(b.diagonal(end - 1), b.beside(end - 1), b.diagonal(end));
  const R relative = shift / std::fabs(b.diagonal(0));
  return relative * relative < kEpsilon<R> ? 0 : shift;
}

}  // namespace detail

// The singular values of the bidiagonal matrix d, e in d, in no order, with signs. left and right:
// the rows of the transposed matrices of its vectors. False: no convergence.
template <class R>
bool solve_bidiagonal(int64_t n, R* d, R* e, Rotations<R>& left, Rotations<R>& right) {
  int64_t steps_left = 60 * n;
  for (int64_t last = n - 1; last > 0;) {
    const auto negligible = [&](int64_t i) { return std::fabs(e[i]) <= kNothing<R>; };
    if (negligible(last - 1)) {
      e[--last] = 0;
      continue;
    }
    int64_t first = last - 1;
    while (first > 0 && !negligible(first - 1)) --first;
    const bool turned = std::fabs(d[first]) < std::fabs(d[last]);
    const Run<R> run{d, e, first, last, turned};
    bool split = false;
    const R shift = detail::find_shift(run, &split);
    if (split) continue;
    if (steps_left-- == 0) return false;
    const detail::Sides<R> sides =
        turned ? detail::Sides<R>{right, left} : detail::Sides<R>{left, right};
    shift == 0 ? detail::unshifted_step(run, sides) : detail::shifted_step(run, shift, sides);
  }
  return true;
}

namespace detail {

// c's first columns are those of z^T in the given order, times the reflections; the others, beyond
// z's size, are those of the reflections alone.
template <class T>
void form_vectors(Matrix<real_of<T>> z, const int64_t* order, Matrix<T> reflections, const T* tau,
                  Matrix<T> c, Scratch& scratch) {
  const NoTinyNumbers mode;
  set_identity(c);
  for (int64_t i = 0; i < z.rows; ++i)
    for (int64_t j = 0; j < z.rows; ++j) c(i, j) = T(z(order[j], i));
  apply_reflections(reflections, tau, false, c, scratch);
}

}  // namespace detail

// a (m, n), m >= n, is lost. s (n) descends; u (m, n or m) and v (n, n), if they have data, the
// vectors as columns.
template <class T>
bool svd_tall(Matrix<T> a, Matrix<T> u, real_of<T>* s, Matrix<T> v, Scratch& scratch) {
  using R = real_of<T>;
  const int64_t m = a.rows, n = a.cols;
  const int scaled = normalize_scale(a);
  R *const d = scratch.take<R>(n), *const e = scratch.take<R>(n);
  const Matrix<T> left = scratch.matrix<T>(n, m), right = scratch.matrix<T>(n, n);
  T *const tau_left = scratch.take<T>(n), *const tau_right = scratch.take<T>(n);
  detail::bidiagonalize(a, d, e, left, tau_left, right, tau_right, scratch);
  const auto square = [&](bool wanted) {
    if (!wanted) return Matrix<R>{};
    const Matrix<R> z = scratch.matrix<R>(n, n);
    set_identity(z);
    return z;
  };
  const Matrix<R> zu = square(u.data), zv = square(v.data);
  Rotations<R> left_rows(zu, scratch), right_rows(zv, scratch);
  if (!solve_bidiagonal(n, d, e, left_rows, right_rows)) return false;
  left_rows.apply();
  right_rows.apply();
  for (int64_t i = 0; i < n; ++i) {
    if (!std::signbit(d[i])) continue;
    d[i] = -d[i];
    if (v.data) scale_row(n, R(-1), zv[i]);
  }
  int64_t* const order = scratch.take<int64_t>(n);
  std::iota(order, order + n, int64_t(0));
  std::sort(order, order + n,
            [&](int64_t i, int64_t j) { return d[i] > d[j] || (d[i] == d[j] && i < j); });
  for (int64_t i = 0; i < n; ++i) s[i] = scale_by_power(d[order[i]], -scaled);
  if (u.data) detail::form_vectors(zu, order, left, tau_left, u, scratch);
  if (v.data) detail::form_vectors(zv, order, right, tau_right, v, scratch);
  return true;
}

// The columns of u get their phases, the first ones of v those of u, its others their own.
template <class T>
void normalize_phases(Strided<T> u, Matrix<T> v, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    const T phase = normalize_phase(u, k);
    if (v.data && phase != T(1))
      for (int64_t i = 0; i < v.rows; ++i) v(i, k) *= phase;
  }
  for (int64_t k = count; k < u.cols; ++k) normalize_phase(u, k);
  for (int64_t k = count; k < v.cols; ++k) normalize_phase(strided(v), k);
}

}  // namespace gradus::linalg
