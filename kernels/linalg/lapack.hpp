// Who computes: LAPACK. What Own (own.hpp) promises of its functions, these keep. What LAPACK can't
// do, it gives up, and Own does it: divide and conquer may not converge, pivots may be subnormal, a
// triangular matrix may have a 0 on its diagonal.
#pragma once
#include "kernels/linalg/eig.hpp"
#include "kernels/linalg/lapack_functions.hpp"

#include <utility>

namespace gradus::inline v1::linalg {

template <class T>
class ByLapack {
 public:
  using R = real_of<T>;
  using C = Complex<R>;
  using Int = LapackInt;
  template <class E>
  using Held = ByColumns<E>;

  ByLapack(const LapackFunctions<T>& functions, Scratch& scratch)
      : f_(functions), scratch_(scratch) {}

  template <class E>
  Held<E> make(int64_t rows, int64_t cols) {
    const Matrix<E> a = scratch_.matrix<E>(cols, rows);
    return {a.data, rows, cols, a.stride};
  }
  // The columns of a square stand where its rows will.
  Held<T> make_for(Strided<T> to) {
    if (to.rows != to.cols || to.by != 1 || to.down < to.rows || to.down > kMostApart)
      return make<T>(to.rows, to.cols);
    return {to.data, to.rows, to.cols, to.down};
  }
  bool gave_up() { return std::exchange(gave_up_, false); }

  // By rows, as it is wanted: the lower triangle is to LAPACK the upper one of A^T.
  int64_t cholesky(Matrix<T> a) {
    const Int n = size(a.rows), ld = size(a.stride);
    f_.potrf("U", &n, a.data, &ld, &info_, 1);
    return done_if(info_ >= 0), info_;
  }

  int64_t lu(Held<T> a, int64_t* rows) {
    const Int m = size(a.rows), n = size(a.cols), ld = size(a.stride);
    pivots_ = scratch_.take<Int>(std::min(m, n));
    f_.getrf(&m, &n, a.data, &ld, pivots_, &info_);
    std::iota(rows, rows + m, int64_t(0));
    for (int64_t i = 0; i < std::min(m, n); ++i) std::swap(rows[i], rows[pivots_[i] - 1]);
    return done_if(info_ >= 0 && (has_reciprocals(a) || finite(a))), info_;
  }
  Held<T> solve(Held<T> lu, const int64_t*, int turned, Held<T> b) {
    const Int n = size(lu.rows), cols = size(b.cols), ld = size(lu.stride), ldb = size(b.stride);
    if (!done_if(has_reciprocals(lu))) return b;
    f_.getrs(kTurned[turned], &n, &cols, lu.data, &ld, pivots_, b.data, &ldb, &info_, 1);
    done_if(info_ == 0);
    return b;
  }
  // Ours goes on where LAPACK ends at a 0, and multiplies the infinities that LAPACK may skip.
  void solve_triangular(Held<T> a, bool upper, bool unit, int turned, Held<T> b) {
    const Int n = size(a.rows), cols = size(b.cols), ld = size(a.stride), ldb = size(b.stride);
    if (!done_if(finite(a) && (unit || has_reciprocals(a)))) return;
    f_.trtrs(upper ? "U" : "L", kTurned[turned], unit ? "U" : "N", &n, &cols, a.data, &ld, b.data,
             &ldb, &info_, 1, 1, 1);
    done_if(info_ == 0);
  }

  void qr(Held<T> a, Held<T> q) {
    // LAPACK takes care of lengths, but not of products of them.
    const int scaled = normalize_scale(a.turned(), std::numeric_limits<R>::max_exponent / 4);
    const Int m = size(a.rows), n = size(a.cols), k = std::min(m, n), ld = size(a.stride);
    T* const tau = scratch_.take<T>(k);
    with_work([&](T* work, const Int* lwork) {
      f_.geqrf(&m, &n, a.data, &ld, tau, work, lwork, &info_);
    });
    if (q.data) {
      const Int cols = size(q.cols), ldq = size(q.stride);
      for (int64_t j = 0; j < k; ++j) std::copy_n(a.column(j), m, q.column(j));
      with_work([&](T* work, const Int* lwork) {
        f_.orgqr(&m, &cols, &k, q.data, &ldq, tau, work, lwork, &info_);
      });
    }
    done_if(info_ == 0);
    for (int64_t j = 0; j < n; ++j) {
      T* const r = a.column(j);
      const int64_t end = std::min<int64_t>(j + 1, m);
      scale_by_power(end, r, -scaled);
      std::fill(r + end, r + m, T(0));
    }
  }

  // Of A^T, too, whose vectors are the conjugate ones.
  bool eigh(Matrix<T> a, R* w, Held<T>* v) {
    const char* const job = v ? "V" : "N";
    const Int n = size(a.rows), ld = size(a.stride), liwork = 3 + 5 * n;
    Int* const iwork = scratch_.take<Int>(liwork);
    const Int lrwork = !is_complex_v<T> ? 0 : v ? 1 + 5 * n + 2 * n * n : n;
    R* const rwork = scratch_.take<R>(lrwork);
    if (v) *v = {a.data, n, n, a.stride};
    with_work([&](T* work, const Int* lwork) {
      if constexpr (is_complex_v<T>) {
        f_.syevd(job, "U", &n, a.data, &ld, w, work, lwork, rwork, &lrwork, iwork, &liwork, &info_,
                 1, 1);
      } else {
        f_.syevd(job, "U", &n, a.data, &ld, w, work, lwork, iwork, &liwork, &info_, 1, 1);
      }
    });
    if (v) conjugate_all(a);
    return done_if(info_ == 0);
  }

  bool svd(Held<T> a, Held<T> u, R* s, Matrix<T> v) {
    const Int m = size(a.rows), n = size(a.cols), ld = size(a.stride);
    const int64_t k = std::min(m, n), most = std::max(m, n);
    const bool full = u.cols > k || v.cols > k;
    // The larger of the two alone can be full: the other has k columns either way.
    if (u.data && !v.data) v = scratch_.matrix<T>(n, k);
    const char* const job = !u.data ? "N" : full ? "A" : "S";
    const Int ldu = u.data ? size(u.stride) : 1, ldvt = u.data ? size(v.stride) : 1;
    Int* const iwork = scratch_.take<Int>(8 * k);
    const int64_t lrwork = std::max(5 * k * k + 7 * k, 2 * most * k + 2 * k * k + k);
    R* const rwork = scratch_.take<R>(is_complex_v<T> ? lrwork : 0);
    // v's rows are the columns of Vh, but for the sign of their imaginary parts.
    with_work([&](T* work, const Int* lwork) {
      if constexpr (is_complex_v<T>) {
        f_.gesdd(job, &m, &n, a.data, &ld, s, u.data, &ldu, v.data, &ldvt, work, lwork, rwork,
                 iwork, &info_, 1);
      } else {
        f_.gesdd(job, &m, &n, a.data, &ld, s, u.data, &ldu, v.data, &ldvt, work, lwork, iwork,
                 &info_, 1);
      }
    });
    if (v.data) conjugate_all(v);
    return done_if(info_ == 0);
  }

  bool eig(Held<T> a, C* w, Matrix<C> vt) {
    const Int n = size(a.rows), ld = size(a.stride), none = 1;
    const char* const job = vt.data ? "V" : "N";
    if constexpr (is_complex_v<T>) {
      const Int ldv = vt.data ? size(vt.stride) : 1;
      R* const rwork = scratch_.take<R>(2 * n);
      with_work([&](T* work, const Int* lwork) {
        f_.geev("N", job, &n, a.data, &ld, w, nullptr, &none, vt.data, &ldv, work, lwork, rwork,
                &info_, 1, 1);
      });
      for (int64_t k = 0; k < n && vt.data && info_ == 0; ++k)
        detail::normalize_vector(n, vt[k], false);
    } else {
      R *const re = scratch_.take<R>(n), *const im = scratch_.take<R>(n);
      const Matrix<T> parts = vt.data ? scratch_.matrix<T>(n, n) : Matrix<T>{};
      const Int ldv = vt.data ? size(parts.stride) : 1;
      with_work([&](T* work, const Int* lwork) {
        f_.geev("N", job, &n, a.data, &ld, re, im, nullptr, &none, parts.data, &ldv, work, lwork,
                &info_, 1, 1);
      });
      for (int64_t k = 0; k < n; ++k) w[k] = C(re[k], im[k]);
      if (vt.data && info_ == 0) join_parts(w, parts, vt);
    }
    return done_if(info_ == 0);
  }

 private:
  static constexpr int64_t kMostApart = std::numeric_limits<Int>::max();
  static constexpr const char* kTurned[] = {"N", "T", "C"};

  static Int size(int64_t n) { return Int(n); }
  bool done_if(bool ok) {
    gave_up_ |= !ok;
    return ok;
  }
  // OpenBLAS multiplies by the reciprocals of a diagonal. Of a subnormal number it is infinite: LU
  // may not be finite then, and what is solved with it would not be. (Where all have one, factors
  // of size 1 at most are what it multiplies with, and what overflows does so by our steps, too.)
  static bool has_reciprocals(Held<T> a) {
    bool all = true;
    for (int64_t i = 0; i < std::min(a.rows, a.cols); ++i)
      all &= size_of(a(i, i)) >= std::numeric_limits<R>::min();
    return all;
  }
  static void conjugate_all(Matrix<T> a) {
    if constexpr (is_complex_v<T>)
      for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t j = 0; j < a.cols; ++j) a(i, j) = conj_of(a(i, j));
  }
  // Calls f twice: it says first how much memory it wants to work in.
  template <class F>
  void with_work(F&& f) {
    T wanted{};
    Int length = -1;
    f(&wanted, &length);
    // It was rounded to a number of this type, maybe down.
    length = size(int64_t(double(real_part(wanted)) * (1 + 2 * double(kEpsilon<R>)))) + 1;
    f(scratch_.take<T>(length), &length);
  }
  // Of a real matrix: row k of parts is a vector, or rows k and k + 1 are the real and the
  // imaginary part of one whose conjugate is the next.
  static void join_parts(const C* w, Matrix<T> parts, Matrix<C> vt) {
    const int64_t n = vt.rows;
    for (int64_t k = 0; k < n; ++k) {
      const bool pair = w[k].im != 0;
      for (int64_t i = 0; i < n; ++i) vt(k, i) = C(parts(k, i), pair ? parts(k + 1, i) : T(0));
      detail::normalize_vector(n, vt[k], !pair);
      if (!pair) continue;
      for (int64_t i = 0; i < n; ++i) vt(k + 1, i) = conj_of(vt(k, i));
      ++k;
    }
  }

  const LapackFunctions<T>& f_;
  Scratch& scratch_;
  Int* pivots_ = nullptr;  // of the last lu()
  Int info_ = 0;
  bool gave_up_ = false;
};

}  // namespace gradus::linalg
