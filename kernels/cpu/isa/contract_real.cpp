// contract for f32 and f64, and for f16 and bf16 through f32: the sum-product algebra with tiles of
// fused multiply-adds. k is cut in equal blocks of at most kKc; an element of out is, for each
// block upwards, one tile sum, so its bits depend on the k axes alone. Here: which operand gives
// rows and which columns, products so small that one walk over their tiles does it all, and
// batches.
#include "kernels/cpu/isa/contract_large.hpp"

namespace gradus::cpu {
namespace {

constexpr int64_t kL1 = 40 << 10;  // bytes of an operand that stays where it lies

// In is what a and b hold, R what is added up and what out holds.
template <class In, class R>
class Matmul {
 public:
  using B = Batch<R>;
  using Big = Large<In, R>;
  static constexpr int64_t kWidth = Big::kWidth, kNr = Big::kNr, kKc = Big::kKc;
  static constexpr bool kSame = Big::kSame;

  // Blocks and ways for x, whose columns are n.
  static void plan(Contraction& x) {
    const int64_t m = x.m.count, n = x.n.count, k = x.k.count, bytes = int64_t(sizeof(R));
    x.rows[0] = panels(m, panels(m, kRows1));
    x.rows[1] = panels(m, panels(m, kRows));
    x.flat = x.m.even() && x.n.even() && x.n.unit(kOut);
    const bool even = kSame && x.m.even() && x.n.even() && x.k.even();
    x.direct_a = even && (m * k * bytes <= kL1 || n <= 2 * kNr);
    x.direct_b = even && x.n.unit(kB) && (k * n * bytes <= kL1 || m <= 2 * kRows);
    x.small = x.flat && x.direct_a && x.direct_b && k <= kKc && m * n * k < kSerial;
  }

  // A small one, in one walk over its tiles.
  static void run_small(const Contraction& x, R alpha, R beta, const R* a, const R* b, R* out,
                        const R* bias) {
    constexpr int64_t bytes = int64_t(sizeof(R));
    const bool plain = alpha == R(1) && beta == R(0) && !bias;
    const int64_t m = x.m.count, n = x.n.count, a_m = x.m.step(kA), b_n = x.n.step(kB),
                  c_row = x.m.step(kOut);
    alignas(64) R sums[(kRows1 > 2 * kRows ? kRows1 : 2 * kRows) * kWidth];
    alignas(64) R given[kNr];
    TileCall t;
    t.k = x.k.count;
    t.a_row = a_m * bytes;
    t.a_k = x.k.step(kA) * bytes;
    t.b_k = t.b_ahead = x.k.step(kB) * bytes;
    t.c = sums;
    for (int64_t column = 0; column < n; column += kNr) {
      const int64_t nc = least(n - column, kNr), v = nc > kWidth ? 2 : 1, rows = x.rows[v - 1];
      t.last = nc - (v - 1) * kWidth;
      t.c_row = plain ? c_row : v * kWidth;
      t.b = reinterpret_cast<const char*>(b + column * b_n);
      const bool part = t.last < kWidth;
      TileFn tile = find_tile<R, int(kRows1), int(kRows)>(rows, v, part);
      for (int64_t row = 0; row < m; row += rows) {
        const int64_t nr = least(m - row, rows);
        if (nr < rows) tile = find_tile<R, int(kRows1), int(kRows)>(nr, v, part);
        t.a = reinterpret_cast<const char*>(a + row * a_m);
        R* const to = out + row * c_row + column;
        if (plain) t.c = to;
        tile(t);
        if (plain) continue;
        for (int64_t i = 0; i < nr; ++i) {
          if (bias) {
            const R* from = bias + (row + i) * x.m.step(kBias) + column * x.n.step(kBias);
            for (int64_t j = 0; j < nc; ++j) given[j] = from[j * x.n.step(kBias)];
          }
          finish_row(to + i * c_row, sums + i * t.c_row, nc, alpha, beta != R(0), beta,
                     bias ? given : nullptr);
        }
      }
    }
  }

 private:
  // A row that lies in one piece: out = alpha sum (+ scale out) (+ bias).
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
};

// Multiplications of vectors, and what packing and scattering cost in their place, where columns
// run along n.
template <class T>
double cost(const Contraction& x, const Axes& m, const Axes& n, Role a, Role b) {
  constexpr int64_t kWidth = int64_t(Batch<T>::size);
  const double rows = double(m.count), columns = double(n.count), k = double(x.k.count);
  auto beside = [](const Axes& axes, Role r) { return axes.rank == 0 || axes.has_neighbours(r); };
  double c = rows * double(panels(n.count, kWidth)) * k;
  c += columns * k * (n.unit(b) ? 0 : x.k.unit(b) || beside(n, b) ? 0.5 : 1.5);
  c += rows * k * (x.k.unit(a) || beside(m, a) ? 0 : 1);
  constexpr double kScatter = 4;
  if (!n.unit(kOut)) c += kScatter * rows * columns * double(panels(x.k.count, Large<T, T>::kKc));
  return c;
}
// The axes of rows in the order that packing likes, and whether boxes of columns are to be turned.
void order_lines(Contraction& x) {
  constexpr int64_t kOften = 2048;  // rows in use with so many columns had better follow out
  if (x.m.rank > 1 && !x.k.unit(kA) && x.n.count < kOften)
    x.m.move(x.m.neighbours(kA), x.m.rank - 1);
  const int last = x.n.rank - 1, beside = x.n.neighbours(kB);
  x.turned = last < 1 || x.k.unit(kB) || beside == last ? -1 : beside;
}
template <class In, class R>
void orient_and_plan(Contraction& x) {
  const bool whole = x.n.unit(kB) && x.n.unit(kOut) && x.n.count % int64_t(Batch<R>::size) == 0;
  if (!whole && cost<R>(x, x.n, x.m, kB, kA) < cost<R>(x, x.m, x.n, kA, kB)) x.swap();
  order_lines(x);
  Matmul<In, R>::plan(x);
}

template <class T>
gd_status multiply_one(gd_device* d, const Contraction& x, const Operands& o, int64_t i) {
  using M = Matmul<T, T>;
  const T *a = o.start<const T>(kA) + x.batch.offset(kA, i),
          *b = o.start<const T>(kB) + x.batch.offset(kB, i),
          *bias = o.data[kBias] ? o.start<const T>(kBias) + x.batch.offset(kBias, i) : nullptr;
  T* const out = o.start<T>(kOut) + x.batch.offset(kOut, i);
  if (!x.small) return Large<T, T>(d, x, o).run(a, b, out, bias);
  M::run_small(x, T(o.alpha.re), T(o.beta.re), a, b, out, bias);
  return GD_OK;
}
template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  if (x.small && x.batch.count == 1) return multiply_one<T>(d, x, o, 0);
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
        return Large<uint16_t, float>(d, dense, sums)
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
