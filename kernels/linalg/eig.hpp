// A V = V diag(w) of any square A: Hessenberg form by reflections (Golub & Van Loan 7.4), Schur
// form by QR steps - complex numbers with one shift, real ones with two (7.5), so that the
// eigenvalues of a real A are real or come in pairs that are conjugate to the bit - then
// back-substitution.
#pragma once
#include "kernels/linalg/schur.hpp"

#include <numeric>

namespace gradus::inline v1::linalg {

namespace detail {

// a becomes upper Hessenberg. zt, if it has data, becomes the transpose of Q, with A = Q H Q^H.
template <class T>
void reduce_to_hessenberg(Matrix<T> a, Matrix<T> zt, Scratch& scratch) {
  const int64_t n = a.rows, count = std::max<int64_t>(n - 2, 0);
  const Matrix<T> v = scratch.matrix<T>(count, n);
  T *const tau = scratch.take<T>(count), *const room = scratch.take<T>(n);
  T* const conj_v = scratch.take<T>(n);
  for (int64_t k = 0; k < count; ++k) {
    T* const x = v[k];
    std::fill_n(x, k + 1, T(0));
    for (int64_t i = k + 1; i < n; ++i) x[i] = a(i, k);
    const Reflection<T> h = reflect(x[k + 1], n - k - 2, x + k + 2);
    x[k + 1] = T(1);
    tau[k] = h.tau;
    a(k + 1, k) = T(h.beta);
    for (int64_t i = k + 2; i < n; ++i) a(i, k) = T(0);
    for (int64_t i = k + 1; i < n; ++i) conj_v[i] = conj_of(x[i]);
    const int64_t rest = n - k - 1;
    reflect_rows(a.block(k + 1, k + 1, rest, rest), x + k + 1, conj_of(h.tau), room);
    reflect_columns(a.block(0, k + 1, n, rest), x + k + 1, conj_v + k + 1, h.tau);
  }
  if (!zt.data) return;
  const Matrix<T> q = scratch.matrix<T>(n, n);
  set_identity(q);
  apply_reflections(v, tau, false, q, scratch);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) zt(j, i) = q(i, j);
}

// Row k of xt becomes the vector of t(k, k) of the upper triangular t: 1 at k, 0 after it.
template <class T>
void substitute_back(Matrix<T> t, int64_t k, real_of<T> least, T* x) {
  using R = real_of<T>;
  constexpr R kMost = sizeof(R) == 4 ? R(1e12) : R(1e150);
  const T w = t(k, k);
  std::fill_n(x, t.cols, T(0));
  x[k] = T(1);
  for (int64_t i = k - 1; i >= 0; --i) {
    T gap = w - t(i, i);
    if (modulus(gap) < least) gap = T(least);
    x[i] = dot(k - i, t[i] + i + 1, x + i + 1) / gap;
    // As long as no later number can overflow, sizes don't matter.
    const R size = modulus(x[i]);
    if (size > kMost)
      for (int64_t j = i; j <= k; ++j) x[j] = over(x[j], size);
  }
}

// Gives row x of n numbers norm 1, its largest entry real and positive.
template <class T>
void normalize_vector(int64_t n, T* x, bool real) {
  using R = real_of<T>;
  R size = norm(n, x);
  for (int64_t i = 0; i < n; ++i) x[i] = over(x[i], size);
  normalize_phase(Strided<T>{x, n, 1, 1, 1}, 0);
  if (!real) return;
  for (int64_t i = 0; i < n; ++i) x[i] = T(x[i].re);
  size = norm(n, x);
  for (int64_t i = 0; i < n; ++i) x[i] = over(x[i], size);
}

// The vectors of A = Z T Z^H, of norm 1, as rows. Where `paired`, T is that of a real matrix: the
// vector of the second of two conjugate numbers is the conjugate one.
template <class C>
void schur_vectors(Matrix<C> t, Matrix<C> zt, bool paired, Matrix<C> vt, Scratch& scratch) {
  using R = real_of<C>;
  const int64_t n = t.rows;
  R most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, largest_size(n - i, t[i] + i));
  const R least = std::max(kEpsilon<R> * most, kTiny<R>);
  const Matrix<C> xt = scratch.matrix<C>(n, n);
  for (int64_t k = 0; k < n; ++k) substitute_back(t, k, least, xt[k]);
  fill(vt, C(0));
  add_product(vt, plain(xt), zt);
  for (int64_t k = 0; k < n; ++k) {
    normalize_vector(n, vt[k], paired && t(k, k).im == 0);
    if (!paired || t(k, k).im == 0) continue;
    for (int64_t i = 0; i < n; ++i) vt(k + 1, i) = conj_of(vt(k, i));
    ++k;
  }
}

}  // namespace detail

// a is lost. w (n) in no order; vt (n, n), if it has data, the vectors as rows, of norm 1 and their
// phases. False: no convergence.
template <class T, class C>
bool eig(Matrix<T> a, C* w, Matrix<C> vt, Scratch& scratch) {
  const int64_t n = a.rows;
  const bool wanted = vt.data != nullptr;
  const int scaled = normalize_scale(a);
  Matrix<C> t = scratch.matrix<C>(n, n), zt = wanted ? scratch.matrix<C>(n, n) : Matrix<C>{};
  if constexpr (is_complex_v<T>) {
    detail::reduce_to_hessenberg(a, zt, scratch);
    if (!detail::complex_schur(a, zt, scratch)) return false;
    t = a;
  } else {
    const Matrix<T> real_zt = wanted ? scratch.matrix<T>(n, n) : Matrix<T>{};
    detail::reduce_to_hessenberg(a, real_zt, scratch);
    if (!detail::real_schur(a, real_zt, scratch)) return false;
    detail::split_pairs(a, real_zt, t, zt);
  }
  for (int64_t i = 0; i < n; ++i) w[i] = scale_by_power(t(i, i), -scaled);
  if (wanted) detail::schur_vectors(t, zt, !is_complex_v<T>, vt, scratch);
  return true;
}

// The order in which w ascends by real, then by imaginary parts.
template <class C>
void ascending_order(int64_t n, const C* w, int64_t* order) {
  std::iota(order, order + n, int64_t(0));
  std::sort(order, order + n, [&](int64_t i, int64_t j) {
    const C x = w[i], y = w[j];
    if (x.re != y.re) return x.re < y.re;
    return x.im != y.im ? x.im < y.im : i < j;
  });
}

}  // namespace gradus::linalg
