// contract for f32 and f64 where a batch element has one row or one column: dot products, matrix
// times vector, and products without a sum. The order is that of fold.hpp with a fused product: k
// in spans, 32 lanes, trees. Two ways through memory give the same bits: along k, or along out.
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/contract/dot_side_by_side.hpp"
#include "kernels/cpu/isa/contract/pack.hpp"

#include <utility>

namespace gradus::inline v1::cpu {
namespace {

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
struct Dot {
  using B = Batch<T>;
  static constexpr int64_t kWidth = int64_t(B::size), kVectors = kLanes / kWidth;
#if defined(__AVX512BW__)
  static constexpr int64_t kColumns = 4;  // vectors of outputs side by side
#else
  static constexpr int64_t kColumns = 2;
#endif
  static constexpr int64_t kStrip = kColumns * kWidth;
  static constexpr int64_t kFar = 1 << 18;  // elements that the near caches do not hold
  static constexpr int64_t kFetch = (16 << 20) / int64_t(sizeof(T));  // and those that none holds
  static constexpr int64_t kWide = 4096 / int64_t(sizeof(T));

  gd_device* d;
  const Contraction& x;
  const Operands& call;
  const Axes& out;

  void write(int64_t o, const T* sum, int64_t n) const {
    const T alpha = T(call.alpha.re), beta = T(call.beta.re);
    int64_t at[kStrip], bias_at[kStrip];
    out.offsets(kOut, o, n, at);
    if (call.data[kBias]) out.offsets(kBias, o, n, bias_at);
    for (int64_t j = 0; j < n; ++j) {
      T& to = call.start<T>(kOut)[at[j]];
      T y = alpha * sum[j];
      if (beta != T(0)) y = y + beta * to;
      if (call.data[kBias]) y = y + call.start<const T>(kBias)[bias_at[j]];
      to = y;
    }
  }

  // ---- along k: both operands contiguous, or brought into a buffer span by span.

  // Lanes without a product hold +0, which changes no sum: none is ever -0.
  static T span(const T* a, const T* b, int64_t n) {
    B lane[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) lane[v] = B(T(0));
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t v = 0; v < kVectors; ++v)
        lane[v] = fused<T>(B::load_unaligned(a + i + v * kWidth),
                           B::load_unaligned(b + i + v * kWidth), lane[v]);
    for (int64_t v = 0; i < n; ++v, i += kWidth) {
      const Some<T> some(least(n - i, kWidth));
      lane[v] = fused<T>(some.load(a + i), some.load(b + i), lane[v]);
    }
    return joined_lanes<T>(lane, sum_of);
  }

  const T* along(Role r, int64_t base, int64_t k0, int64_t n, T* buffer) const {
    const T* from = call.start<const T>(r) + base;
    if (x.k.even() && x.k.unit(r)) return from + k0;
    int64_t at[kSpan];
    x.k.offsets(r, k0, n, at);
    for (int64_t i = 0; i < n; ++i) buffer[i] = from[at[i]];
    return buffer;
  }

  T one(int64_t a_at, int64_t b_at) const {
    T a[kSpan], b[kSpan];
    const int64_t k = x.k.count;
    Tree<Sum<T>, T, 1> tree(1);
    for (int64_t i = 0; i < k; i += kSpan) {
      const int64_t n = least(k - i, kSpan);
      const T sum = span(along(kA, a_at, i, n, a), along(kB, b_at, i, n, b), n);
      tree.add(&sum);
    }
    return *tree.result();
  }

  // kAtOnce rows from far memory times one vector: their streams are fetched side by side.
#if defined(__AVX512BW__)
  static constexpr int64_t kAtOnce = 4;
#else
  static constexpr int64_t kAtOnce = kVectors <= 4 ? 2 : 1;
#endif
  void at_once(const T* const* row, const T* b, T* to) const {
    const int64_t far = kAtOnce * (row[kAtOnce - 1] - row[0]) / (kAtOnce > 1 ? kAtOnce - 1 : 1);
    Tree<Sum<T>, T, kAtOnce> tree(kAtOnce);
    for (int64_t k0 = 0; k0 < x.k.count; k0 += kSpan) {
      const int64_t n = least(x.k.count - k0, kSpan), whole = n / kLanes * kLanes;
      B lane[kAtOnce][kVectors];
      for (auto& of_row : lane)
        for (B& l : of_row) l = B(T(0));
      for (int64_t i = k0; i < k0 + whole; i += kLanes)
        for (int64_t v = 0; v < kVectors; ++v) {
          const B y = B::load_unaligned(b + i + v * kWidth);
          for (int64_t r = 0; r < kAtOnce; ++r) {
            const T* const p = row[r] + i + v * kWidth;
            __builtin_prefetch(p + far, 0, 2);
            lane[r][v] = fused<T>(B::load_unaligned(p), y, lane[r][v]);
          }
        }
      for (int64_t v = 0, i = k0 + whole; i < k0 + n; ++v, i += kWidth) {
        const Some<T> some(least(k0 + n - i, kWidth));
        const B y = some.load(b + i);
        for (int64_t r = 0; r < kAtOnce; ++r)
          lane[r][v] = fused<T>(some.load(row[r] + i), y, lane[r][v]);
      }
      T sums[kAtOnce];
      for (int64_t r = 0; r < kAtOnce; ++r) sums[r] = joined_lanes<T>(lane[r], sum_of);
      tree.add(sums);
    }
    const T* const sum = tree.result();
    for (int64_t r = 0; r < kAtOnce; ++r) to[r] = sum[r];
  }
  // Are outputs j .. j + kAtOnce - 1 such?
  bool together(const int64_t* a_at, const int64_t* b_at) const {
    if (!ahead() || !x.k.even() || !x.k.unit(kA) || !x.k.unit(kB)) return false;
    bool same[2] = {true, true};
    for (int64_t r = 1; r < kAtOnce; ++r) {
      same[0] = same[0] && a_at[r] == a_at[0];
      same[1] = same[1] && b_at[r] == b_at[0];
    }
    return same[0] || same[1];
  }

  void by_rows(int64_t begin, int64_t end) const {
    int64_t a_at[kStrip], b_at[kStrip];
    T sum[kStrip], buffer[2][kSpan];
    const T* row[2] = {};  // of a span: brought once for outputs that share it
    int64_t brought[2] = {};
    const int64_t k = x.k.count;
    for (int64_t o = begin; o < end; o += kStrip) {
      const int64_t n = least(end - o, kStrip);
      out.offsets(kA, o, n, a_at);
      out.offsets(kB, o, n, b_at);
      for (int64_t j = 0; j < n;) {
        if (j + kAtOnce > n || !together(a_at + j, b_at + j)) {
          for (const Role r : {kA, kB}) {
            const int64_t at = r == kA ? a_at[j] : b_at[j];
            if (k <= kSpan && (!row[r] || brought[r] != at)) row[r] = along(r, at, 0, k, buffer[r]);
            brought[r] = at;
          }
          sum[j] = k <= kSpan ? span(row[kA], row[kB], k) : one(a_at[j], b_at[j]);
          ++j;
          continue;
        }
        const bool a_fixed = a_at[j] == a_at[j + kAtOnce - 1];
        const T* rows[kAtOnce];
        for (int64_t r = 0; r < kAtOnce; ++r)
          rows[r] = call.start<const T>(a_fixed ? kB : kA) + (a_fixed ? b_at : a_at)[j + r];
        at_once(rows, call.start<const T>(a_fixed ? kA : kB) + (a_fixed ? a_at : b_at)[j], sum + j);
        j += kAtOnce;
      }
      write(o, sum, n);
    }
  }

  // ---- along out: a strip of outputs at once, lane by lane.

  // An operand over a strip.
  struct Line {
    const T* from;
    int64_t at[kStrip];
    bool fixed, unit;  // one element for all outputs; neighbours, in whole vectors
    int64_t n, runs, first[kStrip], length[kStrip];

    Line(const Dot& dot, Role r, int64_t o, int64_t count)
        : from(dot.call.template start<const T>(r)), n(count), runs(0) {
      dot.out.offsets(r, o, n, at);
      fixed = true;
      for (int64_t j = 1; j < n; ++j) fixed = fixed && at[j] == at[0];
      for (int64_t j = 0; j < n; j += length[runs++]) {
        first[runs] = j;
        length[runs] = 1;
        while (j + length[runs] < n && at[j + length[runs]] == at[j] + length[runs]) ++length[runs];
      }
      unit = runs == 1 && (n == kStrip || n == kWidth);
    }
    // The elements at k: where they lie, or in the buffer, which has a vector to spare.
    template <bool kUnit>
    const T* elements(int64_t k_at, T* buffer) const {
      if (kUnit) return from + at[0] + k_at;
      if (runs * 3 <= n)
        for (int64_t r = 0; r < runs; ++r)
          copy_run(from + at[first[r]] + k_at, length[r], buffer + first[r]);
      else
        for (int64_t j = 0; j < n; ++j) buffer[j] = from[at[j] + k_at];
      return buffer;
    }
  };

  // Lane l of kn products over V vectors of outputs: f (fixed or not) times v (neighbours or not).
  template <bool kFixed, bool kUnit, int V>
  static void lane(const Line& f, const Line& v, const int64_t* f_at, const int64_t* v_at,
                   int64_t l, int64_t kn, T* pf, T* pv, B* to) {
    B sum[V];
    for (B& s : sum) s = B(T(0));
    for (int64_t k = l; k < kn; k += kLanes) {
      const T* const y = v.template elements<kUnit>(v_at[k], pv);
      if constexpr (kFixed) {
        const B factor(f.from[f.at[0] + f_at[k]]);
        for (int j = 0; j < V; ++j)
          sum[j] = fused<T>(factor, B::load_unaligned(y + j * kWidth), sum[j]);
      } else {
        const T* const z = f.template elements<false>(f_at[k], pf);
        for (int j = 0; j < V; ++j)
          sum[j] = fused<T>(B::load_unaligned(z + j * kWidth), B::load_unaligned(y + j * kWidth),
                            sum[j]);
      }
    }
    for (int j = 0; j < V; ++j) to[j] = sum[j];
  }

  // Lanes 0 .. 31 in the tree of join_lanes, depth first: lanes in the order of their reversed
  // bits, each joined with as many before as its number in that order has trailing ones.
  template <bool kFixed, bool kUnit, int V>
  static void span_of_strip(const Line& f, const Line& v, const int64_t* f_at, const int64_t* v_at,
                            int64_t kn, T* to) {
    alignas(64) T pf[kStrip + kWidth] = {}, pv[kStrip + kWidth] = {};
    B level[7][V];
    int depth = 0;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t l = (i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | (i & 16) >> 4;
      lane<kFixed, kUnit, V>(f, v, f_at, v_at, l, kn, pf, pv, level[depth++]);
      for (uint32_t ones = i; ones & 1; ones >>= 1) {
        --depth;
        for (int j = 0; j < V; ++j) level[depth - 1][j] = level[depth - 1][j] + level[depth][j];
      }
    }
    for (int j = 0; j < V; ++j) level[0][j].store_unaligned(to + j * kWidth);
  }

  void by_columns(int64_t o, int64_t n) const {
    const Line a(*this, kA, o, n), b(*this, kB, o, n);
    const bool swap = b.fixed && !a.fixed;  // the fixed one is broadcast; products commute
    const Line &f = swap ? b : a, &v = swap ? a : b;
    const Role fr = swap ? kB : kA, vr = swap ? kA : kB;
    constexpr int V = int(kColumns);
    const bool one = n <= kWidth;
    const auto of_span = !f.fixed ? span_of_strip<false, false, V>
                         : v.unit
                             ? (one ? span_of_strip<true, true, 1> : span_of_strip<true, true, V>)
                         : one ? span_of_strip<true, false, 1>
                               : span_of_strip<true, false, V>;
    int64_t f_at[kSpan], v_at[kSpan];
    alignas(64) T sum[kStrip];
    Tree<Sum<T>, T, kStrip> tree(n);
    for (int64_t k0 = 0; k0 == 0 || k0 < x.k.count; k0 += kSpan) {
      const int64_t kn = least(x.k.count - k0, kSpan);
      x.k.offsets(fr, k0, kn, f_at);
      x.k.offsets(vr, k0, kn, v_at);
      of_span(f, v, f_at, v_at, kn, sum);
      if (x.k.count > kSpan) tree.add(sum);
    }
    write(o, x.k.count > kSpan ? tree.result() : sum, n);
  }

  // ---- along out, from far memory: row after row over many outputs, whose lanes stay in a cache.

  // One vector that all outputs share, times rows of neighbours.
  bool ahead() const { return x.k.count * out.count > kFetch; }
  bool streams() const {
    const bool wide = out.even() && x.k.even() && x.k.count * out.count > kFar;
    return wide &&
           ((out.step(kA) == 0 && out.step(kB) == 1) || (out.step(kA) == 1 && out.step(kB) == 0));
  }
  // The next R rows of one lane, so that it is read and written but once for them; those at `next`
  // are fetched meanwhile.
  template <int R>
  static void add_rows(const T* f, int64_t f_step, const T* row, int64_t step, const T* next,
                       T* lane, int64_t n, bool old) {
    B factor[R];
    for (int r = 0; r < R; ++r) factor[r] = B(f[r * f_step]);
    int64_t j = 0;
    for (; j + kWidth <= n; j += kWidth) {
      B sum = old ? B::load_aligned(lane + j) : B(T(0));
      for (int r = 0; r < R; ++r) {
        if (next) __builtin_prefetch(next + r * step + j, 0, 2);
        sum = fused<T>(factor[r], B::load_unaligned(row + r * step + j), sum);
      }
      sum.store_aligned(lane + j);
    }
    if (j == n) return;
    const Some<T> some(n - j);
    B sum = old ? B::load_aligned(lane + j) : B(T(0));
    for (int r = 0; r < R; ++r) sum = fused<T>(factor[r], some.load(row + r * step + j), sum);
    sum.store_aligned(lane + j);
  }
  bool by_streams(int64_t o, int64_t n) const {
    const Role fr = out.step(kA) == 0 ? kA : kB, vr = fr == kA ? kB : kA;
    constexpr int64_t kBytes = kLanes * kWide * int64_t(sizeof(T));
    T* const lanes = static_cast<T*>(d->scratch(kScratchTask, size_t(kBytes)));
    if (!lanes) return false;
    const T *f = call.start<const T>(fr), *v = call.start<const T>(vr) + o;
    const int64_t f_k = x.k.step(fr), v_k = x.k.step(vr),
                  width = (n + kWidth - 1) / kWidth * kWidth;
    Tree<Sum<T>, T, kWide> tree(n);
    for (int64_t k0 = 0; k0 < x.k.count; k0 += kSpan) {
      const int64_t kn = least(x.k.count - k0, kSpan);
      for (int64_t l = 0; l < least(kn, kLanes); ++l) {
        const int64_t rows = (kn - l + kLanes - 1) / kLanes;
        for (int64_t r = 0; r < rows;) {
          const int64_t k = k0 + l + r * kLanes, left = rows - r;
          const int64_t some = left >= 8 ? 8 : left >= 4 ? 4 : 1;
          const auto pass = some == 8 ? add_rows<8> : some == 4 ? add_rows<4> : add_rows<1>;
          const int64_t next = left > some ? k + some * kLanes : k0 + l + 1;
          pass(f + k * f_k, f_k * kLanes, v + k * v_k, v_k * kLanes,
               ahead() ? v + next * v_k : nullptr, lanes + l * width, n, r > 0);
          r += some;
        }
      }
      join_lanes<Sum<T>>(lanes, least(kn, kLanes), width);
      tree.add(lanes);
    }
    const T* const sum = tree.result();
    for (int64_t j = 0; j < n; j += kStrip) write(o + j, sum + j, least(n - j, kStrip));
    return true;
  }

  gd_status run(gd_error* e) const {
    const int64_t k = x.k.count, n = out.count;
    auto unit_k = [&](Role r) { return x.k.even() && x.k.unit(r); };
    auto far = [&](Role r) { return out.step(r) != 0 && out.step(r) != 1; };  // along out
    const bool rows =
        k >= 16 && (n < 4 || (unit_k(kA) && unit_k(kB)) ||
                    (out.rank > 0 && ((unit_k(kA) && far(kA)) || (unit_k(kB) && far(kB)))));
    const int64_t grain = kGrain / (k + 1) + 1;
    int failed = 0;
    if (streams())
      parallel_range(d, n, kWide, [&](int64_t begin, int64_t end) {
        if (!by_streams(begin, end - begin)) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
      });
    else if (rows)
      parallel_range(d, n, grain, [&](int64_t begin, int64_t end) { by_rows(begin, end); });
    else
      parallel_range(d, n, (grain + kStrip - 1) / kStrip * kStrip, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; o += kStrip) by_columns(o, least(end - o, kStrip));
      });
    return failed ? refuse(e, GD_OOM, "contract", "no memory for lanes") : GD_OK;
  }
};

// A small one: a row a of k elements times n rows or columns b, with one axis of each kind.
template <class T>
struct SmallDot {
  using B = Batch<T>;
  static constexpr int64_t kWidth = int64_t(B::size);

  static void finish(const SmallProduct& x, const Operands& o, int64_t j, T sum) {
    T& to = o.start<T>(kOut)[j * x.out_n];
    T y = T(o.alpha.re) * sum;
    if (o.beta.re != 0) y = y + T(o.beta.re) * to;
    if (o.data[kBias]) y = y + o.start<const T>(kBias)[j * x.bias_n];
    to = y;
  }

  static const T* side_by_side(const T* from, int64_t n, int64_t step, T* buffer) {
    if (step == 1) return from;
    for (int64_t i = 0; i < n; ++i) buffer[i] = from[i * step];
    return buffer;
  }
  static void rows(const SmallProduct& x, const Operands& o) {
    T a_buffer[kSpan], b_buffer[kSpan];
    const T* const a = side_by_side(o.start<const T>(kA), x.k, x.a_k, a_buffer);
    const T* const b = side_by_side(o.start<const T>(kB), x.k, x.n == 1 ? x.b_k : 1, b_buffer);
    for (int64_t j = 0; j < x.n; ++j) finish(x, o, j, Dot<T>::span(a, b + j * x.b_n, x.k));
  }

  template <bool kPart>
  static void strip(const SmallProduct& x, const Operands& o, int64_t j, int64_t n) {
    const T *const a = o.start<const T>(kA), *const b = o.start<const T>(kB) + j;
    const Some<T> some(n);
    const B sum = lane_tree<0, 1, B>(
        x.k, [&](int64_t lane) __attribute__((always_inline)) {
          B y(T(0));
          for (int64_t k = lane; k < x.k; k += kLanes) {
            const T* const line = b + k * x.b_k;
            y = fused<T>(B(a[k * x.a_k]), kPart ? some.load(line) : B::load_unaligned(line), y);
          }
          return y;
        });
    if (x.out_n == 1 && o.alpha.re == 1 && o.beta.re == 0 && !o.data[kBias]) {
      T* const to = o.start<T>(kOut) + j;
      kPart ? some.store(to, sum) : sum.store_unaligned(to);
      return;
    }
    T sums[kWidth];
    sum.store_unaligned(sums);
    for (int64_t i = 0; i < n; ++i) finish(x, o, j + i, sums[i]);
  }
  static void columns(const SmallProduct& x, const Operands& o) {
    int64_t j = 0;
    for (; j + kWidth <= x.n; j += kWidth) strip<false>(x, o, j, kWidth);
    if (j < x.n) strip<true>(x, o, j, x.n - j);
  }
};

template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  if (!DotSideBySide<T>::suits(x.m)) return Dot<T>{d, x, o, x.m}.run(e);
  DotSideBySide<T>(d, x, o).run();
  return GD_OK;
}

}  // namespace

void plan_dot(Contraction& x) {
  Axes all = output_axes(x);
  // Outputs that share an operand which must be gathered follow each other.
  for (const Role r : {kA, kB})
    for (int d = 0; d + 1 < all.rank && x.k.count >= 16 && !x.k.unit(r); ++d)
      if (all.stride[r][d] == 0 && x.k.even() && x.k.unit(r == kA ? kB : kA))
        all.move(d, all.rank - 1);
  x.m.take(all);
  x.n.rank = x.batch.rank = 0;
  x.n.count = x.batch.count = 1;
  x.run = x.dtype == GD_F32 ? multiply<float> : multiply<double>;
}

bool plan_small_dot(SmallProduct& x, int32_t dtype) {
  if (x.n == 1) x.swap();
  if (x.k > kSpan || x.n > kGrain || x.n * (x.k + 1) > kGrain) return false;
  const bool single = dtype == GD_F32;
  if (x.n == 1 || x.b_k == 1)
    x.run = single ? SmallDot<float>::rows : SmallDot<double>::rows;
  else if (x.b_n == 1)
    x.run = single ? SmallDot<float>::columns : SmallDot<double>::columns;
  return x.run;
}

}  // namespace gradus::cpu
