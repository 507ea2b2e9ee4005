// Small matrices of a checked call in groups, one in each lane: the slot linalg where its dtype is
// f32 or f64 and its matrices are small.
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/linalg/lanes_factor.hpp"
#include "kernels/cpu/isa/linalg/spectrum_alone.hpp"
#include "kernels/call/checks.hpp"
#include "kernels/linalg/factor.hpp"
#include "kernels/linalg/small.hpp"

namespace gradus::inline v1::cpu {

namespace {

template <class B>
class Group {
  using T = NumberOf<B>;

 public:
  Group(const calls::LinalgCall& call, void* room)
      : call_(call), room_(static_cast<B*>(room)), a_(call.a, call.batch_axes) {
    if (call.b) b_ = {*call.b, call.batch_axes};
    for (int k = 0; k < 3; ++k)
      if (out(k)) out_[k] = {*out(k), call.batch_axes};
    if (call.info) info_ = {*call.info, call.batch_axes};
  }

  // Does matrices [first, first + count); gives those that it leaves, as bits.
  uint64_t run(int64_t first, int count) {
    begin(first, count);
    switch (call_.op) {
      case GD_CHOLESKY:
        return cholesky();
      case GD_LU:
        return lu();
      case GD_SOLVE:
        return solve();
      case GD_DET:
        return det();
      case GD_SOLVE_TRIANGULAR:
        return solve_triangular();
      case GD_QR:
        return qr();
      case GD_EIGH:
        return eigh();
      default:
        return svd();
    }
  }
  // One matrix whose roots and quotients take most of the time.
  uint64_t run_alone(int64_t index) {
    begin(index, 1);
    return call_.op == GD_QR ? qr() : call_.op == GD_EIGH ? eigh() : svd();
  }

 private:
  void begin(int64_t first, int count) {
    count_ = count;
    used_ = 0;
    for (LaneStarts<B>* starts : {&a_, &b_, &out_[0], &out_[1], &out_[2], &info_})
      if (*starts) starts->move(first, count);
  }
  LaneView<B> output(int k, bool turned = false) const { return out_[k].view(turned); }
  B* take(int n) {
    B* const p = room_ + used_;
    used_ += n;
    return p;
  }
  LaneMatrix<B> matrix(int rows, int cols) { return {take(rows * cols), rows, cols}; }
  LaneMatrix<B> read_a(bool turned = false) {
    const gd_view& v = call_.a;
    const auto m = int(v.sizes[v.rank - 2]), n = int(v.sizes[v.rank - 1]);
    const LaneMatrix<B> a = turned ? matrix(n, m) : matrix(m, n);
    gather(a, a_.view(turned));
    return a;
  }
  const gd_view* out(int k) const { return call_.out[k]; }

  // ---- lanes. Sets of them are bits.

  static bool has(uint64_t lanes, int lane) { return lanes >> lane & 1; }
  static T lane_of(const B& x, int lane) { return cpu::lane_of(x, lane); }
  uint64_t ours(uint64_t lanes) const { return lanes & ((uint64_t(1) << count_) - 1); }

  void write_info(int lane, int64_t info) const {
    if (call_.info) *info_.template place<int64_t>(lane) = info;
  }
  // Writes info of each lane: -1 where the matrix is not finite, else what failed. Gives the lanes
  // where nothing did.
  uint64_t write_infos(uint64_t finite, const B& failed) const {
    const uint64_t good = finite & bits_of<B>(failed == B(T(0)));
    for (int lane = 0; lane < count_; ++lane)
      write_info(lane, has(good, lane)     ? 0
                       : has(finite, lane) ? int64_t(lane_of(failed, lane))
                                           : -1);
    return good;
  }
  // Output k becomes a; NaN in the lanes that are spoiled.
  void write(int k, LaneMatrix<B> a, uint64_t spoiled) const {
    if (!out(k)) return;
    scatter(output(k), a, count_);
    for (int lane = 0; lane < count_; ++lane)
      if (has(spoiled, lane)) spoil(k, lane);
  }
  void spoil(int k, int lane) const {
    const LaneView<B> to = output(k);
    for (int64_t i = 0; i < out(k)->sizes[out(k)->rank - 2]; ++i)
      for (int64_t j = 0; j < out(k)->sizes[out(k)->rank - 1]; ++j)
        to.start(lane)[i * to.down + j * to.by] = linalg::not_a_number<T>();
  }
  template <class E, class F>
  void write_vector(int k, int lane, F&& f) const {
    if (!out(k)) return;
    const gd_view& v = *out(k);
    E* const to = out_[k].template place<E>(lane);
    for (int64_t i = 0; i < v.sizes[v.rank - 1]; ++i) to[i * v.strides[v.rank - 1]] = f(int(i));
  }

  // ---- ops

  uint64_t cholesky() {
    const LaneMatrix<B> a = read_a();
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    make_symmetric(a);
    write(0, a, ~write_infos(finite, cpu::cholesky(a)));
    return 0;
  }

  uint64_t lu() {
    const LaneMatrix<B> a = read_a();
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    B* const order = take(a.rows);
    write_infos(finite, linalg::small_lu<T>(a, order));
    for (int lane = 0; lane < count_; ++lane)
      write_vector<int64_t>(1, lane,
                            [&](int i) { return has(finite, lane) ? row_of(order, i, lane) : i; });
    write(0, a, ~finite);
    return 0;
  }
  static int64_t row_of(const B* order, int i, int lane) {
    return int64_t(lane_of(order[i], lane));
  }

  uint64_t solve() {
    const LaneMatrix<B> a = read_a();
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    B* const order = take(a.rows);
    const uint64_t good = ours(write_infos(finite, linalg::small_lu<T>(a, order)));
    const bool turned = call_.turned != 0;
    const auto columns = int(call_.b->sizes[call_.b->rank - 1]);
    if (columns == 0) return 0;
    LaneView<B> from = b_.view(), to = output(0);
    const int used = used_;
    for (int first = 0; first < columns; first += kLargestInLanes, used_ = used) {
      const LaneMatrix<B> b = matrix(a.rows, std::min(kLargestInLanes, columns - first));
      gather(b, from);
      const LaneMatrix<B> x = turned ? b : in_order(b, order);
      linalg::solve_small_triangle(a, turned, !turned, turned, x, x);
      linalg::solve_small_triangle(a, !turned, turned, turned, x, x);
      if (!turned && good == ours(~uint64_t(0))) {
        scatter(to, x, count_);
      } else {
        for (int lane = 0; lane < count_; ++lane)
          for (int i = 0; i < x.rows; ++i) {
            const int64_t row = turned && has(good, lane) ? row_of(order, i, lane) : i;
            for (int j = 0; j < x.cols; ++j)
              to.start(lane)[row * to.down + j * to.by] =
                  has(good, lane) ? x.number(i, j, lane) : linalg::not_a_number<T>();
          }
      }
      from.first += kLargestInLanes * from.by;
      to.first += kLargestInLanes * to.by;
    }
    return 0;
  }

  // Row i of the result is row order[i] of b.
  LaneMatrix<B> in_order(LaneMatrix<B> b, const B* order) {
    const LaneMatrix<B> x = matrix(b.rows, b.cols);
    const auto put = [&](auto from, auto to) {
      for (int i = 0; i < from.rows; ++i) {
        for (int j = 0; j < from.cols; ++j) to(i, j) = from(i, j);
        if (xsimd::all(order[i] == B(T(i)))) continue;
        for (int k = 0; k < from.rows; ++k) {
          const MaskOf<B> here = order[i] == B(T(k));
          if (k == i || !xsimd::any(here)) continue;
          for (int j = 0; j < from.cols; ++j) to(i, j) = xsimd::select(here, from(k, j), to(i, j));
        }
      }
    };
    if (!linalg::with_squares(put, b, x)) put(b, x);
    return x;
  }

  uint64_t det() {
    const LaneMatrix<B> a = read_a();
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    B* const order = take(a.rows);
    linalg::small_lu<T>(a, order);
    for (int lane = 0; lane < count_; ++lane) {
      int64_t rows[kLargestInLanes];
      for (int i = 0; i < a.rows; ++i) rows[i] = row_of(order, i, lane);
      const T nan = linalg::not_a_number<T>();
      linalg::Determinant<T> d{nan, nan, nan};
      if (has(finite, lane))
        d = linalg::determinant(linalg::Strided<T>{a.numbers() + lane, a.rows, a.cols,
                                                   int64_t(a.cols) * kLanes<B>, kLanes<B>},
                                rows);
      const T all[] = {d.value, d.sign, d.log_size};
      for (int k = 0; k < 3; ++k)
        if (out(k)) *out_[k].place(lane) = all[k];
    }
    return 0;
  }

  uint64_t solve_triangular() {
    const auto columns = int(call_.b->sizes[call_.b->rank - 1]);
    if (columns == 0) return 0;
    const LaneMatrix<B> a = read_a();
    LaneView<B> from = b_.view(), to = output(0);
    const int used = used_;
    for (int first = 0; first < columns; first += kLargestInLanes, used_ = used) {
      const LaneMatrix<B> x = matrix(a.rows, std::min(kLargestInLanes, columns - first));
      gather(x, from);
      linalg::solve_small_triangle(a, call_.upper, call_.unit, call_.turned != 0, x, x);
      scatter(to, x, count_);
      from.first += kLargestInLanes * from.by;
      to.first += kLargestInLanes * to.by;
    }
    return 0;
  }

  uint64_t qr() {
    const LaneMatrix<B> a = read_a();
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    const int k = std::min(a.rows, a.cols);
    LaneMatrix<B> q;
    if (out(0)) q = matrix(a.rows, int(out(0)->sizes[out(0)->rank - 1]));
    const LaneMatrix<B> v = matrix(k, a.rows);
    cpu::qr(a, q, v, take(k));
    if (call_.not_negative) make_diagonal_positive(a, q);
    LaneMatrix<B> r = a;
    if (out(1)) r.rows = int(out(1)->sizes[out(1)->rank - 2]);
    write(0, q, ~finite);
    write(1, r, ~finite);
    return 0;
  }

  // What stands at `place` in an order by size, of n numbers of a lane.
  void sort(const B* x, int n, int lane, bool ascending, int* place) const {
    for (int i = 0; i < n; ++i) {
      int j = i;
      const T here = lane_of(x[i], lane);
      for (; j > 0; --j) {
        const T other = lane_of(x[place[j - 1]], lane);
        if (ascending ? !(here < other) : !(here > other)) break;
        place[j] = place[j - 1];
      }
      place[j] = i;
    }
  }
  // Output k becomes the n numbers x of a lane in order, NaN where spoiled; `place` is that order.
  void write_sorted(int k, const B* x, int n, int lane, bool ascending, bool spoiled,
                    int* place) const {
    sort(x, n, lane, ascending, place);
    write_vector<T>(k, lane, [&](int i) {
      return spoiled ? linalg::not_a_number<T>() : lane_of(x[place[i]], lane);
    });
  }
  // Column j of output k is column place[j] of a; `turned`: row j. NaN where spoiled.
  void write_columns(int k, LaneMatrix<B> a, int lane, const int* place, int n, bool spoiled,
                     bool turned = false) const {
    if (!out(k)) return;
    if (spoiled) return spoil(k, lane);
    const LaneView<B> to = output(k, turned);
    for (int i = 0; i < a.rows; ++i)
      for (int j = 0; j < n; ++j)
        to.start(lane)[i * to.down + j * to.by] = a.number(i, place[j], lane);
  }

  uint64_t eigh() {
    const LaneMatrix<B> a = read_a();
    const int n = a.rows;
    const uint64_t finite = bits_of<B>(finite_lanes(a));
    make_symmetric(a);
    const B back = normalize_scale(a);
    const LaneMatrix<B> v = out(1) ? matrix(n, n) : LaneMatrix<B>{};
    const uint64_t left =
        (count_ == 1 ? uint64_t(jacobi_eigh_alone(a, v)) : bits_of<B>(jacobi_eigh(a, v))) & finite;
    B* const w = take(n);
    for (int j = 0; j < n; ++j) {
      w[j] = a(j, j) * back;
      if (v.data) scale_column(v, j, sign_of_largest(v, j));
    }
    for (int lane = 0; lane < count_; ++lane) {
      if (has(left, lane)) continue;
      const bool spoiled = !has(finite, lane);
      write_info(lane, spoiled ? -1 : 0);
      int place[kLargestInLanes];
      write_sorted(0, w, n, lane, true, spoiled, place);
      write_columns(1, v, lane, place, n, spoiled);
    }
    return ours(left);
  }

  // Has output k more columns, counted along an axis from its end, than a?
  bool wider(int k, int axis, LaneMatrix<B> a) const {
    return out(k) && out(k)->sizes[out(k)->rank - axis] > a.cols;
  }
  // A whole orthogonal matrix; columns from a.cols on are orthogonal to a's.
  LaneMatrix<B> complement(LaneMatrix<B> a) {
    const LaneMatrix<B> copy = matrix(a.rows, a.cols), q = matrix(a.rows, a.rows),
                        v = matrix(a.cols, a.rows);
    std::copy_n(a.data, a.rows * a.cols, copy.data);
    cpu::qr(copy, q, v, take(a.cols));
    for (int j = a.cols; j < a.rows; ++j) scale_column(q, j, sign_of_largest(q, j));
    return q;
  }
  void write_rest(int k, LaneMatrix<B> a, int lane, int first, bool turned = false) const {
    const LaneView<B> to = output(k, turned);
    for (int i = 0; i < a.rows; ++i)
      for (int j = first; j < a.cols; ++j)
        to.start(lane)[i * to.down + j * to.by] = a.number(i, j, lane);
  }

  uint64_t svd() {
    // Of A or A^T, whichever is not wide: the columns of g become those of U or of V.
    const bool turned = call_.m < call_.n;
    const LaneMatrix<B> g = read_a(turned);
    const int k = g.cols;
    const uint64_t finite = bits_of<B>(finite_lanes(g));
    const B back = normalize_scale(g);
    const bool wanted = out(0) || out(2);
    const LaneMatrix<B> h = wanted && (turned || out(2)) ? matrix(k, k) : LaneMatrix<B>{};
    B* const s = take(k);
    const uint64_t left =
        (count_ == 1 ? uint64_t(jacobi_svd_alone(g, s, h)) : bits_of<B>(jacobi_svd(g, s, h))) &
        finite;
    const LaneMatrix<B> u = turned ? h : g, v = turned ? g : h;
    for (int j = 0; j < k && wanted; ++j) {
      scale_column(g, j, B(T(1)) / s[j]);
      const B sign = sign_of_largest(u, j);
      scale_column(u, j, sign);
      if (v.data) scale_column(v, j, sign);
    }
    for (int j = 0; j < k; ++j) s[j] *= back;
    // Full factors have more columns, orthogonal to those.
    const LaneMatrix<B> more = wider(0, 1, u) ? complement(u) : wider(2, 2, v) ? complement(v) : u;
    for (int lane = 0; lane < count_; ++lane) {
      if (has(left, lane)) continue;
      const bool spoiled = !has(finite, lane);
      write_info(lane, spoiled ? -1 : 0);
      int place[kLargestInLanes];
      write_sorted(1, s, k, lane, false, spoiled, place);
      write_columns(0, u, lane, place, k, spoiled);
      write_columns(2, v, lane, place, k, spoiled, true);
      if (!spoiled && wider(0, 1, u)) write_rest(0, more, lane, k);
      if (!spoiled && wider(2, 2, v)) write_rest(2, more, lane, k, true);
    }
    return ours(left);
  }

  const calls::LinalgCall& call_;
  B* const room_;
  int count_ = 0, used_ = 0;
  LaneStarts<B> a_, b_, out_[3], info_;
};

}  // namespace

int linalg_lanes(const calls::LinalgCall& call) {
  const bool wide = call.a.dtype == GD_F64;
  if ((!wide && call.a.dtype != GD_F32) || call.op == GD_EIG) return 0;
  // Rotations take n^3 a sweep: beyond that a matrix alone has its spectrum sooner by reduction.
  const bool spectrum = call.op == GD_EIGH || call.op == GD_SVD;
  const int64_t most = spectrum ? kLargestSpectrumInLanes : kLargestInLanes;
  if (std::min(call.m, call.n) < 1 || std::max(call.m, call.n) > most) return 0;
  return wide ? kLanes<Batch<double>> : kLanes<Batch<float>>;
}

namespace {

// Lanes of 16 bytes: their roots and quotients take a fourth of the time of the widest ones.
#if defined(__SSE2__)
template <class T>
using Narrow = xsimd::batch<T, xsimd::sse2>;
#else
template <class T>
using Narrow = Batch<T>;
#endif

template <class T>
int64_t run_groups(const calls::LinalgCall& call, int64_t first, int64_t end, void* room,
                   uint64_t* left) {
  constexpr int kTogether = kLanes<Batch<T>>;
  const bool rotates = call.op == GD_QR || call.op == GD_EIGH || call.op == GD_SVD;
  // What eliminates gives the same bits one by one, and sooner where it is one, or where few have
  // so many columns that these are vectors by themselves.
  const bool eliminates = call.op == GD_LU || call.op == GD_SOLVE || call.op == GD_DET ||
                          call.op == GD_SOLVE_TRIANGULAR;
  const int64_t columns = call.b ? call.b->sizes[call.b->rank - 1] : 0;
  Group<Batch<T>> group(call, room);
  for (*left = 0; first < end && *left == 0; first += kTogether) {
    const int count = int(std::min<int64_t>(kTogether, end - first));
    if (eliminates && (count == 1 || (count <= 4 && columns >= 16)))
      *left = (uint64_t(1) << count) - 1;
    else if (count == 1 && rotates)
      *left = Group<Narrow<T>>(call, room).run_alone(first);
    else
      *left = group.run(first, count);
  }
  return first;
}

}  // namespace

int64_t linalg_groups(const calls::LinalgCall& call, int64_t first, int64_t end, void* room,
                      uint64_t* left) {
  return call.a.dtype == GD_F64 ? run_groups<double>(call, first, end, room, left)
                                : run_groups<float>(call, first, end, room, left);
}

}  // namespace gradus::cpu
