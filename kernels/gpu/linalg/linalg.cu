// The slot linalg: matrices go by columns into scratch memory, a solver library or, if they are
// small, kernels of our own work on them there, kernels bring what it gives to the conventions, and
// copies put it where the views say.
#include "kernels/gpu/linalg/conventions.hpp"

#include <algorithm>

namespace gradus::inline v1::gpu {
namespace {

// Cuts memory into pieces; without memory it counts what the pieces need.
class Room {
 public:
  explicit Room(char* memory) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    char* const at = memory_ ? memory_ + used_ : nullptr;
    used_ += Run::Scratch::whole(sizeof(T) * size_t(count));
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

// Scratch memory seen as the batch of a call: matrices or vectors, at any steps between entries.
class BatchView {
 public:
  BatchView(const LinalgCall& c, DType t, void* data, int64_t between,
            std::initializer_list<std::pair<int64_t, int64_t>> axes) {
    int rank = c.batch_axes;
    for (const auto& [size, stride] : axes) sizes_[rank] = size, strides_[rank++] = stride;
    for (int d = c.batch_axes - 1; d >= 0; between *= c.a.sizes[d--])
      sizes_[d] = c.a.sizes[d], strides_[d] = between;
    view_ = {0, data, int32_t(t), rank, 0, sizes_, strides_};
  }
  BatchView(const BatchView&) = delete;
  const gd_view& view() const { return view_; }

 private:
  gd_view view_;
  int64_t sizes_[kMaxViewRank + 2], strides_[kMaxViewRank + 2];
};

template <class T>
class Batch {
 public:
  using R = real_of<T>;
  using C = Complex<R>;
  using Step = SolverStep;

  Batch(const Run& run, const LinalgCall& c)
      : run_(run), c_(c), m_(c.m), n_(c.n), k_(c.m < c.n ? c.m : c.n) {
    for (int d = 0; d < c.batch_axes; ++d) count_ *= c.a.sizes[d];
  }

  void work() {
    // Small matrices are for kernels of our own, but for general eigenvalues.
    small_ = c_.op != GD_EIG && k_ <= kShortSide && std::max(m_, n_) <= kLongSide;
    if (!small_) solver_ = &solver_for(run_, kFirst[c_.op]);
    // cuSOLVER's SVD is for matrices that are not wide: of others it gets A^H.
    turned_ = c_.op == GD_SVD && m_ < n_;
    if (turned_) std::swap(m_, n_);
    Room counted(nullptr);
    lay_out(counted);
    Run::Scratch scratch(run_, counted.used());
    Room room(scratch.take<char>(int64_t(counted.used())));
    lay_out(room);

    read();
    switch (c_.op) {
      case GD_CHOLESKY:
        solve({Step::kPotrf});
        each_element(run_, whole().elements(), kernel<keep_triangle<T>>(), a_, whole(), true);
        return give(0, a_, m_, n_, false);
      case GD_LU:
        solve({Step::kGetrf});
        each_element(run_, count_, kernel<order_rows>(), pivots_, whole(), k_, rows_);
        give(0, a_, m_, n_, false);
        return copy_views(run_, BatchView(c_, DType::i64, rows_, m_, {{m_, 1}}).view(), *c_.out[1]);
      case GD_SOLVE:
        solve({Step::kGetrf, Step::kGetrs});
        return give(0, b_, n_, columns_, false);
      case GD_DET:
        solve({Step::kGetrf});
        each_element(run_, count_, kernel<multiply_pivots<T>>(), a_, pivots_, whole(),
                     faults_.not_finite, b_, b_ + count_, values_);
        give_number(0, b_);
        give_number(1, b_ + count_);
        return give_number(2, values_);
      case GD_QR:
        return do_qr();
      case GD_EIGH:
        solve({Step::kSyevd});
        if (vectors_) set_phases({a_, n_ * n_, 1, n_}, n_, n_, {}, 0);
        give_values(0, values_, n_);
        return vectors_ ? give(1, a_, n_, n_, false) : void();
      case GD_SVD:
        return do_svd();
      default:
        return do_eig();
    }
  }

 private:
  // The first of the functions that an op needs; those of older libraries may lack one of GD_EIG.
  static constexpr Step::Function kFirst[GD_FORMULA] = {Step::kPotrf, Step::kGetrf,  Step::kGetrf,
                                                        Step::kGetrf, Step::kPotrf,  Step::kGeqrf,
                                                        Step::kSyevd, Step::kGesvdj, Step::kGeev};

  MatrixBatch whole() const { return {count_, m_, n_}; }

  // ---- memory

  void lay_out(Room& room) {
    faults_ = {room.take<int>(count_), room.take<int>(count_)};
    spare_info_ = room.take<int>(count_);
    info_ = room.take<int64_t>(c_.info ? count_ : 0);
    a_ = room.take<T>(count_ * m_ * n_);
    vectors_ = c_.op == GD_EIGH || c_.op == GD_EIG ? c_.out[1] != nullptr
               : c_.op == GD_SVD                   ? c_.out[0] || c_.out[2]
                                                   : false;
    switch (c_.op) {
      case GD_LU:
        rows_ = room.take<int64_t>(count_ * m_);
        break;
      case GD_SOLVE:
        columns_ = c_.b->sizes[c_.batch_axes + 1];
        b_ = room.take<T>(count_ * n_ * columns_);
        break;
      case GD_DET:
        b_ = room.take<T>(2 * count_);
        values_ = room.take<R>(count_);
        break;
      case GD_QR:
        columns_ = c_.out[0] ? c_.out[0]->sizes[c_.batch_axes + 1] : 0;
        b_ = room.take<T>(count_ * m_ * columns_);
        tau_ = room.take<T>(count_ * k_);
        break;
      case GD_EIGH:
        values_ = room.take<R>(count_ * n_);
        break;
      case GD_SVD: {
        const gd_view* const tall = c_.out[turned_ ? 2 : 0];
        columns_ = tall ? tall->sizes[c_.batch_axes + (turned_ ? 0 : 1)] : n_;
        u_ = room.take<T>(vectors_ ? count_ * m_ * columns_ : 0);
        b_ = room.take<T>(vectors_ ? count_ * n_ * n_ : 0);
        values_ = room.take<R>(count_ * n_);
        real_work_ = room.take<R>(n_);
        break;
      }
      case GD_EIG:
        w_ = room.take<C>(2 * count_ * n_);
        b_ = room.take<T>(vectors_ ? count_ * n_ * n_ : 0);
        v_ = room.take<C>(vectors_ ? count_ * n_ * n_ : 0);
        break;
      default:
        break;
    }
    const bool exchanges = c_.op == GD_LU || c_.op == GD_SOLVE || c_.op == GD_DET;
    pivots_ = room.take<int>(exchanges ? count_ * k_ : 0);
    work_ = room.take<char>(int64_t(most_work()));
  }

  // The most that a step of the op asks for; while memory is counted, and the same afterwards.
  size_t most_work() const {
    size_t most = 0;
    const Step::Function first = kFirst[c_.op], other = c_.op == GD_QR && columns_ > 0
                                                            ? Step::kOrgqr
                                                        : c_.op == GD_SVD ? Step::kGesvd
                                                                          : first;
    for (const Step::Function f : {first, other}) {
      const Step s = step(f);
      most = s.bytes > most ? s.bytes : most;
    }
    return most;
  }

  // ---- the library

  bool empty() const { return count_ == 0 || k_ == 0; }

  Step step(Step::Function f) const {
    Step s;
    if (empty()) return s;
    s.function = f;
    s.dtype = int32_t(dtype_of<T>);
    s.count = count_, s.m = m_, s.n = n_, s.columns = columns_;
    s.turned = c_.turned;
    s.vectors = vectors_;
    s.full = columns_ > n_;
    s.a = a_, s.b = b_, s.u = u_, s.tau = tau_, s.work = work_;
    s.values = values_ ? static_cast<void*>(values_) : w_;
    s.real_work = real_work_;
    s.pivots = pivots_, s.info = faults_.info;
    if (f == Step::kOrgqr) s.a = b_, s.n = columns_, s.columns = k_;
    if (small_) return s;
    if (const int status = solver_->measure(s))
      run_.call.refuse(GD_INTERNAL, "%s_bufferSize failed: %s", solver_->name(s).c_str(),
                       solver_->status_text(status).c_str());
    return s;
  }
  // The steps of the op, and its info: that of the factorisation.
  void solve(std::initializer_list<Step::Function> steps) {
    for (const Step::Function f : steps) {
      if (empty() || (f == Step::kGetrs && columns_ == 0)) continue;
      Step s = step(f);
      if (f == Step::kGetrs) s.info = spare_info_;
      if (!small_ && f == Step::kGesvdj)
        solve_svd(s);
      else if (!small_)
        solve_step(run_, *solver_, s);
      else if (c_.op == GD_EIGH || c_.op == GD_SVD)
        small_spectrum<T>(run_, s);
      else
        small_factor<T>(run_, s);
    }
    if (!c_.info) return;
    each_element(run_, count_, kernel<write_info>(), faults_, count_, c_.op >= GD_EIGH, info_);
    copy_views(run_, BatchView(c_, DType::i64, info_, 1, {}).view(), *c_.info);
  }

  // By Jacobi's rotations, which are several times as fast as QR steps; those do the matrices for
  // which the former gave up. Who did is read here: gesvdj itself waits for its stream.
  void solve_svd(const Step& jacobi) {
    solve_step(run_, *solver_, jacobi);
    if (vectors_) {
      const MatrixBatch all{count_, n_, n_};
      each_element(run_, all.elements(), kernel<turn_matrices<T>>(), b_, all);
    }
    std::vector<int> gave_up(static_cast<size_t>(count_));
    check(&run_.device,
          GPU(MemcpyAsync)(gave_up.data(), faults_.info, sizeof(int) * gave_up.size(),
                           GPU(MemcpyDeviceToHost), run_.stream),
          "a copy");
    check(&run_.device, GPU(StreamSynchronize)(run_.stream), "waiting");
    if (std::all_of(gave_up.begin(), gave_up.end(), [](int info) { return info == 0; })) return;
    read();  // A is lost; info is 0 again
    Step s = step(Step::kGesvd);
    s.count = 1;
    for (int64_t i = 0; i < count_; ++i) {
      if (gave_up[size_t(i)] == 0) continue;
      s.a = a_ + i * m_ * n_;
      s.values = values_ + i * n_;
      if (vectors_) s.u = u_ + i * m_ * columns_, s.b = b_ + i * n_ * n_;
      s.info = faults_.info + i;
      solve_step(run_, *solver_, s);
    }
  }

  // ---- in and out

  void read() {
    for (int* const flags : {faults_.not_finite, faults_.info})
      if (count_ > 0)
        check(&run_.device, GPU(MemsetAsync)(flags, 0, sizeof(int) * size_t(count_), run_.stream),
              "a fill");
    const std::pair<int64_t, int64_t> down{c_.m, turned_ ? m_ : 1}, by{c_.n, turned_ ? 1 : m_};
    copy_views(run_, c_.a, BatchView(c_, dtype_of<T>, a_, m_ * n_, {down, by}).view());
    each_element(run_, whole().elements(), kernel<mark_not_finite<T>>(), a_, whole(),
                 faults_.not_finite);
    const bool hermitian = c_.op == GD_CHOLESKY || c_.op == GD_EIGH;
    each_element(run_, whole().elements(), kernel<prepare_matrices<T>>(), a_, whole(),
                 faults_.not_finite, hermitian, turned_);
    if (c_.b)
      copy_views(run_, *c_.b,
                 BatchView(c_, dtype_of<T>, b_, n_ * columns_, {{n_, 1}, {columns_, n_}}).view());
  }
  template <class E>
  void spoil(E* x, MatrixBatch b, bool by_info) const {
    each_element(run_, b.elements(), kernel<spoil_matrices<E>>(), x, b, faults_, by_info);
  }
  // x, matrices (rows, columns), to output `k`; by columns, or `transposed`.
  template <class E>
  void give(int k, E* x, int64_t rows, int64_t columns, bool transposed) {
    if (!c_.out[k]) return;
    spoil(x, {count_, rows, columns}, c_.op != GD_LU && c_.op != GD_QR);
    const gd_view& to = *c_.out[k];
    const int64_t m = to.sizes[c_.batch_axes], n = to.sizes[c_.batch_axes + 1];
    copy_views(run_,
               BatchView(c_, dtype_of<E>, x, rows * columns,
                         {{m, transposed ? rows : 1}, {n, transposed ? 1 : rows}})
                   .view(),
               to);
  }
  template <class E>
  void give_values(int k, E* x, int64_t n) {
    spoil(x, {count_, n, 1}, true);
    copy_views(run_, BatchView(c_, dtype_of<E>, x, n, {{n, 1}}).view(), *c_.out[k]);
  }
  template <class E>
  void give_number(int k, E* x) {
    if (c_.out[k]) copy_views(run_, BatchView(c_, dtype_of<E>, x, 1, {}).view(), *c_.out[k]);
  }

  void set_phases(Columns<T> c, int64_t columns, int64_t length, Columns<T> partner,
                  int64_t width) const {
    each_block(run_, count_ * columns, kernel<set_column_phases<T>>(), c, count_, columns, length,
               partner, width);
  }
  void conjugate(T* x, MatrixBatch b) const {
    if constexpr (is_complex_v<T>)
      each_element(run_, b.elements(), kernel<conjugate_elements<T>>(), x, b);
  }

  // ---- ops of more than one step

  void do_qr() {
    const MatrixBatch all{count_, m_, columns_};  // of Q
    if (k_ == 0) {                                // nothing was reflected
      each_element(run_, all.elements(), kernel<fill_identity<T>>(), b_, all);
      return give(0, b_, m_, columns_, false);
    }
    solve({Step::kGeqrf});
    if (columns_ > 0) {
      each_element(run_, all.elements(), kernel<copy_reflections<T>>(), a_, whole(), k_, b_,
                   columns_);
      solve({Step::kOrgqr});
    }
    each_element(run_, whole().elements(), kernel<keep_triangle<T>>(), a_, whole(), false);
    each_block(run_, count_ * k_, kernel<set_real_diagonal<T>>(), a_, whole(),
               columns_ > 0 ? b_ : nullptr, columns_, k_, c_.not_negative);
    give(0, b_, m_, columns_, false);
    give(1, a_, m_, n_, false);
  }

  void do_svd() {
    solve({Step::kGesvdj});
    if (!vectors_) return give_values(1, values_, n_);
    const MatrixBatch all{count_, m_, columns_};  // of the taller side
    if (k_ == 0) {
      each_element(run_, all.elements(), kernel<fill_identity<T>>(), u_, all);
    } else if (turned_) {  // A = (U S Vh)^H: what is U there is V here
      conjugate(u_, all);
      conjugate(b_, {count_, n_, n_});
    }
    const Columns<T> tall{u_, m_ * columns_, 1, m_}, other{b_, n_ * n_, n_, 1};
    if (turned_)
      set_phases(other, k_, n_, tall, m_);
    else
      set_phases(tall, k_, m_, other, n_);
    const Columns<T> others{u_ + m_ * n_, m_ * columns_, 1, m_};
    set_phases(others, columns_ - n_, m_, {}, 0);
    give(turned_ ? 2 : 0, u_, m_, columns_, turned_);
    give_values(1, values_, n_);
    give(turned_ ? 0 : 2, b_, n_, n_, turned_);
  }

  void do_eig() {
    solve({Step::kGeev});
    C* const ordered = w_ + count_ * n_;
    each_block(run_, count_ * n_, kernel<order_eigenvectors<T>>(), w_, b_, whole(), ordered,
               vectors_ ? v_ : nullptr);
    give_values(0, ordered, n_);
    if (vectors_) give(1, v_, n_, n_, false);
  }

  const Run& run_;
  const LinalgCall& c_;
  bool small_ = false;
  const SolverLibrary* solver_ = nullptr;  // null: it is not needed
  int64_t count_ = 1, m_, n_, k_;
  int64_t columns_ = 0;  // of B, of Q, or of the taller one of U and V
  bool turned_ = false, vectors_ = false;
  Faults faults_{};
  int* spare_info_ = nullptr;
  int64_t *info_ = nullptr, *rows_ = nullptr;
  T *a_ = nullptr, *b_ = nullptr, *u_ = nullptr, *tau_ = nullptr;
  R *values_ = nullptr, *real_work_ = nullptr;
  C *w_ = nullptr, *v_ = nullptr;
  int* pivots_ = nullptr;
  char* work_ = nullptr;
};

}  // namespace

void linalg(Run& run) {
  const LinalgCall c = expect_linalg(run.call);
  visit_dtype_of(
      c.a.dtype,
      [&](auto t) {
        using T = decltype(t);
        if (c.op != GD_SOLVE_TRIANGULAR) return Batch<T>(run, c).work();
        copy_views(run, *c.b, *c.out[0]);
        solve_triangular<T>(run, c);
      },
      float{}, double{}, c64{}, c128{});
}

}  // namespace gradus::gpu
