// A tropical contraction whose tiles would stay empty: one row or one column, a product without a
// sum, small batch elements. Operands are read where they lie, along out or along k, since the best
// of terms may be found in any order. Plain terms go on while numbers are everyday ones; a watch
// beside them tells when not, and those outputs are done again term by term.
#pragma once
#include "kernels/cpu/isa/contract/gemm.hpp"
#include "kernels/cpu/isa/contract/tropical_lanes.hpp"

namespace gradus::inline v1::cpu {

// The best of terms so far, in each lane.
template <class A, bool kExact, bool kPlaces>
struct Running {
  using T = typename A::Value;
  using V = Lanes<T>;
  static constexpr bool kFloat = std::numeric_limits<T>::has_infinity;
  V best = all_lanes(A::worst()), place = all_lanes(T(-1)), watch{};

  void add(V a, V b, V at) {
    if constexpr (kExact) {
      const ExactTerm<A, T> x(a, b, best);
      best = x.wins ? x.value : best;
      place = x.wins ? at : place;
    } else {
      const V x = plain_term<A>(a, b);
      if constexpr (kPlaces) place = better<A>(x, best) ? at : place;
      best = best_of<A>(x, best);
      // A NaN stays in a sum; the two highest bits of a large integer differ.
      if constexpr (kFloat)
        watch += x;
      else if constexpr (A::kPlus)
        watch |= (a ^ (a + a)) | (b ^ (b + b));
      else if constexpr (A::kSwallows)
        watch |= (a == A::worst()) | (b == A::worst());
    }
  }
};
template <class A, class V>
bool all_everyday(V watch) {
  if constexpr (std::numeric_limits<typename A::Value>::has_infinity)
    return !any_lane(watch != watch);
  else
    return !any_lane(watch < 0);
}

template <class T, class A>
class ThinTropical {
 public:
  using V = Lanes<T>;
  static constexpr int64_t kWidth = kLanesOf<T>;

  static constexpr int64_t kFew = 4;  // rows or columns
  static bool suits(const Contraction& x) {
    if (x.k.count > 1 << 24) return false;  // a lane counts k
    if (x.m.count == 1 || x.n.count == 1) return true;
    const Axes out = output_axes(x);
    const int last = out.rank - 1;
    auto near = [&](Role r) { return (out.stride[r][last] | 1) == 1; };
    return least(x.m.count, x.n.count) <= kFew && out.size[last] >= kWidth && near(kA) && near(kB);
  }
  // The outputs of x are all along its m.
  ThinTropical(gd_device* d, const Contraction& x, const Operands& o) : d_(d), x_(x), o_(o) {}

  void run() const {
    const int64_t k = x_.k.count;
    auto unit = [&](Role r) { return x_.k.even() && x_.k.unit(r); };
    const bool along_k = k >= kWidth && ((unit(kA) && unit(kB)) || x_.m.count < kWidth);
    const int64_t share = d_->threads == 1 ? x_.m.count : x_.m.count / (2 * d_->threads),
                  least_work = kGrain / (k + 1) + 1,
                  wide = along_k || share > kColumns ? kColumns : share,
                  grain = (most(least_work, along_k ? 1 : wide) + kWidth - 1) / kWidth * kWidth;
    parallel_range(d_, x_.m.count, grain, [&](int64_t begin, int64_t end) {
      if (along_k)
        for (int64_t i = begin; i < end; ++i) one(i);
      else
        for (int64_t i = begin; i < end;) i += some(i, end - i);
    });
  }

 private:
  static constexpr int64_t kColumns = 4096 / int64_t(sizeof(T)), kGathered = 64, kSteps = 8,
                           kSpan = 1024;

  struct Strip {
    int64_t first, n;  // outputs
    bool direct, fixed;
    Role a, b;  // of the call; a is the fixed one, if one is
    alignas(64) T best[kColumns], watch[kColumns], place[kColumns];
  };

  // ---- along out: outputs from `first` on; how many were done.
  int64_t some(int64_t first, int64_t most) const {
    const Axes& out = x_.m;
    Strip s;
    s.first = first;
    const int64_t left = out.rank > 0 ? out.size[out.rank - 1] - first % out.size[out.rank - 1] : 1;
    const int64_t whole = least(least(left, most), kColumns) / kWidth * kWidth;
    const int64_t a_by = out.step(kA), b_by = out.step(kB);
    s.direct = whole > 0 && (a_by == 1 || b_by == 1) && (a_by | 1) == 1 && (b_by | 1) == 1;
    s.fixed = s.direct && a_by != b_by;
    s.a = s.fixed && b_by == 0 ? kB : kA;
    s.b = s.a == kA ? kB : kA;
    s.n = s.direct ? whole : least(most, kGathered);
    const bool places = o_.data[kWinner];
    if (!(places ? strip<false, true>(s) : strip<false, false>(s))) strip<true, true>(s);
    store(s);
    return s.n;
  }
  template <bool kExact, bool kPlaces>
  bool strip(Strip& s) const {
    return s.fixed ? strip<kExact, kPlaces, true>(s) : strip<kExact, kPlaces, false>(s);
  }
  // False: rare numbers are among them.
  template <bool kExact, bool kPlaces, bool kFixed>
  bool strip(Strip& s) const {
    const T *const a = o_.start<const T>(s.a), *const b = o_.start<const T>(s.b);
    T buffer[2][kSteps][kGathered];
    int64_t at[2][kGathered], k_at[2][kSteps];
    x_.m.offsets(s.a, s.first, s.direct ? 1 : s.n, at[0]);
    x_.m.offsets(s.b, s.first, s.direct ? 1 : s.n, at[1]);
    const T* rows[2][kSteps];
    const Running<A, kExact, kPlaces> none;
    for (int64_t j = 0; j < s.n; j += kWidth) {
      put_lanes(s.best + j, none.best);
      put_lanes(s.place + j, none.place);
      put_lanes(s.watch + j, none.watch);
    }
    for (int64_t k = 0; k < x_.k.count; k += kSteps) {
      const int64_t steps = least(x_.k.count - k, kSteps);
      x_.k.offsets(s.a, k, steps, k_at[0]);
      x_.k.offsets(s.b, k, steps, k_at[1]);
      for (int64_t r = 0; r < steps; ++r)
        for (int q = 0; q < 2; ++q) {
          const T* const from = (q == 0 ? a : b) + k_at[q][r];
          rows[q][r] = s.direct ? from + at[q][0] : buffer[q][r];
          for (int64_t j = 0; j < s.n && !s.direct; ++j) buffer[q][r][j] = from[at[q][j]];
        }
      if (steps == kSteps)
        add<kExact, kPlaces, kFixed, kSteps>(s, rows[0], rows[1], T(k));
      else
        for (int64_t r = 0; r < steps; ++r)
          add<kExact, kPlaces, kFixed, 1>(s, rows[0] + r, rows[1] + r, T(k + r));
    }
    V watch{};
    for (int64_t j = 0; j < s.n && !kExact; j += kWidth) watch = watch + lanes_at(s.watch + j);
    if constexpr (!std::numeric_limits<T>::has_infinity) {
      watch = V{};
      for (int64_t j = 0; j < s.n && !kExact; j += kWidth) watch |= lanes_at(s.watch + j);
    }
    return kExact || all_everyday<A>(watch);
  }
  // The next R terms of each output.
  template <bool kExact, bool kPlaces, bool kFixed, int R>
  static void add(Strip& s, const T* const* a, const T* const* b, T k) {
    for (int64_t j = 0; j < s.n; j += kWidth) {
      Running<A, kExact, kPlaces> sum;
      sum.best = lanes_at(s.best + j);
      sum.watch = lanes_at(s.watch + j);
      if (kExact || kPlaces) sum.place = lanes_at(s.place + j);
      for (int r = 0; r < R; ++r)
        sum.add(kFixed ? all_lanes(*a[r]) : lanes_at(a[r] + j), lanes_at(b[r] + j),
                all_lanes(T(k + T(r))));
      put_lanes(s.best + j, sum.best);
      put_lanes(s.watch + j, sum.watch);
      if (kExact || kPlaces) put_lanes(s.place + j, sum.place);
    }
  }
  void store(const Strip& s) const {
    int64_t at[kWidth];
    for (int64_t j = 0; j < s.n; j += kWidth) {
      const int64_t n = least(s.n - j, kWidth);
      x_.m.offsets(kOut, s.first + j, n, at);
      for (int64_t i = 0; i < n; ++i)
        o_.start<T>(kOut)[at[i]] = x_.k.count == 0 ? A::empty() : s.best[j + i];
      if (!o_.data[kWinner]) continue;
      x_.m.offsets(kWinner, s.first + j, n, at);
      for (int64_t i = 0; i < n; ++i) o_.start<int64_t>(kWinner)[at[i]] = int64_t(s.place[j + i]);
    }
  }

  // ---- along k: one output.
  struct Best {
    T value = A::worst();
    int64_t place = -1;
    // Of candidates in any order.
    void meet(T x, int64_t k) {
      const bool equal = x == value || (x != x && value != value);
      if (A::beats(x, value) || (equal && k >= 0 && k < place)) value = x, place = k;
    }
  };
  void one(int64_t i) const {
    const int64_t a = x_.m.offset(kA, i), b = x_.m.offset(kB, i);
    Best best;
    const bool places = o_.data[kWinner];
    if (!(places ? line<false, true>(a, b, best) : line<false, false>(a, b, best)))
      line<true, true>(a, b, best);
    o_.start<T>(kOut)[x_.m.offset(kOut, i)] = best.value;
    if (places) o_.start<int64_t>(kWinner)[x_.m.offset(kWinner, i)] = best.place;
  }
  // False: rare numbers are among the terms, or the best is a zero whose sign only its place tells.
  template <bool kExact, bool kPlaces>
  bool line(int64_t a_at, int64_t b_at, Best& best) const {
    constexpr bool kFloat = std::numeric_limits<T>::has_infinity, kTold = kExact || kPlaces;
    constexpr int64_t kVectors = 4;
    best = Best();
    T buffer[2][kSpan];
    for (int64_t k0 = 0; k0 < x_.k.count; k0 += kSpan) {
      const int64_t n = least(x_.k.count - k0, kSpan);
      const T *const a = side_by_side(kA, a_at, k0, n, buffer[0]), *const b = side_by_side(
                                                                       kB, b_at, k0, n, buffer[1]);
      Running<A, kExact, kPlaces> sum[kVectors];
      V at;
      for (int64_t l = 0; l < kWidth; ++l) at[l] = T(l);
      int64_t i = 0;
      for (; i + kVectors * kWidth <= n; i += kVectors * kWidth)
        for (int64_t v = 0; v < kVectors; ++v, at += T(kWidth))
          sum[v].add(lanes_at(a + i + v * kWidth), lanes_at(b + i + v * kWidth), at);
      for (; i + kWidth <= n; i += kWidth, at += T(kWidth))
        sum[0].add(lanes_at(a + i), lanes_at(b + i), at);
      for (int64_t v = 0; v < kVectors; ++v) {
        if (!kExact && !all_everyday<A>(sum[v].watch)) return false;
        if (!kTold && v > 0) sum[0].best = best_of<A>(sum[v].best, sum[0].best);
      }
      for (int64_t v = 0; v < (kTold ? kVectors : 1); ++v)
        for (int64_t l = 0; l < kWidth; ++l) {
          const int64_t k = kTold ? int64_t(sum[v].place[l]) : 0;
          best.meet(sum[v].best[l], k < 0 ? -1 : k0 + k);
        }
      for (; i < n; ++i) best.meet(A::term(a[i], b[i]), k0 + i);
    }
    return kTold || !kFloat || best.value != T(0);
  }
  const T* side_by_side(Role r, int64_t start, int64_t k, int64_t n, T* buffer) const {
    const T* const from = o_.start<const T>(r) + start;
    if (x_.k.even() && x_.k.unit(r)) return from + k;
    int64_t at[kSpan];
    x_.k.offsets(r, k, n, at);
    for (int64_t i = 0; i < n; ++i) buffer[i] = from[at[i]];
    return buffer;
  }

  gd_device* d_;
  const Contraction& x_;
  const Operands& o_;
};

}  // namespace gradus::cpu
