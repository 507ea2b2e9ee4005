// contract for a small product of two matrices in f32 and f64. Such a call is known by one look at
// its axes, and there is nothing to plan: one walk over tiles. Sums, and so bits, are those of
// contract_real.cpp.
#include "kernels/cpu/isa/contraction.hpp"
#include "kernels/cpu/isa/pack.hpp"

namespace gradus::cpu {
namespace {

// Rows of a tile of one and of two vectors: a tile of eight needs no more registers for addresses
// than there are, and four sums in a row already hide what a multiply-add takes.
#if defined(__AVX512BW__) || !defined(__SSE2__)
constexpr int64_t kRows[] = {8, 8};
#elif defined(__AVX2__)
constexpr int64_t kRows[] = {8, 6};
#else
constexpr int64_t kRows[] = {8, 4};
#endif
constexpr int64_t kMostWork = 1 << 19, kMostSize = 1 << 12;
constexpr int64_t kPanelBytes = 16 << 10, kNearBytes = 40 << 10;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t even_rows(int64_t m, int64_t most) {
  if (m <= most) return m;
  const uint32_t tiles = uint32_t(m + most - 1) / uint32_t(most);
  return int64_t((uint32_t(m) + tiles - 1) / tiles);
}

template <class R>
struct Small {
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kNr = 2 * kWidth, kBytes = int64_t(sizeof(R));

  static bool plan(SmallProduct& x) {
    if (x.k > kBlock<R> || x.m * x.n * x.k >= kMostWork) return false;
    const int64_t b_bytes = x.k * x.n * kBytes;
    if (x.m * x.k * kBytes > kNearBytes && x.n > 2 * kNr) return false;
    x.pack = x.b_n != 1 || (b_bytes > kPanelBytes && x.m >= 4 * kRows[1]);
    if (x.pack && x.k * kNr * kBytes > kPanelBytes) return false;
    if (!x.pack && b_bytes > kNearBytes && x.m > 4 * kRows[1]) return false;
    for (int v = 0; v < 2; ++v) x.rows[v] = even_rows(x.m, kRows[v]);
    x.run = run;
    return true;
  }

  static void run(const SmallProduct& x, const Operands& o) {
    alignas(64) R panel[kPanelBytes / kBytes + kWidth];
    alignas(64) R sums[8 * kNr];
    const R *const a = o.start<const R>(kA), *const b = o.start<const R>(kB),
                   *const bias = o.start<const R>(kBias);
    R* const out = o.start<R>(kOut);
    const R alpha = R(o.alpha.re), beta = R(o.beta.re);
    const bool plain = alpha == R(1) && beta == R(0) && !bias;
    TileCall t;
    t.k = x.k;
    t.a_row = x.a_m * kBytes;
    t.a_k = x.a_k * kBytes;
    t.b_k = t.b_ahead = x.b_k * kBytes;
    t.c = sums;
    for (int64_t column = 0; column < x.n; column += kNr) {
      const int64_t nc = least(x.n - column, kNr), v = nc > kWidth ? 2 : 1, rows = x.rows[v - 1];
      t.last = nc - (v - 1) * kWidth;
      t.c_row = plain ? x.out_m : v * kWidth;
      t.b = reinterpret_cast<const char*>(b + column * x.b_n);
      if (x.pack) {
        bring(x, b + column * x.b_n, nc, v * kWidth, panel);
        t.b = reinterpret_cast<const char*>(panel);
        t.b_k = t.b_ahead = v * kWidth * kBytes;
      }
      const bool part = t.last < kWidth;
      for (int64_t row = 0; row < x.m; row += rows) {
        const int64_t nr = least(x.m - row, rows);
        t.a = reinterpret_cast<const char*>(a + row * x.a_m);
        R* const to = out + row * x.out_m + column;
        if (plain) t.c = to;
        find_tile<R, int(kRows[0]), int(kRows[1])>(nr, v, part)(t);
        for (int64_t i = 0; i < nr && !plain; ++i)
          finish(to + i * x.out_m, sums + i * t.c_row, nc, alpha, beta,
                 bias ? bias + (row + i) * x.bias_m + column * x.bias_n : nullptr, x.bias_n);
      }
    }
  }

  // nc columns of b, for each k side by side.
  static void bring(const SmallProduct& x, const R* from, int64_t nc, int64_t width, R* to) {
    if (x.b_n == 1) {
      for (int64_t k = 0; k < x.k; ++k) copy_run(from + k * x.b_k, nc, to + k * width);
      return;
    }
    int64_t at[kNr], k_at[kBlock<R>];
    for (int64_t j = 0; j < nc; ++j) at[j] = j * x.b_n;
    for (int64_t k = 0; k < x.k; ++k) k_at[k] = k * x.b_k;
    pack_lines(from, at, nc, width, k_at, x.k, x.b_k == 1, to);
  }

  // A row of out = alpha sum (+ beta out) (+ bias).
  static void finish(R* to, const R* sums, int64_t nc, R alpha, R beta, const R* bias,
                     int64_t bias_n) {
    for (int64_t j = 0; j < nc; j += kWidth) {
      const Some<R> some(least(nc - j, kWidth));
      const bool whole = nc - j >= kWidth;
      B y = B(alpha) * B::load_aligned(sums + j);
      if (beta != R(0)) y = y + B(beta) * (whole ? B::load_unaligned(to + j) : some.load(to + j));
      if (bias) {
        alignas(64) R given[kWidth] = {};
        for (int64_t i = 0; i < kWidth && j + i < nc && bias_n != 1; ++i)
          given[i] = bias[(j + i) * bias_n];
        y = y + (bias_n != 1 ? B::load_aligned(given)
                 : whole     ? B::load_unaligned(bias + j)
                             : some.load(bias + j));
      }
      if (whole)
        y.store_unaligned(to + j);
      else
        some.store(to + j, y);
    }
  }
};

}  // namespace

bool plan_small(SmallProduct& x, int32_t dtype) {
  if (x.m < 2 || x.n < 2 || x.m > kMostSize || x.n > kMostSize || x.k > kMostSize) return false;
  if (x.out_n != 1) {
    if (x.out_m != 1) return false;
    std::swap(x.m, x.n);
    std::swap(x.a_k, x.b_k);
    std::swap(x.a_m, x.b_n);
    std::swap(x.out_m, x.out_n);
    std::swap(x.bias_m, x.bias_n);
    x.swapped = true;
  }
  return dtype == GD_F32 ? Small<float>::plan(x) : Small<double>::plan(x);
}

bool small_product(const gd_call* c, SmallProduct& x) {
  if (c->struct_size < sizeof(gd_call) || (c->n_in != 2 && c->n_in != 3) || c->n_out != 1 ||
      c->n_doubles < 4 || c->n_ints < 4 || !c->in || !c->out || !c->doubles || !c->ints)
    return false;
  const gd_view &a = c->in[0], &b = c->in[1], &out = c->out[0];
  const gd_view* const bias = c->n_in == 3 && c->in[2].data ? &c->in[2] : nullptr;
  const int64_t n_out = c->ints[0];
  if ((a.dtype != GD_F32 && a.dtype != GD_F64) || b.dtype != a.dtype || out.dtype != a.dtype ||
      a.rank > 3 || b.rank != a.rank || n_out < 0 || n_out > a.rank || out.rank != n_out ||
      c->ints[1] != GD_STANDARD || c->doubles[1] != 0 || c->doubles[3] != 0 || !a.data || !b.data ||
      !out.data || (bias && (bias->dtype != a.dtype || bias->rank != n_out)))
    return false;
  for (int d = 0; d < a.rank; ++d) {
    const int64_t size = a.sizes[d];
    if (b.sizes[d] != size || size < 1) return false;
    if (d >= n_out) {
      if (size == 1) continue;
      if (x.k != 1) return false;
      x.k = size;
      x.a_k = a.strides[d];
      x.b_k = b.strides[d];
      continue;
    }
    if (out.sizes[d] != size || (bias && bias->sizes[d] != size)) return false;
    if (size == 1) continue;
    const int64_t to = out.strides[d], given = bias ? bias->strides[d] : 0;
    if (to == 0) return false;
    if (b.strides[d] == 0) {
      if (x.m != 1) return false;
      x.m = size;
      x.a_m = a.strides[d];
      x.out_m = to;
      x.bias_m = given;
    } else {
      if (x.n != 1 || a.strides[d] != 0) return false;
      x.n = size;
      x.b_n = b.strides[d];
      x.out_n = to;
      x.bias_n = given;
    }
  }
  return plan_small(x, a.dtype);
}

}  // namespace gradus::cpu
