// Spectra of matrices side by side by Jacobi's rotations (Golub & Van Loan 8.5 and 8.6.3): of a
// symmetric matrix from both sides, of any other of its columns. A pair of which no lane is left to
// be rotated costs one comparison.
#pragma once
#include "kernels/cpu/isa/linalg/lanes.hpp"

namespace gradus::inline v1::cpu {

inline constexpr int kMostSweeps = 40;

// The rotation of a pair (p, q) that makes `off` 0: c, s of (x, y) -> (c x - s y, s x + c y), and
// what p loses and q gains, t off. 1, 0, 0 where it is not wanted.
template <class T>
struct LaneRotation {
  Batch<T> c, s, t;
};
template <class T>
LaneRotation<T> jacobi_rotation(Batch<T> p, Batch<T> off, Batch<T> q, BatchMask<T> wanted) {
  using B = Batch<T>;
  const B zero(T(0)), one(T(1));
  const B half = (q - p) / xsimd::select(wanted, off + off, one);
  const B sum = xsimd::abs(half) + root<T>(half * half + one);
  const B t = xsimd::select(wanted, xsimd::copysign(one, half) / sum, zero);
  const B c = one / root<T>(t * t + one);
  return {c, t * c, t};
}
template <class T>
void rotate(const LaneRotation<T>& r, BatchMask<T> wanted, Batch<T>& x, Batch<T>& y) {
  const Batch<T> a = x, b = y;
  x = xsimd::select(wanted, r.c * a - r.s * b, a);
  y = xsimd::select(wanted, r.s * a + r.c * b, b);
}

// a's lower triangle loses all that is off the diagonal; v, if it has data, gets the vectors as
// columns. Gives the lanes that have not converged.
template <class T>
BatchMask<T> jacobi_eigh(LaneMatrix<T> a, LaneMatrix<T> v) {
  using B = Batch<T>;
  const int n = a.rows;
  const B small(linalg::kEpsilon<T> / 4), nothing(linalg::kNothing<T>);
  if (v.data) set_identity(v);
  BatchMask<T> going(false);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = BatchMask<T>(false);
    for (int q = 1; q < n; ++q)
      for (int p = 0; p < q; ++p) {
        const B off = a(q, p), size = xsimd::abs(off);
        const B both = root<T>(xsimd::abs(a(p, p))) * root<T>(xsimd::abs(a(q, q)));
        const BatchMask<T> wanted = (size > small * both) & (size > nothing);
        if (!xsimd::any(wanted)) continue;
        going = going | wanted;
        const LaneRotation<T> r = jacobi_rotation<T>(a(p, p), off, a(q, q), wanted);
        a(p, p) = xsimd::select(wanted, a(p, p) - r.t * off, a(p, p));
        a(q, q) = xsimd::select(wanted, a(q, q) + r.t * off, a(q, q));
        a(q, p) = xsimd::select(wanted, B(T(0)), off);
        for (int k = 0; k < p; ++k) rotate<T>(r, wanted, a(p, k), a(q, k));
        for (int k = p + 1; k < q; ++k) rotate<T>(r, wanted, a(k, p), a(q, k));
        for (int k = q + 1; k < n; ++k) rotate<T>(r, wanted, a(k, p), a(k, q));
        if (v.data)
          for (int k = 0; k < n; ++k) rotate<T>(r, wanted, v(k, p), v(k, q));
      }
    if (!xsimd::any(going)) break;
  }
  return going;
}

// g (m, n), m >= n, becomes U diag(s), s its norms; v, if it has data, V. Gives the lanes that have
// not converged, or have a singular value of 0, and no vector in U for it.
template <class T>
BatchMask<T> jacobi_svd(LaneMatrix<T> g, Batch<T>* s, LaneMatrix<T> v) {
  using B = Batch<T>;
  const int m = g.rows, n = g.cols;
  const B small(linalg::kEpsilon<T> * std::max(T(4), std::sqrt(T(m)))), zero(T(0));
  if (v.data) set_identity(v);
  BatchMask<T> going(false);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = BatchMask<T>(false);
    for (int q = 1; q < n; ++q)
      for (int p = 0; p < q; ++p) {
        B pp = zero, pq = zero, qq = zero;
        for (int i = 0; i < m; ++i) {
          pp += g(i, p) * g(i, p);
          pq += g(i, p) * g(i, q);
          qq += g(i, q) * g(i, q);
        }
        const BatchMask<T> wanted = xsimd::abs(pq) > small * (root<T>(pp) * root<T>(qq));
        if (!xsimd::any(wanted)) continue;
        going = going | wanted;
        const LaneRotation<T> r = jacobi_rotation<T>(pp, pq, qq, wanted);
        for (int i = 0; i < m; ++i) rotate<T>(r, wanted, g(i, p), g(i, q));
        if (v.data)
          for (int i = 0; i < n; ++i) rotate<T>(r, wanted, v(i, p), v(i, q));
      }
    if (!xsimd::any(going)) break;
  }
  BatchMask<T> left = going;
  for (int j = 0; j < n; ++j) {
    B sum = zero;
    for (int i = 0; i < m; ++i) sum += g(i, j) * g(i, j);
    s[j] = root<T>(sum);
    left = left | !(sum > B(linalg::kTiny<T>));
  }
  return left;
}

}  // namespace gradus::cpu
