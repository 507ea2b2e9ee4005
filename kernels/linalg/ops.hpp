// One matrix of a call: read from the views to scratch memory, worked on, written to the outputs.
#pragma once
#include "kernels/linalg/batch.hpp"
#include "kernels/linalg/lapack.hpp"
#include "kernels/linalg/own.hpp"

namespace gradus::inline v1::linalg {

template <class T, class Solver>
class OneMatrix {
 public:
  using R = real_of<T>;
  using C = Complex<R>;
  template <class E>
  using Held = typename Solver::template Held<E>;

  OneMatrix(const calls::LinalgCall& call, Scratch& scratch, Solver solver)
      : call_(call), scratch_(scratch), solver_(solver) {}

  // Does matrix `index` of the batch, counted in row-major order. False: the solver gave it up.
  bool run(int64_t index) {
    index_ = index;
    scratch_.reset();
    switch (call_.op) {
      case GD_CHOLESKY:
        run_cholesky();
        break;
      case GD_LU:
        run_lu();
        break;
      case GD_SOLVE:
        run_solve();
        break;
      case GD_DET:
        run_det();
        break;
      case GD_SOLVE_TRIANGULAR:
        run_solve_triangular();
        break;
      case GD_QR:
        run_qr();
        break;
      case GD_EIGH:
        run_eigh();
        break;
      case GD_SVD:
        run_svd();
        break;
      default:
        run_eig();
    }
    return !solver_.gave_up();
  }

 private:
  // ---- views

  // Element (0, 0) of this matrix in v.
  template <class E>
  E* start(const gd_view& v) const {
    int64_t at = v.offset, left = index_;
    for (int d = call_.batch_axes - 1; d >= 0; --d) {
      at += left % v.sizes[d] * v.strides[d];
      left /= v.sizes[d];
    }
    return static_cast<E*>(v.data) + at;
  }
  static int64_t step(const gd_view& v, int from_end) { return v.strides[v.rank - from_end]; }
  // All of this matrix in v.
  template <class E>
  Strided<E> matrix_in(const gd_view& v) const {
    const int64_t m = v.sizes[v.rank - 2], n = v.sizes[v.rank - 1];
    if (m == 0 || n == 0) return {nullptr, m, n, 0, 0};
    return {start<E>(v), m, n, step(v, 2), step(v, 1)};
  }

  template <class E>
  Held<E> make(int64_t rows, int64_t cols) {
    return solver_.template make<E>(rows, cols);
  }
  Held<T> read(const gd_view& v, Part part = Part::kAll) {
    const Strided<T> from = matrix_in<T>(v);
    const Held<T> a = make<T>(from.rows, from.cols);
    copy(strided(a), from, part);
    return a;
  }
  // By rows for all who compute, as a row of the one triangle is a column of the other. What stands
  // above the lower triangle of (A + A^H) / 2 means nothing.
  Matrix<T> read_hermitian() {
    const Matrix<T> a = scratch_.matrix<T>(call_.n, call_.n);
    copy(strided(a), matrix_in<T>(call_.a));
    copy_hermitian(a, strided(a));
    return a;
  }

  const gd_view* out(int k) const { return call_.out[k]; }
  // Calls f(element, i, j) for the elements of output k, or f(element, i, 0) for a vector's.
  template <class E, class F>
  void each_of(int k, F&& f) const {
    if (!out(k)) return;
    const gd_view& v = *out(k);
    const int axes = v.rank - call_.batch_axes;
    const int64_t m = axes > 0 ? v.sizes[call_.batch_axes] : 1,
                  n = axes > 1 ? v.sizes[v.rank - 1] : 1;
    const int64_t down = axes > 0 ? v.strides[call_.batch_axes] : 0, by = axes > 1 ? step(v, 1) : 0;
    if (m == 0 || n == 0) return;
    E* const to = start<E>(v);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) f(to[i * down + j * by], i, j);
  }
  template <class M>
  void write_matrix(int k, M a, Part part = Part::kAll) const {
    using E = std::remove_reference_t<decltype(a(0, 0))>;
    if (out(k)) copy(matrix_in<E>(*out(k)), strided(a), part);
  }
  template <class E>
  void write(int k, const E* a) const {
    each_of<E>(k, [&](E& x, int64_t i, int64_t) { x = a[i]; });
  }
  // A matrix for output k, if it is wanted.
  Held<T> room_for(int k) {
    if (!out(k)) return {};
    const gd_view& v = *out(k);
    return make<T>(v.sizes[v.rank - 2], v.sizes[v.rank - 1]);
  }

  void set_info(int64_t info) const {
    if (call_.info) *start<int64_t>(*call_.info) = info;
  }
  // Output k holds NaN.
  template <class E>
  void spoil(int k) const {
    each_of<E>(k, [](E& x, int64_t, int64_t) { x = not_a_number<E>(); });
  }

  // ---- ops

  static constexpr int64_t kNotFinite = -1, kNoConvergence = 1;

  void run_cholesky() {
    const Strided<T> to = matrix_in<T>(*out(0)), given = matrix_in<T>(call_.a);
    // In its place, where LAPACK can be told how far apart the rows are.
    const bool there =
        to.by == 1 && to.down >= to.cols && to.down <= std::numeric_limits<LapackInt>::max();
    const Matrix<T> a = there ? Matrix<T>{to.data, to.rows, to.cols, to.down}
                              : scratch_.matrix<T>(call_.n, call_.n);
    copy_hermitian(a, given);
    const auto finite_diagonal = [&] {
      bool all = true;
      for (int64_t i = 0; i < call_.n; ++i) all &= finite(a(i, i));
      return all;
    };
    // What is not finite elsewhere leaves no pivot in its row that is positive and finite.
    int64_t info = finite_diagonal() ? solver_.cholesky(a) : kNotFinite;
    if ((info > 0 || !finite_diagonal()) && !finite(given)) info = kNotFinite;
    set_info(info);
    info == 0 ? write_matrix(0, a, Part::kLower) : spoil<T>(0);
  }

  void run_lu() {
    const Held<T> a = solver_.make_for(matrix_in<T>(*out(0)));
    const Strided<T> to = strided(a), from = matrix_in<T>(call_.a);
    bool all_finite = true;
    for (int64_t i = 0; i < call_.m; i += kTile) {  // looked at while they are at hand
      const int64_t n = std::min(kTile, call_.m - i);
      all_finite &= finite(rows_of(from, i, n));
      copy(rows_of(to, i, n), rows_of(from, i, n));
    }
    int64_t* const rows = scratch_.take<int64_t>(call_.m);
    if (all_finite) {
      set_info(solver_.lu(a, rows));
      write_matrix(0, a);
    } else {
      set_info(kNotFinite);
      std::iota(rows, rows + call_.m, int64_t(0));
      spoil<T>(0);
    }
    write(1, rows);
  }

  void run_solve() {
    const Held<T> a = read(call_.a);
    int64_t* const rows = scratch_.take<int64_t>(call_.n);
    const int64_t info = finite(a) ? solver_.lu(a, rows) : kNotFinite;
    set_info(info);
    if (info != 0) return spoil<T>(0);
    write_matrix(0, solver_.solve(a, rows, call_.turned, read(*call_.b)));
  }

  void run_det() {
    const Held<T> a = read(call_.a);
    int64_t* const rows = scratch_.take<int64_t>(call_.n);
    Determinant<T> d{not_a_number<T>(), not_a_number<T>(), not_a_number<R>()};
    if (finite(a)) {
      solver_.lu(a, rows);
      d = determinant(strided(a), rows);
    }
    write(0, &d.value);
    write(1, &d.sign);
    write(2, &d.log_size);
  }

  void run_solve_triangular() {
    const Held<T> a = read(call_.a, call_.upper ? Part::kUpper : Part::kLower);
    const Held<T> b = read(*call_.b);
    solver_.solve_triangular(a, call_.upper, call_.unit, call_.turned, b);
    write_matrix(0, b);
  }

  void run_qr() {
    const Held<T> a = read(call_.a), q = room_for(0);
    if (!finite(a)) return spoil<T>(0), spoil<T>(1);
    solver_.qr(a, q);
    if (call_.not_negative) make_diagonal_positive(strided(a), strided(q));
    write_matrix(0, q);
    write_matrix(1, a);
  }

  void run_eigh() {
    const Matrix<T> a = read_hermitian();
    R* const w = scratch_.take<R>(call_.n);
    Held<T> v{};
    int64_t info = kNotFinite;
    if (finite(a)) info = solver_.eigh(a, w, out(1) ? &v : nullptr) ? 0 : kNoConvergence;
    set_info(info);
    if (info != 0) return spoil<R>(0), spoil<T>(1);
    for (int64_t j = 0; j < v.cols; ++j) normalize_phase(strided(v), j);
    write(0, w);
    write_matrix(1, v);
  }

  void run_svd() {
    const Held<T> a = read(call_.a);
    const int64_t m = call_.m, n = call_.n, k = std::min(m, n);
    R* const s = scratch_.take<R>(k);
    // Phases are those of U's columns: V alone needs U, too.
    const Held<T> u = out(0) ? room_for(0) : out(2) ? make<T>(m, k) : Held<T>{};
    const Matrix<T> v =
        out(2) ? scratch_.matrix<T>(n, out(2)->sizes[out(2)->rank - 2]) : Matrix<T>{};
    int64_t info = kNotFinite;
    if (finite(a)) info = solver_.svd(a, u, s, v) ? 0 : kNoConvergence;
    set_info(info);
    if (info != 0) return spoil<T>(0), spoil<R>(1), spoil<T>(2);
    if (u.data) normalize_phases(strided(u), v, k);
    write_matrix(0, u);
    write(1, s);
    each_of<T>(2, [&](T& x, int64_t i, int64_t j) { x = conj_of(v(j, i)); });
  }

  void run_eig() {
    const Held<T> a = read(call_.a);
    const int64_t n = call_.n;
    const Matrix<C> vt = out(1) ? scratch_.matrix<C>(n, n) : Matrix<C>{};
    C* const w = scratch_.take<C>(n);
    int64_t* const order = scratch_.take<int64_t>(n);
    int64_t info = kNotFinite;
    if (finite(a)) info = solver_.eig(a, w, vt) ? 0 : kNoConvergence;
    set_info(info);
    if (info != 0) return spoil<C>(0), spoil<C>(1);
    ascending_order(n, w, order);
    each_of<C>(0, [&](C& x, int64_t i, int64_t) { x = w[order[i]]; });
    each_of<C>(1, [&](C& x, int64_t i, int64_t j) { x = vt(order[j], i); });
  }

  const calls::LinalgCall& call_;
  Scratch& scratch_;
  Solver solver_;
  int64_t index_ = 0;
};

template <class T>
void run_as(const calls::LinalgCall& call, int64_t begin, int64_t end, Scratch& scratch,
            const Lapack* lapack) {
  OneMatrix<T, Own<T>> own(call, scratch, Own<T>(scratch));
  if (!lapack) {
    for (int64_t i = begin; i < end; ++i) own.run(i);
    return;
  }
  const auto& functions = std::get<LapackFunctions<T>>(lapack->functions);
  OneMatrix<T, ByLapack<T>> by_lapack(call, scratch, ByLapack<T>(functions, scratch));
  for (int64_t i = begin; i < end; ++i)
    if (!by_lapack.run(i)) own.run(i);
}

}  // namespace gradus::linalg
