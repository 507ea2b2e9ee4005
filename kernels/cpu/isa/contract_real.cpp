// contract for f32 and f64, and for f16 and bf16 through f32: the sum-product algebra with tiles of
// fused multiply-adds. k is cut in blocks of kKc; an element of out is, for each block upwards, one
// tile sum, so its bits depend on the k axes alone. Operands are read where they lie as long as
// that is quick, else packed panel by panel (Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication", ACM TOMS 34, 2008; BLIS).
#include "kernels/cpu/isa/batch_engine.hpp"
#include "kernels/cpu/isa/pack.hpp"

#include <string.h>

namespace gradus::cpu {
namespace {

// Rows of a tile of two vectors of columns: with a line of b and one broadcast they fill the
// registers. kRows1: of one vector, for small products.
#if defined(__AVX512BW__)
constexpr int64_t kRows = 14, kRows1 = 14;
#elif defined(__AVX2__)
constexpr int64_t kRows = 6, kRows1 = 8;
#elif defined(__SSE2__)
constexpr int64_t kRows = 4, kRows1 = 8;
#else
constexpr int64_t kRows = 8, kRows1 = 8;
#endif
constexpr int64_t kVectors = 2;
constexpr int64_t kL1 = 40 << 10, kL2 = 256 << 10;  // bytes of packed panels held close
constexpr int64_t kSerial = 1 << 19;                // multiplications not worth threads
constexpr int64_t kWideN = 16;                      // panels of columns of one task, at most

// In is what a and b hold, R what is added up and what out holds.
template <class In, class R>
class Matmul {
 public:
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kNr = kVectors * kWidth, kKc = kBlock<R>;
  static constexpr bool kSame = sizeof(In) == sizeof(R);

  Matmul(gd_device* d, const Contraction& x, const Operands& o)
      : d_(d), x_(x), alpha_(R(o.alpha.re)), beta_(R(o.beta.re)) {}

  // Blocks and ways for x, whose columns are n.
  static void plan(Contraction& x) {
    const int64_t m = x.m.count, n = x.n.count, k = x.k.count, bytes = int64_t(sizeof(R));
    x.rows[0] = panels(m, panels(m, kRows1));
    x.rows[1] = panels(m, panels(m, kRows));
    x.flat = x.m.even() && x.n.even() && x.n.unit(kOut);
    const bool even = kSame && x.m.even() && x.n.even() && x.k.even();
    x.direct_a = even && (m * k * bytes <= kL1 || n <= 2 * kNr);
    x.direct_b = even && x.n.unit(kB) && (k * n * bytes <= kL1 || m <= 2 * kRows);
    if (kSame && even) x.small = plan_element(x);
  }

  // A batch element as a small product.
  static bool plan_element(Contraction& x) {
    SmallProduct p;
    p.m = x.m.count;
    p.n = x.n.count;
    p.k = x.k.count;
    p.a_m = x.m.step(kA);
    p.a_k = x.k.step(kA);
    p.b_k = x.k.step(kB);
    p.b_n = x.n.step(kB);
    p.out_m = x.m.step(kOut);
    p.out_n = x.n.step(kOut);
    p.bias_m = x.m.step(kBias);
    p.bias_n = x.n.step(kBias);
    const bool small = plan_small(p, x.dtype);
    x.product = p;
    return small;
  }

  // Addresses of a batch element; GD_OK or GD_OOM.
  gd_status run(const In* a, const In* b, R* out, const R* bias) {
    a_ = a;
    b_ = b;
    out_ = out;
    bias_ = bias;
    m_ = x_.m.count;
    n_ = x_.n.count;
    k_ = x_.k.count;
    rows_ = x_.rows[1];
    m_panels_ = panels(m_, rows_);
    n_panels_ = panels(n_, kNr);
    const int64_t kc = least(k_, kKc);
    a_unit_ = x_.k.even() && x_.k.unit(kA) && kSame;
    a_line_ = a_unit_ ? (kc + 15) / 16 * 16 + 16 : 1;
    a_step_ = a_unit_ ? rows_ * a_line_ : rows_ * kc + kWidth;
    b_step_ = kc * kNr + kWidth;
    const int64_t a_most = x_.direct_a ? 0 : least(m_panels_, kPanelsM) * a_step_,
                  b_most = x_.direct_b ? 0 : least(n_panels_, kPanelsN) * b_step_;
    constexpr int64_t kSmall = 4096 / int64_t(sizeof(R)) * 4;
    alignas(64) R small[kSmall];
    if (a_most + b_most <= kSmall) {
      pack_a_ = small;
      pack_b_ = small + a_most;
    } else {
      pack_a_ = static_cast<R*>(d_->scratch(kScratchA, size_t(a_most) * sizeof(R)));
      pack_b_ = static_cast<R*>(d_->scratch(kScratchB, size_t(b_most) * sizeof(R)));
      if ((!pack_a_ && a_most > 0) || (!pack_b_ && b_most > 0)) return GD_OOM;
    }
    for (int64_t jp = 0; jp < n_panels_; jp += kPanelsN) {
      const int64_t np = least(n_panels_ - jp, kPanelsN);
      k0_ = 0;
      do {
        kc_ = least(k_ - k0_, kKc);
        if (!x_.direct_a) x_.k.offsets(kA, k0_, kc_, k_at_[0]);
        if (!x_.direct_b) x_.k.offsets(kB, k0_, kc_, k_at_[1]);
        for (int64_t ip = 0; ip < m_panels_; ip += kPanelsM) {
          const int64_t mp = least(m_panels_ - ip, kPanelsM);
          pack(ip, x_.direct_a ? 0 : mp, jp, x_.direct_b || ip > 0 ? 0 : np);
          multiply(ip, mp, jp, np);
        }
        k0_ += kKc;
      } while (k0_ < k_);
    }
    return GD_OK;
  }

 private:
  template <class F>
  void tasks(int64_t n, int64_t work, F&& f) {
    if (work < kSerial)
      for (int64_t i = 0; i < n; ++i) f(i);
    else
      parallel(d_, n, f);
  }

  void pack(int64_t ip, int64_t mp, int64_t jp, int64_t np) {
    if (mp + np == 0) return;
    const bool unit[2] = {unit_steps(k_at_[0], kc_), unit_steps(k_at_[1], kc_)};
    constexpr int64_t each = 4;  // panels of one task
    const int64_t ta = panels(mp, each), tb = panels(np, each);
    tasks(ta + tb, (mp * rows_ + np * kNr) * kc_ * 4, [&](int64_t t) {
      if (t < ta)
        for (int64_t p = t * each; p < least(mp, (t + 1) * each); ++p)
          pack_a(ip + p, pack_a_ + p * a_step_);
      else
        for (int64_t p = (t - ta) * each; p < least(np, (t - ta + 1) * each); ++p)
          pack_panel(b_, x_.n, kB, (jp + p) * kNr, least(n_ - (jp + p) * kNr, kNr), kNr, k_at_[1],
                     unit[1], x_.conj_b, pack_b_ + p * b_step_);
    });
  }

  void pack_a(int64_t p, R* to) {
    const int64_t row = p * rows_, rows = least(m_ - row, rows_);
    if constexpr (kSame)
      if (a_unit_) {  // rows stay rows
        int64_t at[kRows];
        x_.m.offsets(kA, row, rows, at);
        for (int64_t i = 0; i < rows; ++i) copy_run(a_ + at[i] + k0_, kc_, to + i * a_line_);
        return;
      }
    pack_panel(a_, x_.m, kA, row, rows, rows_, k_at_[0], unit_steps(k_at_[0], kc_), x_.conj_a, to);
  }

  void pack_panel(const In* from, const Axes& axes, int role, int64_t start, int64_t n,
                  int64_t width, const int64_t* k_at, bool k_unit, bool brain, R* to) {
    int64_t at[kNr > kRows ? kNr : kRows];
    axes.offsets(role, start, n, at);
    if constexpr (kSame)
      pack_lines(from, at, n, width, k_at, kc_, k_unit, to);
    else
      for (int64_t k = 0; k < kc_; ++k)
        for (int64_t i = 0; i < n; ++i) to[k * width + i] = widen(from[at[i] + k_at[k]], brain);
  }

  void multiply(int64_t ip, int64_t mp, int64_t jp, int64_t np) {
    // Columns of a task: what the L2 cache holds of b, so that out is written along its rows.
    const int64_t held = kL2 / (b_step_ * int64_t(sizeof(R))),
                  each = held < 4 ? 4 : least(held, kWideN), tn = panels(np, each);
    int64_t high = kTaskPanelsM;  // panels of rows of a task: there should be some tasks
    while (high > 1 && panels(mp, high) * tn < 16) high /= 2;
    const int64_t tm = panels(mp, high);
    tasks(tm * tn, mp * rows_ * np * kNr * kc_, [&](int64_t t) {
      const int64_t i0 = t % tm * high, j0 = t / tm * each;
      corner(ip, i0, least(mp, i0 + high), jp, j0, least(np, j0 + each));
    });
  }

  // Offsets of a block of rows or columns in out and bias.
  static constexpr int64_t kPlaces =
      kTaskPanelsM * kRows > kWideN* kNr ? kTaskPanelsM* kRows : kWideN* kNr;
  struct Places {
    int64_t out[kPlaces], bias[kPlaces];
  };

  void corner(int64_t ip, int64_t i0, int64_t i1, int64_t jp, int64_t j0, int64_t j1) {
    const bool first = k0_ == 0;
    // Sums that need nothing more go to out at once.
    const bool plain = x_.flat && first && alpha_ == R(1) && beta_ == R(0) && !bias_;
    Places rows, columns;
    const int64_t row0 = (ip + i0) * rows_, column0 = (jp + j0) * kNr;
    if (!plain) {
      const int64_t nr = least(m_ - row0, (i1 - i0) * rows_),
                    nc = least(n_ - column0, (j1 - j0) * kNr);
      x_.m.offsets(kOut, row0, nr, rows.out);
      x_.n.offsets(kOut, column0, nc, columns.out);
      if (bias_) {
        x_.m.offsets(kBias, row0, nr, rows.bias);
        x_.n.offsets(kBias, column0, nc, columns.bias);
      }
    }
    alignas(64) R sums[kRows * kNr];
    constexpr int64_t bytes = int64_t(sizeof(R));
    const int64_t a_m = x_.m.step(kA), a_k = x_.k.step(kA), b_n = x_.n.step(kB),
                  b_k = x_.k.step(kB), c_row = x_.m.step(kOut);
    TileCall t;
    t.k = kc_;
    t.a_row = (x_.direct_a ? a_m : a_line_) * bytes;
    t.a_k = (x_.direct_a ? a_k : a_unit_ ? 1 : rows_) * bytes;
    t.b_k = (x_.direct_b ? b_k : kNr) * bytes;
    t.b_ahead = x_.direct_b ? kNr * bytes : 8 * kNr * bytes;
    t.c = sums;
    t.c_row = plain ? c_row : kNr;
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t row = (ip + i) * rows_, nr = least(m_ - row, rows_);
      t.a = reinterpret_cast<const char*>(x_.direct_a ? direct(a_) + row * a_m + k0_ * a_k
                                                      : pack_a_ + i * a_step_);
      for (int64_t j = j0; j < j1; ++j) {
        const int64_t column = (jp + j) * kNr, nc = least(n_ - column, kNr), v = panels(nc, kWidth);
        t.last = nc - (v - 1) * kWidth;
        t.b = reinterpret_cast<const char*>(x_.direct_b ? direct(b_) + column * b_n + k0_ * b_k
                                                        : pack_b_ + j * b_step_);
        if (plain) t.c = out_ + row * c_row + column;
        find_tile<R, int(kRows1), int(kRows)>(nr, v, t.last < kWidth)(t);
        if (!plain) finish(sums, first, rows, row - row0, nr, columns, column - column0, nc);
      }
    }
  }
  static const R* direct(const In* p) { return reinterpret_cast<const R*>(p); }

  // out = alpha sum + beta out + bias for the first block of k, out += alpha sum for the others.
  void finish(const R* sums, bool first, const Places& rows, int64_t r, int64_t nr,
              const Places& columns, int64_t c, int64_t nc) {
    const bool dense = unit_steps(columns.out + c, nc);
    const R* const bias = first ? bias_ : nullptr;
    const bool old = !first || beta_ != R(0);
    const R scale = first ? beta_ : R(1);
    alignas(64) R given[kNr];
    for (int64_t i = 0; i < nr; ++i, sums += kNr) {
      R* const row = out_ + rows.out[r + i];
      if (bias)
        for (int64_t j = 0; j < nc; ++j) given[j] = bias[rows.bias[r + i] + columns.bias[c + j]];
      if (!dense) {
        for (int64_t j = 0; j < nc; ++j) {
          R& to = row[columns.out[c + j]];
          R y = alpha_ * sums[j];
          if (old) y = y + scale * to;
          to = bias ? y + given[j] : y;
        }
        continue;
      }
      finish_row(row + columns.out[c], sums, nc, alpha_, old, scale, bias ? given : nullptr);
    }
  }
  // The same where a row lies in one piece: out = alpha sum (+ scale out) (+ bias).
  static void finish_row(R* to, const R* sums, int64_t nc, R alpha, bool old, R scale,
                         const R* bias) {
    for (int64_t j = 0; j < nc; j += kWidth) {
      const Some<R> some(least(nc - j, kWidth));
      const bool whole = nc - j >= kWidth;
      B y = B(alpha) * B::load_aligned(sums + j);
      if (old) y = y + B(scale) * (whole ? B::load_unaligned(to + j) : some.load(to + j));
      if (bias) y = y + B::load_aligned(bias + j);
      if (whole)
        y.store_unaligned(to + j);
      else
        some.store(to + j, y);
    }
  }

  gd_device* d_;
  const Contraction& x_;
  const R alpha_, beta_;
  R* out_ = nullptr;
  const R* bias_ = nullptr;
  const In *a_ = nullptr, *b_ = nullptr;
  R *pack_a_ = nullptr, *pack_b_ = nullptr;
  int64_t m_ = 0, n_ = 0, k_ = 0, rows_ = 1, m_panels_ = 0, n_panels_ = 0;
  int64_t a_line_ = 0, a_step_ = 0, b_step_ = 0, k0_ = 0, kc_ = 0;
  bool a_unit_ = false;
  int64_t k_at_[2][kKc];
};

// Multiplications of vectors, and what packing and scattering cost in their place, where columns
// run along n.
template <class T>
double cost(const Contraction& x, const Axes& m, const Axes& n, Role b) {
  constexpr int64_t kWidth = int64_t(Batch<T>::size);
  const double rows = double(m.count), columns = double(n.count), k = double(x.k.count);
  double c = rows * double(panels(n.count, kWidth)) * k;
  if (!n.unit(b)) c += columns * k * (x.k.unit(b) ? 0.5 : 1);
  if (!n.unit(kOut)) c += rows * columns;
  return c;
}
template <class In, class R>
void orient_and_plan(Contraction& x) {
  const bool whole = x.n.unit(kB) && x.n.unit(kOut) && x.n.count % int64_t(Batch<R>::size) == 0;
  if (!whole && cost<R>(x, x.n, x.m, kA) < cost<R>(x, x.m, x.n, kB)) x.swap();
  Matmul<In, R>::plan(x);
}

template <class T>
gd_status multiply_one(gd_device* d, const Contraction& x, const Operands& o, int64_t i) {
  using M = Matmul<T, T>;
  const T *a = o.start<const T>(kA) + x.batch.offset(kA, i),
          *b = o.start<const T>(kB) + x.batch.offset(kB, i),
          *bias = o.data[kBias] ? o.start<const T>(kBias) + x.batch.offset(kBias, i) : nullptr;
  T* const out = o.start<T>(kOut) + x.batch.offset(kOut, i);
  if (!x.small) return M(d, x, o).run(a, b, out, bias);
  Operands one = o;
  one.data[kA] = const_cast<T*>(x.product.swapped ? b : a);
  one.data[kB] = const_cast<T*>(x.product.swapped ? a : b);
  one.data[kOut] = out;
  one.data[kBias] = const_cast<T*>(bias);
  x.product.run(x.product, one);
  return GD_OK;
}
template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return for_batches(d, x, e, [&](int64_t i) { return multiply_one<T>(d, x, o, i); });
}

// Vectors of batch elements, and what is left over one by one.
template <class T>
gd_status multiply_side_by_side(gd_device* d, const Contraction& x, const Operands& o,
                                gd_error* e) {
  using E = BatchEngine<T, Matmul<T, T>::kKc>;
  const int64_t last = x.batch.size[x.batch.rank - 1], groups = last / E::kPlanes,
                lines = x.batch.count / last, rest = last - groups * E::kPlanes,
                work = x.m.count * x.n.count * (x.k.count + 1);
  const gd_status status =
      for_groups(d, lines * groups, work * E::kPlanes, e, [&](int64_t g) -> gd_status {
        const int64_t i = g / groups * last + g % groups * E::kPlanes;
        const typename E::Target target{
            o.start<T>(kOut) + x.batch.offset(kOut, i),
            o.data[kBias] ? o.start<const T>(kBias) + x.batch.offset(kBias, i) : nullptr,
            x.batch.step(kBias), T(o.alpha.re), T(o.beta.re)};
        return Gemm<E>(d, x, o, target, i).run();
      });
  if (status != GD_OK || rest == 0) return status;
  return for_groups(d, lines * rest, work, e, [&](int64_t r) {
    return multiply_one<T>(d, x, o, r / rest * last + groups * E::kPlanes + r % rest);
  });
}

// Are batch elements neighbours in a, b and out, enough of them for a vector?
template <class T>
bool side_by_side(const Contraction& x) {
  const Axes& batch = x.batch;
  return batch.rank > 0 && batch.unit(kA) && batch.unit(kB) && batch.unit(kOut) &&
         batch.size[batch.rank - 1] >= int64_t(Batch<T>::size);
}

// The sums stay in f32 until the one rounding at the end.
gd_status multiply_16_bit(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  const float alpha = float(o.alpha.re), beta = float(o.beta.re);
  const bool brain = x.dtype == GD_BF16;
  Operands sums = o;
  sums.alpha = c128(1);
  sums.beta = c128(0);
  return through_f32(
      d, x, o, e,
      [&](const Contraction& dense, const Operands&, float* sum, int64_t b) {
        return Matmul<uint16_t, float>(d, dense, sums)
            .run(o.start<const uint16_t>(kA) + x.batch.offset(kA, b),
                 o.start<const uint16_t>(kB) + x.batch.offset(kB, b), sum, nullptr);
      },
      [=](uint16_t& to, float sum, const uint16_t* bias) {
        float y = alpha * sum;
        if (beta != 0) y = y + beta * widen(to, brain);
        if (bias) y = y + widen(*bias, brain);
        to = narrow(y, brain);
      });
}

}  // namespace

void plan_real(Contraction& x) {
  if (x.dtype == GD_F64) {
    orient_and_plan<double, double>(x);
    x.run = side_by_side<double>(x) ? multiply_side_by_side<double> : multiply<double>;
  } else {
    const bool half = x.dtype != GD_F32;
    half ? orient_and_plan<uint16_t, float>(x) : orient_and_plan<float, float>(x);
    x.run = half                     ? multiply_16_bit
            : side_by_side<float>(x) ? multiply_side_by_side<float>
                                     : multiply<float>;
    x.conj_a = x.conj_b = x.dtype == GD_BF16;
  }
}

}  // namespace gradus::cpu
