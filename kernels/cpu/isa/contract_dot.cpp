// contract for f32 and f64 where a batch element has one row or one column: dot products, matrix
// times vector, and products without a sum. The order is that of fold.hpp with a fused product: k
// in spans, 32 lanes, trees. Two ways through memory give the same bits: along k, or along out.
#include "kernels/cpu/isa/contraction.hpp"
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/simd.hpp"

#include <utility>

namespace gradus::cpu {
namespace {

constexpr int64_t kWide = 128;  // outputs side by side

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// m, n and batch axes are one index here, sorted by the strides of out.
Axes output_axes(const Contraction& x) {
  Axes all;
  for (const Axes* axes : {&x.batch, &x.m, &x.n})
    for (int d = 0; d < axes->rank; ++d) {
      int64_t s[kRoles];
      for (int r = 0; r < kRoles; ++r) s[r] = axes->stride[r][d];
      all.add(axes->size[d], s);
    }
  auto reach = [&](int d) {
    return all.stride[kOut][d] < 0 ? -all.stride[kOut][d] : all.stride[kOut][d];
  };
  for (int d = 1; d < all.rank; ++d)
    for (int p = d; p > 0 && reach(p - 1) < reach(p); --p) {
      std::swap(all.size[p - 1], all.size[p]);
      for (int r = 0; r < kRoles; ++r) std::swap(all.stride[r][p - 1], all.stride[r][p]);
    }
  all.merge();
  return all;
}

template <class T>
struct Dot {
  using B = Batch<T>;
  static constexpr int64_t kWidth = int64_t(B::size), kVectors = kLanes / kWidth;
  gd_device* d;
  const Contraction& x;
  const Operands& call;
  const Axes& out;

  void write(int64_t o, const T* sum, int64_t n) const {
    const T alpha = T(call.alpha.re), beta = T(call.beta.re);
    int64_t at[kWide], bias_at[kWide];
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

  static T span(const T* a, const T* b, int64_t n) {
    B lane[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) lane[v] = B(T(0));
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t v = 0; v < kVectors; ++v)
        lane[v] = fused<T>(B::load_unaligned(a + i + v * kWidth),
                           B::load_unaligned(b + i + v * kWidth), lane[v]);
    if (i < n) {  // a product 0 * 0 leaves a lane as it is: none is ever -0
      T pa[kLanes] = {}, pb[kLanes] = {};
      for (int64_t l = 0; i + l < n; ++l) {
        pa[l] = a[i + l];
        pb[l] = b[i + l];
      }
      for (int64_t v = 0; v < kVectors; ++v)
        lane[v] = fused<T>(B::load_unaligned(pa + v * kWidth), B::load_unaligned(pb + v * kWidth),
                           lane[v]);
    }
    T lanes[kLanes];
    for (int64_t v = 0; v < kVectors; ++v) lane[v].store_unaligned(lanes + v * kWidth);
    join_lanes<Sum<T>>(lanes, kLanes, 1);
    return lanes[0];
  }

  const T* along(Role r, int64_t base, int64_t k0, int64_t n, T* buffer) const {
    const T* from = call.start<const T>(r) + base;
    if (x.k.rank == 1 && x.k.stride[r][0] == 1) return from + k0;
    int64_t at[kSpan];
    x.k.offsets(r, k0, n, at);
    for (int64_t i = 0; i < n; ++i) buffer[i] = from[at[i]];
    return buffer;
  }

  T one(int64_t a_at, int64_t b_at) const {
    T a[kSpan], b[kSpan];
    Tree<Sum<T>, T, 1> tree(1);
    const int64_t k = x.k.count;
    if (k == 0) return T(0);
    for (int64_t i = 0; i < k; i += kSpan) {
      const int64_t n = least(k - i, kSpan);
      const T sum = span(along(kA, a_at, i, n, a), along(kB, b_at, i, n, b), n);
      if (k <= kSpan) return sum;
      tree.add(&sum);
    }
    return *tree.result();
  }

  void by_rows(int64_t begin, int64_t end) const {
    int64_t a_at[kWide], b_at[kWide];
    T sum[kWide];
    for (int64_t o = begin; o < end; o += kWide) {
      const int64_t n = least(end - o, kWide);
      out.offsets(kA, o, n, a_at);
      out.offsets(kB, o, n, b_at);
      for (int64_t j = 0; j < n; ++j) sum[j] = one(a_at[j], b_at[j]);
      write(o, sum, n);
    }
  }

  // ---- along out: up to kWide outputs at once, lane by lane.

  struct Line {
    const T* from;
    int64_t at[kWide];
    bool unit, fixed;  // contiguous over a whole block; one element for all outputs
  };
  void prepare(Line& line, Role r, int64_t o, int64_t n) const {
    line.from = call.start<const T>(r);
    out.offsets(r, o, n, line.at);
    line.unit = n == kWide;
    line.fixed = true;
    for (int64_t j = 0; j < n; ++j) {
      line.unit = line.unit && line.at[j] == line.at[0] + j;
      line.fixed = line.fixed && line.at[j] == line.at[0];
    }
  }
  static const T* elements(const Line& line, int64_t k_at, int64_t n, T* buffer) {
    if (line.unit) return line.from + line.at[0] + k_at;
    for (int64_t j = 0; j < n; ++j) buffer[j] = line.from[line.at[j] + k_at];
    return buffer;
  }

  void by_columns(int64_t o, int64_t n) const {
    alignas(64) T lane[kLanes * kWide];
    alignas(64) T pa[kWide] = {}, pb[kWide] = {};
    Line a, b;
    prepare(a, kA, o, n);
    prepare(b, kB, o, n);
    const bool swap = b.fixed && !a.fixed;  // the fixed one is broadcast; products commute
    const Line &f = swap ? b : a, &v = swap ? a : b;
    const Role fr = swap ? kB : kA, vr = swap ? kA : kB;
    const int64_t used = (n + kWidth - 1) / kWidth * kWidth;
    Tree<Sum<T>, T, kWide> tree(n);
    T none[kWide] = {};
    for (int64_t k0 = 0; k0 < x.k.count; k0 += kSpan) {
      const int64_t kn = least(x.k.count - k0, kSpan), lanes = least(kn, kLanes);
      int64_t f_at[kSpan], v_at[kSpan];
      x.k.offsets(fr, k0, kn, f_at);
      x.k.offsets(vr, k0, kn, v_at);
      memset(lane, 0, size_t(lanes * kWide) * sizeof(T));
      for (int64_t k = 0; k < kn; ++k) {
        T* const to = lane + k % kLanes * kWide;
        const T* pv = elements(v, v_at[k], n, pb);
        if (f.fixed) {
          const B factor(f.from[f.at[0] + f_at[k]]);
          for (int64_t j = 0; j < used; j += kWidth)
            fused<T>(factor, B::load_unaligned(pv + j), B::load_aligned(to + j))
                .store_aligned(to + j);
        } else {
          const T* pf = elements(f, f_at[k], n, pa);
          for (int64_t j = 0; j < used; j += kWidth)
            fused<T>(B::load_unaligned(pf + j), B::load_unaligned(pv + j), B::load_aligned(to + j))
                .store_aligned(to + j);
        }
      }
      join_lanes<Sum<T>>(lane, lanes, kWide);
      tree.add(lane);
    }
    write(o, x.k.count > 0 ? tree.result() : none, n);
  }

  gd_status run() const {
    const int64_t k = x.k.count, n = out.count;
    auto unit_k = [&](Role r) { return x.k.rank == 1 && x.k.stride[r][0] == 1; };
    const bool rows =
        k >= 16 && (n < 4 || (unit_k(kA) && unit_k(kB)) ||
                    (out.rank > 0 && (unit_k(kA) || unit_k(kB)) &&
                     out.stride[kA][out.rank - 1] != 1 && out.stride[kB][out.rank - 1] != 1));
    const int64_t grain = kGrain / (k + 1) + 1;
    if (rows)
      parallel_range(d, n, grain, [&](int64_t begin, int64_t end) { by_rows(begin, end); });
    else
      parallel_range(d, n, (grain + kWide - 1) / kWide * kWide, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; o += kWide) by_columns(o, least(end - o, kWide));
      });
    return GD_OK;
  }
};

template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error*) {
  return Dot<T>{d, x, o, x.m}.run();
}

}  // namespace

void plan_dot(Contraction& x) {
  const Axes all = output_axes(x);
  x.m.take(all);
  x.n.rank = x.batch.rank = 0;
  x.n.count = x.batch.count = 1;
  x.run = x.dtype == GD_F32 ? multiply<float> : multiply<double>;
}

}  // namespace gradus::cpu
