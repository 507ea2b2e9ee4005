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

  [[gnu::always_inline]] void add(V a, V b, V at) {
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

// Does x suit? Of its axes, with outputs of one T.
template <class T>
bool thin(const Contraction& x) {
  constexpr int64_t kFew = 4;             // rows or columns
  if (x.k.count > 1 << 24) return false;  // a lane counts k
  if (x.m.count == 1 || x.n.count == 1) return true;
  const Axes out = output_axes(x);
  const int last = out.rank - 1;
  auto near = [&](Role r) { return (out.stride[r][last] | 1) == 1; };
  return least(x.m.count, x.n.count) <= kFew && out.size[last] >= kLanesOf<T> && near(kA) &&
         near(kB);
}

// Where the numbers of outputs lie, whatever the algebra. The outputs of x are all along its m.
template <class T>
class ThinLines {
 protected:
  static constexpr int64_t kWidth = kLanesOf<T>, kColumns = 4096 / int64_t(sizeof(T)),
                           kGathered = 64, kSteps = 8, kSpan = 1024;

  // Some outputs, and the next terms of all of them.
  struct Strip {
    int64_t first, n;
    bool direct, fixed;  // read where they lie; a is the same for all
    Role a, b;           // of the call; a is the fixed one, if one is
    int64_t at[2][kGathered];
    const T* rows[2][kSteps];
    T gathered[2][kSteps][kGathered];
    alignas(64) T best[kColumns], watch[kColumns], place[kColumns];
  };

  ThinLines(gd_device* d, const Contraction& x, const Operands& o) : d_(d), x_(x), o_(o) {}

  [[gnu::noinline]] void begin(Strip& s, int64_t first, int64_t most) const {
    const Axes& out = x_.m;
    s.first = first;
    const int64_t left = out.rank > 0 ? out.size[out.rank - 1] - first % out.size[out.rank - 1] : 1;
    const int64_t whole = least(least(left, most), kColumns) / kWidth * kWidth;
    const int64_t a_by = out.step(kA), b_by = out.step(kB);
    s.direct = whole > 0 && (a_by == 1 || b_by == 1) && (a_by | 1) == 1 && (b_by | 1) == 1;
    s.fixed = s.direct && a_by != b_by;
    s.a = s.fixed && b_by == 0 ? kB : kA;
    s.b = s.a == kA ? kB : kA;
    s.n = s.direct ? whole : least(most, kGathered);
    out.offsets(s.a, first, s.direct ? 1 : s.n, s.at[0]);
    out.offsets(s.b, first, s.direct ? 1 : s.n, s.at[1]);
  }
  // The terms k .. k + steps - 1.
  [[gnu::noinline]] void read(Strip& s, int64_t k, int64_t steps) const {
    for (int q = 0; q < 2; ++q) {
      int64_t k_at[kSteps];
      const Role role = q == 0 ? s.a : s.b;
      x_.k.offsets(role, k, steps, k_at);
      for (int64_t r = 0; r < steps; ++r) {
        const T* const from = o_.start<const T>(role) + k_at[r];
        s.rows[q][r] = s.direct ? from + s.at[q][0] : s.gathered[q][r];
        for (int64_t j = 0; j < s.n && !s.direct; ++j) s.gathered[q][r][j] = from[s.at[q][j]];
      }
    }
  }
  // Terms k .. k + n - 1 of one output.
  const T* side_by_side(Role r, int64_t start, int64_t k, int64_t n, T* buffer) const {
    const T* const from = o_.start<const T>(r) + start;
    return x_.k.even() && x_.k.unit(r) ? from + k : gather(r, from, k, n, buffer);
  }
  [[gnu::noinline]] const T* gather(Role r, const T* from, int64_t k, int64_t n, T* buffer) const {
    int64_t at[kSpan];
    x_.k.offsets(r, k, n, at);
    for (int64_t i = 0; i < n; ++i) buffer[i] = from[at[i]];
    return buffer;
  }

  gd_device* d_;
  const Contraction& x_;
  const Operands& o_;
};

template <class A>
class ThinTropical : ThinLines<typename A::Value> {
  using T = typename A::Value;
  using V = Lanes<T>;
  using Lines = ThinLines<T>;
  using Lines::d_, Lines::x_, Lines::o_;
  using Lines::kWidth, Lines::kColumns, Lines::kSteps, Lines::kSpan;
  using typename Lines::Strip;

 public:
  ThinTropical(gd_device* d, const Contraction& x, const Operands& o) : Lines(d, x, o) {}

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
  // ---- along out: outputs from `first` on; how many were done.
  int64_t some(int64_t first, int64_t most) const {
    Strip s;
    this->begin(s, first, most);
    const bool places = o_.data[kWinner];
    if (!(places ? strip<false, true>(s) : strip<false, false>(s))) strip<true, true>(s);
    store(s);
    return s.n;
  }
  // False: rare numbers are among them.
  template <bool kExact, bool kPlaces>
  [[gnu::noinline]] bool strip(Strip& s) const {
    const Running<A, kExact, kPlaces> none;
    for (int64_t j = 0; j < s.n; j += kWidth) {
      put_lanes(s.best + j, none.best);
      put_lanes(s.place + j, none.place);
      put_lanes(s.watch + j, none.watch);
    }
    for (int64_t k = 0; k < x_.k.count; k += kSteps) {
      const int64_t steps = least(x_.k.count - k, kSteps);
      this->read(s, k, steps);
      if (!kExact && steps == kSteps)  // rare numbers may take their time
        s.fixed ? add<kExact, kPlaces, true, kSteps>(s, 0, T(k))
                : add<kExact, kPlaces, false, kSteps>(s, 0, T(k));
      else
        for (int64_t r = 0; r < steps; ++r)
          s.fixed ? add<kExact, kPlaces, true, 1>(s, r, T(k + r))
                  : add<kExact, kPlaces, false, 1>(s, r, T(k + r));
    }
    V watch{};
    for (int64_t j = 0; j < s.n && !kExact; j += kWidth)
      if constexpr (std::numeric_limits<T>::has_infinity)
        watch += lanes_at(s.watch + j);
      else
        watch |= lanes_at(s.watch + j);
    return kExact || all_everyday<A>(watch);
  }
  // The next R terms of each output, from row r on.
  template <bool kExact, bool kPlaces, bool kFixed, int64_t R>
  static void add(Strip& s, int64_t r, T k) {
    const T *a[R],
        *b[R];  // what is written to s might change s.rows, for all that the compiler knows
    for (int64_t i = 0; i < R; ++i) a[i] = s.rows[0][r + i], b[i] = s.rows[1][r + i];
    for (int64_t j = 0; j < s.n; j += kWidth) {
      Running<A, kExact, kPlaces> sum;
      sum.best = lanes_at(s.best + j);
      sum.watch = lanes_at(s.watch + j);
      if (kExact || kPlaces) sum.place = lanes_at(s.place + j);
      for (int64_t i = 0; i < R; ++i)
        sum.add(kFixed ? all_lanes(*a[i]) : lanes_at(a[i] + j), lanes_at(b[i] + j),
                all_lanes(T(k + T(i))));
      put_lanes(s.best + j, sum.best);
      put_lanes(s.watch + j, sum.watch);
      if (kExact || kPlaces) put_lanes(s.place + j, sum.place);
    }
  }
  [[gnu::noinline]] void store(const Strip& s) const {
    T* const out = o_.template start<T>(kOut);
    const bool side_by_side = s.direct && x_.m.step(kOut) == 1 && x_.k.count > 0;
    T* const line = out + x_.m.offset(kOut, s.first);
    int64_t at[kWidth];
    for (int64_t j = 0; j < s.n; j += kWidth) {
      const int64_t n = least(s.n - j, kWidth);
      if (side_by_side) {
        put_lanes(line + j, lanes_at(s.best + j));
      } else {
        x_.m.offsets(kOut, s.first + j, n, at);
#pragma GCC unroll 1
        for (int64_t i = 0; i < n; ++i) out[at[i]] = x_.k.count == 0 ? A::empty() : s.best[j + i];
      }
      if (!o_.data[kWinner]) continue;
      x_.m.offsets(kWinner, s.first + j, n, at);
#pragma GCC unroll 1
      for (int64_t i = 0; i < n; ++i)
        o_.template start<int64_t>(kWinner)[at[i]] = int64_t(s.place[j + i]);
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
    o_.template start<T>(kOut)[x_.m.offset(kOut, i)] = best.value;
    if (places) o_.template start<int64_t>(kWinner)[x_.m.offset(kWinner, i)] = best.place;
  }
  // False: rare numbers are among the terms, or the best is a zero whose sign only its place tells.
  template <bool kExact, bool kPlaces>
  [[gnu::noinline]] bool line(int64_t a_at, int64_t b_at, Best& best) const {
    constexpr bool kFloat = std::numeric_limits<T>::has_infinity, kTold = kExact || kPlaces;
    constexpr int64_t kVectors = 4;
    best = Best();
    T buffer[2][kSpan];
    for (int64_t k0 = 0; k0 < x_.k.count; k0 += kSpan) {
      const int64_t n = least(x_.k.count - k0, kSpan);
      const T* const a = this->side_by_side(kA, a_at, k0, n, buffer[0]);
      const T* const b = this->side_by_side(kB, b_at, k0, n, buffer[1]);
      Running<A, kExact, kPlaces> sum[kVectors];
      V at;
      for (int64_t l = 0; l < kWidth; ++l) at[l] = T(l);
      int64_t i = 0;
      for (; i + kVectors * kWidth <= n; i += kVectors * kWidth)
        for (int64_t v = 0; v < kVectors; ++v, at += T(kWidth))
          sum[v].add(lanes_at(a + i + v * kWidth), lanes_at(b + i + v * kWidth), at);
      for (; i + kWidth <= n; i += kWidth, at += T(kWidth))
        sum[0].add(lanes_at(a + i), lanes_at(b + i), at);
      V watch = sum[0].watch;
      for (int64_t v = 1; v < kVectors; ++v) {
        if constexpr (kFloat)
          watch += sum[v].watch;
        else
          watch |= sum[v].watch;
        if (!kTold) sum[0].best = best_of<A>(sum[v].best, sum[0].best);
      }
      if (!kExact && !all_everyday<A>(watch)) return false;
      T found[kVectors * kWidth], place[kVectors * kWidth];
      for (int64_t v = 0; v < (kTold ? kVectors : 1); ++v) {
        put_lanes(found + v * kWidth, sum[v].best);
        put_lanes(place + v * kWidth, sum[v].place);
      }
      meet(best, found, kTold ? place : nullptr, kTold ? kVectors * kWidth : kWidth, k0);
      for (; i < n; ++i) best.meet(A::term(a[i], b[i]), k0 + i);
    }
    return kTold || !kFloat || best.value != T(0);
  }
  [[gnu::noinline]] static void meet(Best& best, const T* found, const T* place, int64_t n,
                                     int64_t k0) {
#pragma GCC unroll 1
    for (int64_t l = 0; l < n; ++l) {
      const int64_t k = place ? int64_t(place[l]) : 0;
      best.meet(found[l], k < 0 ? -1 : k0 + k);
    }
  }
};

}  // namespace gradus::cpu
