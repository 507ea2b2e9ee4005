// Batch elements side by side: where neighbours in memory are batch elements, a vector holds one
// number of each of them, and every product is one multiply-add of vectors. Few batch elements
// share a vector with some columns: lane q l + e is column q of batch element e. A complex product
// is two steps of a real one: (re, re) (re, im) and (-im, im) (im, re). The order of each sum is
// that of the other engines, so are the bits.
#pragma once
#include "kernels/cpu/isa/contract/gemm.hpp"
#include "kernels/cpu/isa/words/pairs.hpp"

namespace gradus::inline v1::cpu {

#if defined(__AVX512BW__)
inline constexpr int64_t kSideRows = 4, kSideColumns = 6;
#else
inline constexpr int64_t kSideRows = 3, kSideColumns = 3;
#endif

// A tile: strides in numbers; sums go to `sums`, whole vectors side by side, or straight to out.
template <class R>
struct SideTile {
  const R *a, *b;
  int64_t a_row, a_k, b_column, b_k, k;
  R* sums;
  R* out;  // or null
  const int64_t *row, *column;
  bool add;
};

template <class R, int N, size_t... I>
void side_tile(const SideTile<R>& t, std::index_sequence<I...>) {
  using B = Batch<R>;
  constexpr int64_t kWidth = int64_t(B::size);
  constexpr int kRowsHere = int(sizeof...(I)) / N;
  const OddSteps<kRowsHere> rows(t.a_row);
  const OddSteps<N> columns(t.b_column);
  const R *a = t.a, *b = t.b;
  B sum[sizeof...(I)];
  ((sum[I] = B(R(0))), ...);
  for (int64_t k = t.k; k > 0; --k, a += t.a_k, b += t.b_k) {
    B line[N], given;
    ((int(I) < N ? void(line[I % N] = B::load_unaligned(b + columns[int(I) % N])) : void()), ...);
    ((given = int(I) % N == 0 ? B::load_unaligned(a + rows[int(I) / N]) : given,
      sum[I] = fused<R>(given, line[I % N], sum[I])),
     ...);
  }
  if (!t.out) {
    ((sum[I].store_unaligned(t.sums + int64_t(I) * kWidth)), ...);
    return;
  }
  auto put = [&](size_t i, B x) __attribute__((always_inline)) {
    R* const to = t.out + t.row[i / N] + t.column[i % N];
    (t.add ? x + B::load_unaligned(to) : x).store_unaligned(to);
  };
  (put(I, sum[I]), ...);
}
template <class R>
using SideTileFn = void (*)(const SideTile<R>&);
template <class R, size_t... I>
SideTileFn<R> find_side_tile(int64_t rows, int64_t columns, std::index_sequence<I...>) {
  static constexpr SideTileFn<R> all[] = {+[](const SideTile<R>& t) {
    constexpr int n = int(I) % int(kSideColumns) + 1;
    side_tile<R, n>(t, std::make_index_sequence<(I / kSideColumns + 1) * n>());
  }...};
  return all[(rows - 1) * kSideColumns + columns - 1];
}

template <class T>
class SideBySide {
 public:
  using R = real_of<T>;
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kPlanes = int64_t(sizeof(T) / sizeof(R)),
                           kMost = kWidth / kPlanes;  // elements of a vector

  // Enough batch elements to fill vectors, neighbours in two at least of a, b and out? Then their
  // axis becomes the last one.
  static bool suits(Contraction& x) {
    Axes& batch = x.batch;
    int axis = -1, best = 1;
    for (int d = 0; d < batch.rank; ++d) {
      int units = 0;
      for (const Role r : {kA, kB, kOut, kOut}) units += batch.stride[r][d] == 1;
      if (units > best) {
        best = units;
        axis = d;
      }
    }
    if (axis < 0 || kMost == 1) return false;
    const int64_t size = batch.size[axis];
    if (size < kMost && !fills(size, columns_beside(x.n, size))) return false;
    batch.move(axis, batch.rank - 1);
    return true;
  }

  // one(i): the product of batch element i alone.
  template <class F>
  static gd_status run(gd_device* d, const Contraction& x, const Operands& o, int64_t block,
                       gd_error* e, F&& one) {
    const int64_t last = x.batch.size[x.batch.rank - 1], groups = last / kMost,
                  rest = last - groups * kMost, beside = columns_beside(x.n, rest);
    gd_status status = GD_OK;
    if (groups > 0) status = SideBySide(d, x, o, block, 0, groups, kMost, 1).all(e);
    if (status != GD_OK || rest == 0) return status;
    if (fills(rest, beside))
      return SideBySide(d, x, o, block, groups * kMost, 1, rest, beside).all(e);
    return for_groups(d, x.batch.count / last * rest, x.m.count * x.n.count * (x.k.count + 1), e,
                      [&](int64_t r) { return one(r / rest * last + groups * kMost + r % rest); });
  }

 private:
  static constexpr int64_t kGroups = 4,  // at once
      kRaw = 64;                         // lines that are turned at once

  // Columns that share a vector with so many batch elements: equal parts of the last axis.
  static int64_t columns_beside(const Axes& n, int64_t batches) {
    if (n.rank == 0 || batches == 0) return 1;
    int64_t c = most(kMost / batches, 1);
    while (n.size[n.rank - 1] % c != 0) --c;
    return c;
  }
  static bool fills(int64_t batches, int64_t columns) {
    return batches > 1 && 2 * batches * columns >= kMost;
  }

  SideBySide(gd_device* d, const Contraction& x, const Operands& o, int64_t block, int64_t start,
             int64_t groups, int64_t batches, int64_t columns)
      : d_(d),
        x_(x),
        o_(o),
        start_(start),
        groups_(groups),
        batches_(batches),
        lanes_(batches * columns),
        m_(x.m.count),
        n_(x.n.count / columns),
        block_(k_block(x.k.count, block)) {
    n_axes_.take(x.n);
    n_axes_.count = n_;
    const int64_t between = columns > 1 ? n_axes_.rank - 1 : 0;
    if (columns > 1) n_axes_.size[between] /= columns;
    for (const Role r : {kA, kB, kOut, kBias}) {
      const int64_t step = columns > 1 ? x.n.stride[r][between] : 0;
      unit_[r] = true;
      for (int64_t l = 0; l < lanes_; ++l) {
        at_[r][l] = l % batches * x.batch.step(r) + l / batches * step;
        bytes_[r][l] = at_[r][l] * int64_t(sizeof(T));
        unit_[r] = unit_[r] && at_[r][l] == l;
      }
      if (columns > 1) n_axes_.stride[r][between] *= columns;
    }
    whole_ = lanes_ == kMost;
    rows_ = panels(m_, panels(m_, kSideRows));
    columns_ = panels(n_, panels(n_, kSideColumns));
    rows_at_once_ = rows_ * (unit_[kA] || x.k.unit(kA) ? 1 : 4);
    // Read where they lie if that is done but once, or from a near cache and not all to one place.
    const bool even = kPlanes == 1 && whole_ && x.k.even(),
               near = m_ * x.k.count * x.batch.count * int64_t(sizeof(T)) <= d->cache[1] &&
                      x.k.step(kA) * int64_t(sizeof(T)) % 4096 != 0;
    direct_a_ = even && unit_[kA] && x.m.even() && (near || n_ <= kSideColumns);
    direct_b_ = even && unit_[kB] && n_axes_.even() && m_ <= kSideRows;
    const c128 one(1), zero(0);
    plain_ = o.alpha == one && o.beta == zero && !o.data[kBias];
    // Several groups at once read and write more of each row of neighbours.
    const int64_t held = d->cache[1] / 2 / (block_ * kPlanes * kWidth * int64_t(sizeof(R)));
    at_once_ = direct_a_ && direct_b_ ? 1 : least(groups, kGroups);
    while (at_once_ > 1 && held / at_once_ < least(n_, 2 * columns_)) --at_once_;
    columns_at_once_ = direct_b_ ? n_ : most(held / at_once_ / columns_, 1) * columns_;
  }

  // Each task is some groups of batch elements, or a share of their rows where there are few.
  gd_status all(gd_error* e) {
    const int64_t bundles = panels(groups_, at_once_),
                  count = x_.batch.count / x_.batch.size[x_.batch.rank - 1] * bundles,
                  work = m_ * n_ * (x_.k.count + 1) * kMost * at_once_;
    int64_t share = panels(m_, rows_);
    while (d_->threads > 1 && share > 4 && work / panels(m_, share * rows_) > kSerialWork &&
           count * panels(m_, share * rows_) < 4 * d_->threads)
      share = panels(share, 2);
    const int64_t shares = panels(m_, share * rows_);
    int failed = 0;
    parallel_range(
        d_, count * shares, panels(kSerialWork * shares, work), [&](int64_t begin, int64_t end) {
          Task task(*this);
          if (!task.ready()) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
          for (int64_t i = begin; i < end && task.ready(); ++i) {
            const int64_t line = i / shares / bundles, group = i / shares % bundles * at_once_;
            task.run(line, group, least(groups_ - group, at_once_), i % shares * share * rows_,
                     least(m_, (i % shares + 1) * share * rows_));
          }
        });
    return failed ? refuse(e, GD_OOM, "contract", "no memory for packed panels") : GD_OK;
  }

  class Task {
   public:
    explicit Task(const SideBySide& s) : s_(s) {
      const int64_t step = s.block_ * kPlanes * kWidth, raw = (most(s.block_, kRaw) + 1) * kWidth,
                    boxed = panels(least(s.n_, s.columns_at_once_), s.columns_) * s.columns_,
                    reals = (s.rows_at_once_ + (s.direct_b_ ? 0 : boxed)) * step * s.at_once_ + raw,
                    offsets = 3 * (s.m_ + s.n_) + 2 * s.block_;
      R* const memory = static_cast<R*>(s.d_->scratch(
          kScratchB, size_t(reals * int64_t(sizeof(R)) + offsets * int64_t(sizeof(int64_t)))));
      if (!memory) return;
      pack_a_ = memory;
      raw_ = pack_a_ + s.rows_at_once_ * step * s.at_once_;
      pack_b_ = raw_ + raw;
      int64_t* at = reinterpret_cast<int64_t*>(memory + reals);
      for (const Role r : {kA, kB}) {
        k_at_[r] = at;
        at += s.block_;
      }
      const Axes* const axes[] = {&s.x_.m, &s.n_axes_};
      for (int which = 0; which < 2; ++which)
        for (const Role r : {which == 0 ? kA : kB, kOut, kBias}) {
          axes[which]->offsets(r, 0, axes[which]->count, at);
          line_[which][r] = at;
          at += axes[which]->count;
        }
    }
    bool ready() const { return pack_a_; }

    // Rows i0 .. i1 - 1 of some groups of batch elements.
    void run(int64_t line, int64_t group, int64_t groups, int64_t i0, int64_t i1) {
      const Axes& batch = s_.x_.batch;
      const int64_t first = line * batch.size[batch.rank - 1] + s_.start_ + group * s_.batches_;
      groups_ = groups;
      const T *const a = s_.o_.template start<const T>(kA, batch, first),
                     *const b = s_.o_.template start<const T>(kB, batch, first);
      out_ = s_.o_.template start<T>(kOut, batch, first);
      bias_ = s_.o_.template start<const T>(kBias, batch, first);
      const int64_t k = s_.x_.k.count;
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += s_.block_) {
        kc_ = least(k - k0, s_.block_);
        first_ = k0 == 0;
        last_ = k0 + kc_ == k;
        if (k0 != loaded_)
          for (const Role r : {kA, kB}) {
            s_.x_.k.offsets(r, k0, kc_, k_at_[r]);
            k_unit_[r] = unit_steps(k_at_[r], kc_);
          }
        loaded_ = k0;
        for (int64_t j = 0; j < s_.n_; j += s_.columns_at_once_)
          box(a, b, i0, i1, j, least(s_.n_, j + s_.columns_at_once_));
      }
    }

   private:
    // From one group to the next, in elements.
    int64_t group_step(Role r) const { return s_.batches_ * s_.x_.batch.step(r); }

    void box(const T* a, const T* b, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
      const int64_t step = kc_ * kPlanes * kWidth, panel = s_.columns_ * step,
                    b_group = panels(j1 - j0, s_.columns_) * panel,
                    a_group = s_.rows_at_once_ * step;
      if (!s_.direct_b_) pack(kB, b, line_[1][kB] + j0, j1 - j0, s_.columns_, pack_b_, b_group);
      SideTile<R> t;
      alignas(64) R sums[kSideRows * kSideColumns * kWidth];
      t.sums = sums;
      t.k = kc_ * kPlanes;
      t.add = !first_;
      t.a_row = s_.direct_a_ ? s_.x_.m.step(kA) : kWidth;
      t.a_k = s_.direct_a_ ? s_.x_.k.step(kA) : s_.rows_ * kWidth;
      t.b_column = s_.direct_b_ ? s_.n_axes_.step(kB) : kWidth;
      t.b_k = s_.direct_b_ ? s_.x_.k.step(kB) : s_.columns_ * kWidth;
      const bool straight = kPlanes == 1 && s_.plain_ && s_.whole_ && s_.unit_[kOut],
                 turned = s_.plain_ && first_ && s_.lanes_ == s_.batches_ && !s_.unit_[kOut];
      int64_t column_bytes[kSideColumns];
      for (int64_t q = 0; q < kSideColumns; ++q) column_bytes[q] = q * kWidth * int64_t(sizeof(R));
      for (int64_t i = i0; i < i1; i += s_.rows_) {
        const int64_t rows = least(s_.rows_, i1 - i);
        const int64_t packed = (i - i0) % s_.rows_at_once_;
        if (!s_.direct_a_ && packed == 0)
          pack(kA, a, line_[0][kA] + i, least(s_.rows_at_once_, i1 - i), s_.rows_, pack_a_,
               a_group);
        t.row = line_[0][kOut] + i;
        for (int64_t j = j0; j < j1; j += s_.columns_) {
          const int64_t columns = least(s_.columns_, j1 - j);
          t.column = line_[1][kOut] + j;
          const auto tile = find_side_tile<R>(
              rows, columns, std::make_index_sequence<size_t(kSideRows * kSideColumns)>());
          for (int64_t g = 0; g < groups_; ++g) {
            t.a = s_.direct_a_ ? reinterpret_cast<const R*>(a + line_[0][kA][i] + k_at_[kA][0] +
                                                            g * group_step(kA))
                               : pack_a_ + g * a_group + packed * step;
            t.b = s_.direct_b_ ? reinterpret_cast<const R*>(b + line_[1][kB][j] + k_at_[kB][0] +
                                                            g * group_step(kB))
                               : pack_b_ + g * b_group + (j - j0) / s_.columns_ * panel;
            t.out = straight ? reinterpret_cast<R*>(out_ + g * group_step(kOut)) : nullptr;
            tile(t);
            if (straight) continue;
            if (turned && unit_steps(t.column, columns))
              for (int64_t q = 0; q < rows; ++q)
                find_transpose(sizeof(T))(
                    reinterpret_cast<char*>(out_ + t.row[q] + t.column[0] + g * group_step(kOut)),
                    group_step(kOut) / s_.batches_ * int64_t(sizeof(T)),
                    reinterpret_cast<const char*>(sums + q * columns * kWidth), column_bytes,
                    columns, s_.lanes_);
            else
              for (int64_t q = 0; q < rows * columns; ++q)
                finish(sums + q * kWidth, i + q / columns, j + q % columns, g);
          }
        }
      }
    }

    // Vectors of n lines in panels of `width`, a panel the lines side by side for each k and plane;
    // of each group.
    void pack(Role role, const T* from, const int64_t* at, int64_t n, int64_t width, R* to,
              int64_t to_group) {
      const int64_t step = width * kWidth, from_group = group_step(role), *const k_at = k_at_[role];
      const auto place = [&](int64_t i, int64_t k) {
        return to + (i / width * kc_ + k) * kPlanes * step + i % width * kWidth;
      };
      if (!s_.unit_[role]) {
        for (int64_t g = 0; g < groups_; ++g, to += to_group, from += from_group) {
          const bool across = !k_unit_[role] && unit_steps(at, n);
          if (across)
            for (int64_t k = 0; k < kc_; ++k)
              for (int64_t i = 0; i < n; i += kRaw) {
                const int64_t lines = least(n - i, kRaw);
                turn(role, from + at[i] + k_at[k], lines);
                for (int64_t l = 0; l < lines; ++l)
                  put(role, B::load_unaligned(raw_ + l * kWidth), place(i + l, k), step);
              }
          else
            for (int64_t i = 0; i < n; ++i) {
              if (kPlanes == 1 && s_.whole_ && k_unit_[role]) {
                turn(role, from + at[i] + k_at[0], kc_, place(i, 0), step);
                continue;
              }
              gather(role, from + at[i]);
              for (int64_t k = 0; k < kc_; ++k)
                put(role, B::load_unaligned(raw_ + k * kWidth), place(i, k), step);
            }
        }
        return;
      }
      const Some<R> some(s_.lanes_ * kPlanes);
      for (int64_t j = 0; j < n; j += width) {
        R* panel = place(j, 0);
        const int64_t lines = least(width, n - j);
        for (int64_t k = 0; k < kc_; ++k, panel += kPlanes * step)
          for (int64_t i = 0; i < lines; ++i) {
            const R* p = reinterpret_cast<const R*>(from + k_at[k] + at[j + i]);
            if (s_.whole_)
              for (int64_t g = 0; g < groups_; ++g, p += kWidth)
                put(role, B::load_unaligned(p), panel + g * to_group + i * kWidth, step);
            else
              put(role, some.load(p), panel + i * kWidth, step);
          }
      }
    }
    void put(Role role, B x, R* to, int64_t step) const {
      if constexpr (kPlanes == 1) {
        x.store_aligned(to);
        return;
      }
      const bool conj = role == kA ? s_.x_.conj_a : s_.x_.conj_b;
      if (role == kA) {
        first_of_pairs<R>(x).store_aligned(to);
        (second_of_pairs<R>(x) ^ (conj ? odd_sign_ : even_sign_)).store_aligned(to + step);
      } else {
        const B y = conj ? x ^ odd_sign_ : x;
        y.store_aligned(to);
        swapped_pairs<R>(y).store_aligned(to + step);
      }
    }
    // raw_[i][lane] from neighbours `line`, line + 1, ...; lanes beyond are zero.
    void turn(Role role, const T* line, int64_t n) {
      for (int64_t i = 0; i < n * kWidth && !s_.whole_; ++i) raw_[i] = R(0);
      turn(role, line, n, raw_, kWidth);
    }
    void turn(Role role, const T* line, int64_t n, R* to, int64_t step) const {
      find_transpose(sizeof(T))(reinterpret_cast<char*>(to), step * int64_t(sizeof(R)),
                                reinterpret_cast<const char*>(line), s_.bytes_[role], s_.lanes_, n);
    }
    // Runs of whole pieces of kPiece elements.
    template <int64_t kPiece>
    void copy_runs(const T* line, const int64_t* k_at, const int64_t* lane_at, T* to) const {
      const int64_t lanes = s_.lanes_, run = s_.batches_, kc = kc_;
      for (int64_t k = 0; k < kc; ++k, to += kMost)
        for (int64_t l = 0; l < lanes; l += run) {
          const T* const p = line + k_at[k] + lane_at[l];
          for (int64_t i = 0; i < run; i += kPiece)
            __builtin_memcpy(to + l + i, p + i, sizeof(T) * kPiece);
        }
    }
    // raw_[k][lane] of a line whose lanes are no neighbours.
    void gather(Role role, const T* line) {
      const int64_t *const k_at = k_at_[role], *const lane_at = s_.at_[role];
      if (s_.x_.batch.step(role) == 1) {  // but runs of them are
        for (int64_t i = 0; i < kc_ * kWidth && !s_.whole_; ++i) raw_[i] = R(0);
        if (s_.batches_ * int64_t(sizeof(T)) % 16 == 0)
          copy_runs<16 / sizeof(T)>(line, k_at, lane_at, reinterpret_cast<T*>(raw_));
        else
          copy_runs<1>(line, k_at, lane_at, reinterpret_cast<T*>(raw_));
        return;
      }
      if (k_unit_[role]) {
        turn(role, line + k_at[0], kc_);
        return;
      }
      T* const raw = reinterpret_cast<T*>(raw_);
      for (int64_t k = 0; k < kc_; ++k)
        for (int64_t l = 0; l < kMost; ++l)
          raw[k * kMost + l] = l < s_.lanes_ ? line[k_at[k] + lane_at[l]] : T(0);
    }

    // out = alpha sum + beta out for the first block of k, out += alpha sum for the others, and
    // then the bias, if there is one.
    void finish(const R* sum, int64_t i, int64_t j, int64_t g) {
      T* const to = out_ + line_[0][kOut][i] + line_[1][kOut][j] + g * group_step(kOut);
      const T* const bias =
          last_ && bias_ ? bias_ + line_[0][kBias][i] + line_[1][kBias][j] + g * group_step(kBias)
                         : nullptr;
      const c128 one(1), zero(0);
      const bool old = !first_ || !(s_.o_.beta == zero);
      if (s_.unit_[kOut] && !bias && (kPlanes == 1 || (s_.o_.alpha == one && (!first_ || !old)))) {
        const Some<R> some(s_.lanes_ * kPlanes);
        R* const at = reinterpret_cast<R*>(to);
        B y = B(R(s_.o_.alpha.re)) * B::load_unaligned(sum);
        if (old) y = y + B(first_ ? R(s_.o_.beta.re) : R(1)) * some.load(at);
        some.store(at, y);
        return;
      }
      const T alpha = factor(s_.o_.alpha), beta = factor(s_.o_.beta);
      const T* const sums = reinterpret_cast<const T*>(sum);
      for (int64_t l = 0; l < s_.lanes_; ++l) {
        T& e = to[s_.at_[kOut][l]];
        T y = times(alpha, sums[l]);
        if (old) y = y + (first_ ? times(beta, e) : e);
        if (bias) y = y + bias[s_.at_[kBias][l]];
        e = y;
      }
    }
    static T factor(c128 x) {
      if constexpr (kPlanes == 2)
        return T(x);
      else
        return T(x.re);
    }
    // Without turning 1 * inf into NaN.
    static T times(T factor, T x) {
      if constexpr (kPlanes == 2)
        return factor.im == R(0) ? T{factor.re * x.re, factor.re * x.im} : factor * x;
      else
        return factor * x;
    }

    const SideBySide& s_;
    R *pack_a_ = nullptr, *pack_b_ = nullptr, *raw_ = nullptr;
    int64_t* k_at_[2];
    const int64_t* line_[2][kRoles];
    bool k_unit_[2], first_ = true, last_ = true;
    int64_t kc_ = 0, loaded_ = -1, groups_ = 1;
    const B even_sign_ = signs<R>(true, false), odd_sign_ = signs<R>(false, true);
    T* out_ = nullptr;
    const T* bias_ = nullptr;
  };

  gd_device* d_;
  const Contraction& x_;
  const Operands& o_;
  const int64_t start_, groups_, batches_, lanes_, m_, n_, block_;
  Axes n_axes_;
  int64_t at_[kRoles][kMost], bytes_[kRoles][kMost];  // of lanes
  bool unit_[kRoles], whole_, direct_a_, direct_b_, plain_;
  int64_t rows_, columns_, at_once_, columns_at_once_, rows_at_once_;
};

}  // namespace gradus::cpu
