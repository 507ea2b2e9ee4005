// One row or one column for each batch element, where neighbours in memory are batch elements: sums
// of vectors of them, in the order of contract_dot.cpp. A strip of outputs at a time: its lanes, 32
// for each output, stay in the first cache.
#pragma once
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/lane_tree.hpp"
#include "kernels/cpu/isa/tile.hpp"

namespace gradus::inline v1::cpu {

template <class T>
class DotSideBySide {
 public:
  using B = Batch<T>;

  static bool suits(const Axes& out) {
    return out.rank > 0 && out.step(kA) == 1 && out.step(kB) == 1;
  }
  // x.m are all axes of out.
  DotSideBySide(gd_device* d, const Contraction& x, const Operands& o)
      : d_(d), x_(x), o_(o), out_(x.m), k_(x.k.count) {
    plain_ = o.alpha == c128(1) && o.beta == c128(0) && !o.data[kBias] && out_.step(kOut) == 1;
    far_ = k_ * out_.count * int64_t(sizeof(T)) > d->cache[1];
  }

  void run() const {
    const int64_t last = out_.size[out_.rank - 1], pieces = (last + kPiece - 1) / kPiece,
                  lines = out_.count / last;
    const int64_t piece = last < kPiece ? last : kPiece;
    parallel_range(
        d_, lines * pieces, kGrain / (piece * (k_ + 1)), [&](int64_t begin, int64_t end) {
          int64_t k_at[2][kSpan];
          int64_t loaded = -1;
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % pieces * kPiece, line = i / pieces * last;
            const int64_t stop = last - first < kPiece ? last : first + kPiece;
            for (int64_t j = first; j < stop;) {
              const int64_t n = stop - j >= kWide ? kWide : stop - j < kWidth ? stop - j : kWidth;
              n == kWide ? strip<kVectors>(line + j, n, k_at, loaded)
                         : strip<1>(line + j, n, k_at, loaded);
              j += n;
            }
          }
        });
  }

 private:
  static constexpr int64_t kWidth = int64_t(B::size), kVectors = 4, kWide = kVectors * kWidth,
                           kPiece = 16 * kWide;

  template <int V>
  void strip(int64_t o, int64_t n, int64_t (&k_at)[2][kSpan], int64_t& loaded) const {
    const T *const a = o_.start<const T>(kA) + out_.offset(kA, o), *const b =
                                                                       o_.start<const T>(kB) +
                                                                       out_.offset(kB, o);
    alignas(64) T lanes[kLanes * V * kWidth];
    Tree<Sum<T>, T, V * kWidth> tree(V * kWidth);
    for (int64_t k0 = 0; k0 == 0 || k0 < k_; k0 += kSpan) {
      const int64_t kn = k_ - k0 < kSpan ? k_ - k0 : kSpan, some = kn < kLanes ? kn : kLanes;
      if (loaded != k0)
        for (const Role r : {kA, kB}) x_.k.offsets(r, k0, kn, k_at[r]);
      loaded = k0;
      for (int64_t l = 0; l < (some == 0 ? 1 : some); ++l)
        lane<V>(a, b, k_at, l, kn, n, lanes + l * V * kWidth);
      join_lanes<Sum<T>>(lanes, some, V * kWidth);
      if (k_ > kSpan) tree.add(lanes);
    }
    write(o, k_ > kSpan ? tree.result() : lanes, n);
  }

  // Products l, l + 32, ... of kn.
  template <int V>
  void lane(const T* a, const T* b, const int64_t (&k_at)[2][kSpan], int64_t l, int64_t kn,
            int64_t n, T* to) const {
    B sum[V];
    for (int v = 0; v < V; ++v) sum[v] = B(T(0));
    const Some<T> some(V == 1 ? n : kWidth);
    for (int64_t k = l; k < kn; k += kLanes) {
      const T *const x = a + k_at[kA][k], *const y = b + k_at[kB][k];
      if (V == 1 && n < kWidth) {
        sum[0] = fused<T>(some.load(x), some.load(y), sum[0]);
        continue;
      }
      for (int v = 0; v < V; ++v) {
        if (far_) {  // of the next strip
          __builtin_prefetch(x + (V + v) * kWidth, 0, 2);
          __builtin_prefetch(y + (V + v) * kWidth, 0, 2);
        }
        sum[v] =
            fused<T>(B::load_unaligned(x + v * kWidth), B::load_unaligned(y + v * kWidth), sum[v]);
      }
    }
    for (int v = 0; v < V; ++v) sum[v].store_aligned(to + v * kWidth);
  }

  void write(int64_t o, const T* sum, int64_t n) const {
    T* const to = o_.start<T>(kOut) + out_.offset(kOut, o);
    if (plain_) {
      for (int64_t j = 0; j < n; ++j) to[j] = sum[j];
      return;
    }
    const T alpha = T(o_.alpha.re), beta = T(o_.beta.re);
    const T* const bias =
        o_.data[kBias] ? o_.start<const T>(kBias) + out_.offset(kBias, o) : nullptr;
    for (int64_t j = 0; j < n; ++j) {
      T& e = to[j * out_.step(kOut)];
      T y = alpha * sum[j];
      if (beta != T(0)) y = y + beta * e;
      if (bias) y = y + bias[j * out_.step(kBias)];
      e = y;
    }
  }

  gd_device* d_;
  const Contraction& x_;
  const Operands& o_;
  const Axes& out_;
  const int64_t k_;
  bool plain_, far_;
};

}  // namespace gradus::cpu
