// A = Q R by Householder reflections (Golub & Van Loan 5.2), in groups of columns.
#pragma once
#include "kernels/linalg/reflect.hpp"

namespace gradus::inline v1::linalg {

// a (m, n) becomes R, 0 below the diagonal. v (k, m) gets the vectors of the reflections, tau their
// factors.
template <class T>
void factor_qr(Matrix<T> a, Matrix<T> v, T* tau, Scratch& scratch) {
  const int64_t m = a.rows, n = a.cols, k = std::min(m, n);
  T* const room = scratch.take<T>(n);
  for (int64_t begin = 0; begin < k; begin += kGroup) {
    const int64_t count = std::min(kGroup, k - begin), end = begin + count;
    for (int64_t j = begin; j < end; ++j) {
      T* const x = v[j];
      std::fill_n(x, j, T(0));
      for (int64_t i = j; i < m; ++i) x[i] = a(i, j);
      const Reflection<T> h = reflect(x[j], m - j - 1, x + j + 1);
      x[j] = T(1);
      tau[j] = h.tau;
      a(j, j) = T(h.beta);
      for (int64_t i = j + 1; i < m; ++i) a(i, j) = T(0);
      reflect_rows(a.block(j, j + 1, m - j, end - j - 1), x + j, conj_of(h.tau), room);
    }
    if (end < n)
      apply_group(v.block(begin, begin, count, m - begin), tau + begin, true,
                  a.block(begin, end, m - begin, n - end), scratch);
  }
}

// a (m, n) becomes R in its first rows; q (m, k or m), if it has data, Q. The signs are LAPACK's.
template <class T>
void qr(Matrix<T> a, Matrix<T> q, Scratch& scratch) {
  const int64_t k = std::min(a.rows, a.cols);
  const int scaled = normalize_scale(a);
  const Matrix<T> v = scratch.matrix<T>(k, a.rows);
  T* const tau = scratch.take<T>(k);
  factor_qr(a, v, tau, scratch);
  if (q.data) {
    set_identity(q);
    apply_reflections(v, tau, false, q, scratch);
  }
  for (int64_t i = 0; i < k; ++i) scale_by_power(a.cols - i, &a(i, i), -scaled);
}

// Changes signs so that the diagonal of R, the first rows of a, is not negative.
template <class T>
void make_diagonal_positive(Strided<T> a, Strided<T> q) {
  for (int64_t i = 0; i < std::min(a.rows, a.cols); ++i) {
    if (!std::signbit(real_part(a(i, i)))) continue;
    for (int64_t j = i; j < a.cols; ++j) a(i, j) = -a(i, j);
    for (int64_t j = 0; j < q.rows && q.data; ++j) q(j, i) = -q(j, i);
  }
}

}  // namespace gradus::linalg
