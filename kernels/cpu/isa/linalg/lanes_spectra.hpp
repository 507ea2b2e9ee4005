// Spectra of matrices side by side by Jacobi's rotations (Golub & Van Loan 8.5 and 8.6.3): of a
// symmetric matrix from both sides, of any other of its columns. A pair of which no lane is left to
// be rotated costs one comparison. The pairs of a round have no row in common, so that the roots
// and quotients of one are on their way while another is rotated.
#pragma once
#include "kernels/cpu/isa/linalg/lanes.hpp"

namespace gradus::inline v1::cpu {

inline constexpr int kMostSweeps = 40;

// Calls f(p, q), p < q, for all pairs of n, in rounds of pairs without a number in common.
template <class F>
void for_pairs(int n, F&& f) {
  const int rounds = n % 2 ? n : n - 1;
  for (int round = 0; round < rounds; ++round) {
    if (n % 2 == 0) f(round, n - 1);
    int a = round, b = round;
    for (int i = 1; i <= rounds / 2; ++i) {
      a = a + 1 < rounds ? a + 1 : 0;
      b = b > 0 ? b - 1 : rounds - 1;
      f(std::min(a, b), std::max(a, b));
    }
  }
}

// The rotation of a pair (p, q) that makes `off` 0: c, s of (x, y) -> (c x - s y, s x + c y), and
// what p loses and q gains, t off. Anything where it is not wanted.
template <class B>
struct LaneRotation {
  B c, s, t;
};
template <class B>
[[gnu::always_inline]] inline LaneRotation<B> jacobi_rotation(B p, B off, B q, MaskOf<B> wanted) {
  using T = NumberOf<B>;
  const B one(T(1)), most(1 / linalg::kNothing<T>);  // has a square
  const B half = (q - p) / xsimd::select(wanted, off + off, one);
  B size = xsimd::abs(half);
  size = xsimd::select(size < most, size, most);
  const B length = root_of(size * size + one), sum = size + length;
  const B t = xsimd::copysign(one, half) / sum, c = root_of(sum / (length + length));
  return {c, t * c, t};
}
template <class B>
void rotate(const LaneRotation<B>& r, MaskOf<B> wanted, B& x, B& y) {
  const B a = x, b = y;
  x = xsimd::select(wanted, r.c * a - r.s * b, a);
  y = xsimd::select(wanted, r.s * a + r.c * b, b);
}

// a's lower triangle loses all that is off the diagonal; v, if it has data, gets the vectors as
// columns. Gives the lanes that have not converged.
template <class B>
MaskOf<B> jacobi_eigh(LaneMatrix<B> a, LaneMatrix<B> v) {
  using T = NumberOf<B>;
  const int n = a.rows;
  constexpr T kSmall = linalg::kEpsilon<T> / 4;
  const B small(kSmall * kSmall), nothing(linalg::kNothing<T>);
  if (v.data) set_identity(v);
  MaskOf<B> going(false);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = MaskOf<B>(false);
    for_pairs(n, [&](int p, int q) {
      const B off = a(q, p);
      const MaskOf<B> wanted =
          (off * off > small * xsimd::abs(a(p, p) * a(q, q))) & (xsimd::abs(off) > nothing);
      if (!xsimd::any(wanted)) return;
      going = going | wanted;
      const LaneRotation<B> r = jacobi_rotation(a(p, p), off, a(q, q), wanted);
      a(p, p) = xsimd::select(wanted, a(p, p) - r.t * off, a(p, p));
      a(q, q) = xsimd::select(wanted, a(q, q) + r.t * off, a(q, q));
      a(q, p) = xsimd::select(wanted, B(T(0)), off);
      for (int k = 0; k < p; ++k) rotate(r, wanted, a(p, k), a(q, k));
      for (int k = p + 1; k < q; ++k) rotate(r, wanted, a(k, p), a(q, k));
      for (int k = q + 1; k < n; ++k) rotate(r, wanted, a(k, p), a(k, q));
      if (v.data)
        for (int k = 0; k < n; ++k) rotate(r, wanted, v(k, p), v(k, q));
    });
    if (!xsimd::any(going)) break;
  }
  return going;
}

// The sum of x[i step] y[i step], i < m <= 8, as a tree.
template <class B>
B short_dot(const B* x, const B* y, int step, int m) {
  B sum[4];
  for (int i = 0; i < std::min(m, 4); ++i) sum[i] = x[i * step] * y[i * step];
  for (int i = 4; i < m; ++i) sum[i - 4] += x[i * step] * y[i * step];
  if (m > 2) sum[0] += sum[2];
  if (m > 3) sum[1] += sum[3];
  return m > 1 ? sum[0] + sum[1] : sum[0];
}

// g (m, n), m >= n, becomes U diag(s), s its norms; v, if it has data, V. Gives the lanes that have
// not converged, or have a singular value of 0, and no vector in U for it.
template <class B>
MaskOf<B> jacobi_svd(LaneMatrix<B> g, B* s, LaneMatrix<B> v) {
  using T = NumberOf<B>;
  const int m = g.rows, n = g.cols;
  const B small(linalg::kEpsilon<T> * std::max(T(4), std::sqrt(T(m)))), zero(T(0));
  if (v.data) set_identity(v);
  MaskOf<B> going(false);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    going = MaskOf<B>(false);
    for_pairs(n, [&](int p, int q) {
      const B *x = &g(0, p), *y = &g(0, q);
      const B pp = short_dot(x, x, n, m), pq = short_dot(x, y, n, m), qq = short_dot(y, y, n, m);
      const MaskOf<B> wanted = xsimd::abs(pq) > small * (root_of(pp) * root_of(qq));
      if (!xsimd::any(wanted)) return;
      going = going | wanted;
      const LaneRotation<B> r = jacobi_rotation(pp, pq, qq, wanted);
      for (int i = 0; i < m; ++i) rotate(r, wanted, g(i, p), g(i, q));
      if (v.data)
        for (int i = 0; i < n; ++i) rotate(r, wanted, v(i, p), v(i, q));
    });
    if (!xsimd::any(going)) break;
  }
  MaskOf<B> left = going;
  for (int j = 0; j < n; ++j) {
    const B sum = short_dot(&g(0, j), &g(0, j), n, m);
    s[j] = root_of(sum);
    left = left | !(sum > B(linalg::kTiny<T>));
  }
  return left;
}

}  // namespace gradus::cpu
