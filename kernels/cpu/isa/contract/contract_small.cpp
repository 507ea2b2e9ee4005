// contract for a small product of two matrices in f32 and f64. Such a call is known by one look at
// its axes, and there is nothing to plan: one walk over tiles. Sums, and so bits, are those of
// contract_real.cpp.
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/contract/pack.hpp"

namespace gradus::inline v1::cpu {
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
constexpr int64_t kMostSize = 1 << 12, kFewRows = 5;
// A matrix is read where it lies while the second cache holds it and its rows don't meet in the
// first.
constexpr int64_t kPanelBytes = 20 << 10, kNearBytes = 256 << 10, kNearRows = 96 << 10,
                  kPanelsBytes = 64 << 10, kColumnsBytes = 64000;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
RowTiles even_tiles(int64_t m, int64_t most) {
  if (m <= most) return {m, 1, 0};
  const int64_t tiles = int64_t(uint32_t(m + most - 1) / uint32_t(most)),
                rows = int64_t(uint32_t(m + tiles - 1) / uint32_t(tiles)), low = tiles * rows - m;
  return {rows, tiles - low, low};
}

#if defined(__AVX512BW__)
// A tile of M rows of half a vector: two of its multiply-adds take the time of one of a whole one.
template <class T>
struct HalfVector {
  static constexpr int64_t kWidth = 32 / int64_t(sizeof(T));

  template <size_t... I>
  static void tile_rows(const TileCall& t, std::index_sequence<I...>) {
    constexpr int kRows = int(sizeof...(I));
    const Some<T> some(t.last);
    const OddSteps<kRows> rows(t.a_row);
    const char *a = t.a, *b = t.b;
    const int64_t a_k = t.a_k, b_k = t.b_k;
    const auto at = [](const char* p) { return reinterpret_cast<const T*>(p); };
    const T* const bias = static_cast<const T*>(t.bias);
    const Batch<T> more = bias ? some.load(bias) : Batch<T>(T(0));
    const auto put = [&](int i, Batch<T> x) {
      T* const to = static_cast<T*>(t.c) + i * t.c_row;
      if (t.add) x = x + some.load(to);
      some.store(to, bias ? x + more : x);
    };
    if constexpr (sizeof(T) == 4) {
      __m256 sum[kRows] = {};
      for (int64_t k = t.k; k > 0; --k, a += a_k, b += b_k) {
        const __m256 line = _mm512_castps512_ps256(some.load(at(b)));
        ((sum[I] = _mm256_fmadd_ps(_mm256_broadcast_ss(at(a + rows[I])), line, sum[I])), ...);
      }
      (put(I, _mm512_castps256_ps512(sum[I])), ...);
    } else {
      __m256d sum[kRows] = {};
      for (int64_t k = t.k; k > 0; --k, a += a_k, b += b_k) {
        const __m256d line = _mm512_castpd512_pd256(some.load(at(b)));
        ((sum[I] = _mm256_fmadd_pd(_mm256_broadcast_sd(at(a + rows[I])), line, sum[I])), ...);
      }
      (put(I, _mm512_castpd256_pd512(sum[I])), ...);
    }
  }
  template <int M>
  static void tile(const TileCall& t) {
    tile_rows(t, std::make_index_sequence<size_t(M)>());
  }
  template <size_t... M>
  static TileFn find(int64_t rows, std::index_sequence<M...>) {
    static constexpr TileFn all[] = {tile<int(M) + 1>...};
    return all[rows - 1];
  }
  static TileFn find(int64_t rows) { return find(rows, std::make_index_sequence<kRows[0]>()); }
};
#else
template <class T>
struct HalfVector {
  static constexpr int64_t kWidth = 0;  // there is none
  static TileFn find(int64_t) { return nullptr; }
};
#endif

template <class R>
struct Small {
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kNr = 2 * kWidth, kBytes = int64_t(sizeof(R));

  static bool plan(SmallProduct& x) {
    if (x.k > kBlock<R> || x.m * x.n * x.k >= x.most_work) return false;
    const int64_t b_bytes = x.k * x.n * kBytes;
    if (x.m * x.k * kBytes > kNearBytes && x.n > 2 * kNr) return false;
    x.pack = x.b_n != 1;
    if (x.pack && x.k * kNr * kBytes > kPanelBytes) return false;
    const int64_t near = x.b_k * kBytes % 2048 == 0 ? kNearRows : kNearBytes;
    if (!x.pack && b_bytes > near && x.m > 4 * kRows[1]) return false;
    for (int v = 0; v < 2; ++v) x.tiles[v] = even_tiles(x.m, kRows[v]);
    x.run = reads_many_columns(x) ? run_beside_columns : run;
    return true;
  }
  // Each step of k reads a line or two of a, and of b vectors that lie in two lines each: together
  // more than the first cache holds, and of enough rows to make up for a copy of b.
  static bool reads_many_columns(const SmallProduct& x) {
    return x.a_m == 1 && x.a_k > 1 && x.b_n == 1 && x.b_k * kBytes % 64 != 0 && x.n > kNr &&
           x.m * x.k * kBytes >= kColumnsBytes && x.k * kNr * kBytes <= kPanelBytes;
  }

  // Columns of one walk down the rows: at most two vectors.
  struct Block {
    int64_t n, vectors;
    RowTiles down;
    bool near;  // so many rows that most of them find b in the first cache, and no tile is low
    Block(const SmallProduct& x, int64_t left)
        : n(least(left, kNr)),
          vectors(n > kWidth ? 2 : 1),
          down(x.tiles[vectors - 1]),
          near(x.m > kFewRows) {}
    int64_t last() const { return n - (vectors - 1) * kWidth; }
    TileFn tile(int64_t of_rows) const {
      if (n <= HalfVector<R>::kWidth) return HalfVector<R>::find(of_rows);
      const bool part = last() < kWidth;
      if constexpr (kWidth * kBytes > 16)
        if (near) return find_tile<R, int(kRows[0]), int(kRows[1]), true>(of_rows, vectors, part);
      return find_tile<R, int(kRows[0]), int(kRows[1])>(of_rows, vectors, part);
    }
  };
  static const char* bytes(const R* p) { return reinterpret_cast<const char*>(p); }
  // All rows of a block, from t.a to t.c.
  static void walk(const SmallProduct& x, const Block& block, TileCall& t) {
    const auto walk_some = [&](int64_t tiles, int64_t rows) {
      for (const TileFn tile = block.tile(rows); tiles > 0; --tiles) {
        tile(t);
        t.a += rows * t.a_row;
        t.c = static_cast<R*>(t.c) + rows * x.out_m;
      }
    };
    walk_some(block.down.tall, block.down.rows);
    if (block.down.low > 0) walk_some(block.down.low, block.down.rows - 1);
  }

  // What the tiles write at once: sums, also of what is there, and a bias that is one line.
  static bool is_plain(const SmallProduct& x, const Operands& o) {
    return o.alpha.re == 1 && (o.beta.re == 0 || o.beta.re == 1) &&
           (!o.data[kBias] || (x.bias_m == 0 && x.bias_n == 1));
  }

  static void run(const SmallProduct& x, const Operands& o) {
    const bool plain = is_plain(x, o);
    if (x.pack || !plain) return run_by_buffers(x, o, plain);
    const R *const a = o.start<const R>(kA), *b = o.start<const R>(kB),
                   *bias = o.start<const R>(kBias);
    R* out = o.start<R>(kOut);
    const int64_t b_k = x.b_k * kBytes;
    TileCall t{nullptr, nullptr, x.a_m * kBytes, x.a_k * kBytes, b_k,
               b_k,     x.k,     nullptr,        x.out_m,        0};
    t.add = o.beta.re == 1;
    for (int64_t left = x.n; left > 0;) {
      const Block block(x, left);
      t.a = bytes(a);
      t.b = bytes(b);
      t.c = out;
      t.bias = bias;
      t.last = block.last();
      walk(x, block, t);
      left -= block.n;
      b += block.n;
      out += block.n;
      if (bias) bias += block.n;
    }
  }

  // Some panels of b at a time, whose vectors lie in a line each, come from the second cache; the
  // first one keeps columns of a.
  __attribute__((noinline)) static void run_beside_columns(const SmallProduct& x,
                                                           const Operands& o) {
    if (!is_plain(x, o)) return run_by_buffers(x, o, false);
    alignas(64) R panels[kPanelsBytes / kBytes + kWidth];
    const R *const a = o.start<const R>(kA), *const b = o.start<const R>(kB),
                   *const bias = o.start<const R>(kBias);
    R* const out = o.start<R>(kOut);
    constexpr int64_t b_k = kNr * kBytes;
    const int64_t panel = x.k * kNr, some = kPanelsBytes / kBytes / panel * kNr;
    TileCall t{nullptr, nullptr, kBytes, x.a_k * kBytes, b_k, 4 * b_k, x.k, nullptr, x.out_m, 0};
    t.add = o.beta.re == 1;
    for (int64_t first = 0, end; first < x.n; first = end) {
      end = least(first + some, x.n);
      for (int64_t column = first; column < end; column += kNr)
        copy_panel(x, b + column, least(end - column, kNr), panels + (column - first) * x.k);
      for (int64_t row = 0, rows; row < x.m; row += rows) {
        rows = x.tiles[1].at(row);
        t.a = bytes(a + row);
        for (int64_t column = first; column < end; column += kNr) {
          const Block block(x, end - column);
          t.b = bytes(panels + (column - first) * x.k);
          t.c = out + row * x.out_m + column;
          t.bias = bias ? bias + column : nullptr;
          t.last = block.last();
          block.tile(rows)(t);
        }
      }
    }
  }
  static void copy_panel(const SmallProduct& x, const R* from, int64_t nc, R* to) {
    if (nc < kNr) {
      for (int64_t k = 0; k < x.k; ++k) copy_run(from + k * x.b_k, nc, to + k * kNr);
      return;
    }
    for (int64_t k = 0; k < x.k; ++k, from += x.b_k, to += kNr) {
      const B one = B::load_unaligned(from), two = B::load_unaligned(from + kWidth);
      one.store_aligned(to);
      two.store_aligned(to + kWidth);
    }
  }

  // Columns of b are brought side by side, or sums scaled and added to what is there.
  __attribute__((noinline)) static void run_by_buffers(const SmallProduct& x, const Operands& o,
                                                       bool plain) {
    alignas(64) R panel[kPanelBytes / kBytes + kWidth];
    alignas(64) R sums[8 * kNr];
    const R *const a = o.start<const R>(kA), *const b = o.start<const R>(kB),
                   *const bias = o.start<const R>(kBias);
    R* const out = o.start<R>(kOut);
    const R alpha = R(o.alpha.re), beta = R(o.beta.re);
    const int64_t b_k = x.b_k * kBytes;
    TileCall t{nullptr, nullptr, x.a_m * kBytes, x.a_k * kBytes, b_k, b_k, x.k, sums, x.out_m, 0};
    t.add = plain && beta == R(1);
    for (int64_t column = 0, next; column < x.n; column = next) {
      const Block block(x, x.n - column);
      next = column + block.n;
      t.b = bytes(b + column * x.b_n);
      t.last = block.last();
      if (x.pack) {
        bring(x, b + column * x.b_n, block.n, block.vectors * kWidth, panel);
        t.b = bytes(panel);
        t.b_k = t.b_ahead = block.vectors * kWidth * kBytes;
      }
      if (plain) {
        t.a = bytes(a);
        t.c = out + column;
        if (bias) t.bias = bias + column;
        walk(x, block, t);
        continue;
      }
      t.c_row = block.vectors * kWidth;
      for (int64_t row = 0, rows; row < x.m; row += rows) {
        rows = block.down.at(row);
        t.a = bytes(a + row * x.a_m);
        block.tile(rows)(t);
        for (int64_t i = 0; i < rows; ++i)
          finish(out + (row + i) * x.out_m + column, sums + i * t.c_row, block.n, alpha, beta,
                 bias ? bias + (row + i) * x.bias_m + column * x.bias_n : nullptr, x.bias_n);
      }
    }
  }

  // nc columns of b, for each k side by side.
  static void bring(const SmallProduct& x, const R* from, int64_t nc, int64_t width, R* to) {
    int64_t at[kNr], k_at[kBlock<R>];
    const bool k_unit = x.b_k == 1 && nc > 1;  // then the first of k_at is read: b_n is not 1
    for (int64_t j = 0; j < nc; ++j) at[j] = j * x.b_n;
    for (int64_t k = 0; k < (k_unit ? 1 : x.k); ++k) k_at[k] = k * x.b_k;
    pack_lines(from, at, nc, width, k_at, x.k, k_unit, to);
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
  if (x.m > kMostSize || x.n > kMostSize || x.k > kMostSize) return false;
  if (x.out_n != 1) {
    if (x.out_m != 1) return false;
    x.swap();
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
  if (!has_shape(a) || !has_shape(b) || !has_shape(out) || (bias && !has_shape(*bias)))
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
  return x.m == 1 || x.n == 1 ? plan_small_dot(x, a.dtype) : plan_small(x, a.dtype);
}

}  // namespace gradus::cpu
