// Cholesky and QR of matrices side by side: the steps of kernels/linalg/factor.hpp and reflect.hpp
// without their blocks. LU and triangular systems: kernels/linalg/small.hpp.
#pragma once
#include "kernels/cpu/isa/linalg/lanes.hpp"

namespace gradus::inline v1::cpu {

// a's lower triangle becomes L. Gives 0, or the first pivot, counted from 1, that is not positive.
template <class B>
B cholesky(LaneMatrix<B> a) {
  using T = NumberOf<B>;
  const B zero(T(0));
  B failed = zero;
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j <= i; ++j) {
      B sum = a(i, j);
      for (int k = 0; k < j; ++k) sum -= a(i, k) * a(j, k);
      if (j < i) {
        a(i, j) = sum / a(j, j);
        continue;
      }
      failed = xsimd::select((sum > zero) | (failed > zero), failed, B(T(i + 1)));
      a(i, i) = root_of(sum);
    }
  return failed;
}

// c -= tau v (v^T c) of rows [first, end) and columns [from, end) of c.
template <class B>
void reflect_columns(LaneMatrix<B> c, int first, int from, const B* v, B tau) {
  using T = NumberOf<B>;
  for (int j = from; j < c.cols; ++j) {
    B sum(T(0));
    for (int i = first; i < c.rows; ++i) sum += v[i] * c(i, j);
    sum *= tau;
    for (int i = first; i < c.rows; ++i) c(i, j) -= sum * v[i];
  }
}

// a (m, n) becomes R in its first rows; q, if it has data, Q. The signs are LAPACK's. v: room for
// (k, m), tau for k.
template <class B>
void qr(LaneMatrix<B> a, LaneMatrix<B> q, LaneMatrix<B> v, B* tau) {
  using T = NumberOf<B>;
  const B zero(T(0)), one(T(1));
  const B back = normalize_scale(a);
  const int k = std::min(a.rows, a.cols);
  for (int j = 0; j < k; ++j) {
    // Divided by its largest entry, a column has a norm that neither overflows nor underflows. One
    // whose reciprocal would overflow is made larger first.
    B tail = zero, rest = zero;
    for (int i = j + 1; i < a.rows; ++i) {
      const B size = xsimd::abs(a(i, j));
      tail = xsimd::select(size > tail, size, tail);
    }
    const MaskOf<B> none = tail == zero;
    B most = xsimd::abs(a(j, j));
    most = xsimd::select(tail > most, tail, most);
    const MaskOf<B> small = most < B(linalg::kTiny<T>);
    const B up = xsimd::select(small, B(1 / linalg::kTiny<T>), one),
            down = xsimd::select(small, B(linalg::kTiny<T>), one);
    most = xsimd::select(none, one, most * up);
    const B unit = one / most;
    const B alpha = a(j, j) * up * unit;
    for (int i = j + 1; i < a.rows; ++i) {
      const B x = a(i, j) * up * unit;
      v(j, i) = x;
      rest += x * x;
      a(i, j) = zero;
    }
    const B beta = -xsimd::copysign(root_of(alpha * alpha + rest), alpha);
    const B by = one / xsimd::select(none, one, alpha - beta);
    tau[j] = xsimd::select(none, zero, (beta - alpha) / xsimd::select(none, one, beta));
    v(j, j) = one;
    for (int i = j + 1; i < a.rows; ++i) v(j, i) = xsimd::select(none, zero, v(j, i) * by);
    a(j, j) = xsimd::select(none, a(j, j), beta * most * down);
    reflect_columns(a, j, j + 1, &v(j, 0), tau[j]);
  }
  if (q.data) {
    set_identity(q);
    for (int j = k - 1; j >= 0; --j) reflect_columns(q, j, j, &v(j, 0), tau[j]);
  }
  for (int i = 0; i < k; ++i)
    for (int j = i; j < a.cols; ++j) a(i, j) *= back;
}

// Changes signs so that the diagonal of R is not negative.
template <class B>
void make_diagonal_positive(LaneMatrix<B> r, LaneMatrix<B> q) {
  using T = NumberOf<B>;
  for (int i = 0; i < std::min(r.rows, r.cols); ++i) {
    B sign;
    for (int lane = 0; lane < kLanes<B>; ++lane)
      reinterpret_cast<T*>(&sign)[lane] = std::copysign(T(1), r.number(i, i, lane));
    for (int j = i; j < r.cols; ++j) r(i, j) *= sign;
    if (q.data) scale_column(q, i, sign);
  }
}

}  // namespace gradus::cpu
