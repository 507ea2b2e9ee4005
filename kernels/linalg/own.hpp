// Who computes: the algorithms of this room. OneMatrix (ops.hpp) asks for these; ByLapack
// (lapack.hpp) answers to the same names.
#pragma once
#include "kernels/linalg/eig.hpp"
#include "kernels/linalg/factor.hpp"
#include "kernels/linalg/qr.hpp"
#include "kernels/linalg/svd.hpp"

namespace gradus::inline v1::linalg {

template <class T>
class Own {
 public:
  using R = real_of<T>;
  using C = Complex<R>;
  // How it wants matrices to lie in memory.
  template <class E>
  using Held = Matrix<E>;

  explicit Own(Scratch& scratch) : scratch_(scratch) {}

  template <class E>
  Held<E> make(int64_t rows, int64_t cols) {
    return scratch_.matrix<E>(rows, cols);
  }
  // For what will be written to `to`, and may already lie there.
  Held<T> make_for(Strided<T> to) { return make<T>(to.rows, to.cols); }
  // Was there something since the last call that it could not do?
  bool gave_up() const { return false; }

  // a's lower triangle becomes L, what is above it means nothing. Gives info.
  int64_t cholesky(Matrix<T> a) { return linalg::cholesky(a, scratch_); }
  // a becomes LU, rows (m) the order of its rows. Gives info.
  int64_t lu(Matrix<T> a, int64_t* rows) { return linalg::lu(a, rows); }
  // X of op(A) X = B, of what lu() made. b is lost.
  Matrix<T> solve(Matrix<T> lu, const int64_t* rows, int turned, Matrix<T> b) {
    const Matrix<T> x = scratch_.matrix<T>(b.rows, b.cols);
    solve_lu(lu, rows, turned, b, x);
    return x;
  }
  // b becomes X of op(A) X = B. turned: 0 A, 1 A^T, 2 A^H.
  void solve_triangular(Matrix<T> a, bool upper, bool unit, int turned, Matrix<T> b) {
    const Factor<T> f = turned == 0 ? plain(a) : turned == 1 ? transpose(a) : adjoint(a);
    const Diagonal diagonal = unit ? Diagonal::kOnes : Diagonal::kStored;
    upper == (turned == 0) ? solve_upper(f, diagonal, b) : solve_lower(f, diagonal, b);
  }
  // a becomes R in its first rows; q, if it has data, Q. The signs are LAPACK's.
  void qr(Matrix<T> a, Matrix<T> q) { linalg::qr(a, q, scratch_); }
  // Of a's lower triangle, which lies by rows. w ascends; v, if it is asked for, becomes a matrix
  // with the vectors as columns, of any phase. False, as of the next two: no convergence.
  bool eigh(Matrix<T> a, R* w, Matrix<T>* v) {
    if (v) *v = scratch_.matrix<T>(a.rows, a.rows);
    return linalg::eigh(a, w, v ? *v : Matrix<T>{}, scratch_);
  }
  // s descends. u (m, k or m) and v (n, k or n), if they have data, get the vectors as columns, of
  // any phase that is the same for both. There is no v without a u.
  bool svd(Matrix<T> a, Matrix<T> u, R* s, Matrix<T> v) {
    if (a.rows >= a.cols) return svd_tall(a, u, s, v, scratch_);
    const Matrix<T> turned = scratch_.matrix<T>(a.cols, a.rows);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < a.cols; ++j) turned(j, i) = conj_of(a(i, j));
    return svd_tall(turned, v, s, u, scratch_);
  }
  // w in no order; vt, if it has data, the vectors as rows, of norm 1 and their phases.
  bool eig(Matrix<T> a, C* w, Matrix<C> vt) { return linalg::eig(a, w, vt, scratch_); }

 private:
  Scratch& scratch_;
};

}  // namespace gradus::linalg
