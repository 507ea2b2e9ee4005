// contract in the algebras max-plus, min-plus, max-times and min-times: the best term in the place
// of the sum, the first of equal ones, the first NaN above all. Winners are counted within a block
// of k and compared across blocks at the store.
#include "kernels/cpu/isa/contract/gemm.hpp"
#include "kernels/cpu/isa/contract/tropical_thin.hpp"
#include "kernels/cpu/isa/contract/tropical_tile.hpp"

#include <limits>
#include <type_traits>

namespace gradus::inline v1::cpu {
namespace {

template <class T, int kAlgebra>
struct Algebra {
  using Limits = std::numeric_limits<T>;
  using Value = T;
  static constexpr bool kFloat = Limits::has_infinity;
  static constexpr bool kMaximum = kAlgebra == GD_MAX_PLUS || kAlgebra == GD_MAX_TIMES;
  static constexpr bool kPlus = kAlgebra == GD_MAX_PLUS || kAlgebra == GD_MIN_PLUS;
  static constexpr bool kSwallows = kAlgebra != GD_MAX_TIMES;

  // What no term beats: the zero of all but max-times.
  static constexpr T worst() {
    if constexpr (kFloat)
      return kMaximum ? -Limits::infinity() : Limits::infinity();
    else
      return kMaximum ? Limits::min() : Limits::max();
  }
  static constexpr T empty() { return kAlgebra == GD_MAX_TIMES ? T(0) : worst(); }

  // The zero swallows: worst + x = worst, also for -inf + inf and inf * 0. Other integer sums
  // saturate.
  static T term(T a, T b) {
    if constexpr (kAlgebra == GD_MAX_TIMES) {
      return a * b;
    } else if constexpr (kFloat) {
      const T s = kAlgebra == GD_MIN_TIMES ? a * b : a + b;
      return ((s != s) & (a == a) & (b == b)) ? worst() : s;
    } else {
      T s = a * b;
      if (kAlgebra != GD_MIN_TIMES && __builtin_add_overflow(a, b, &s))
        s = a < 0 ? Limits::min() : Limits::max();
      return a == worst() || b == worst() ? worst() : s;
    }
  }
  static bool beats(T x, T best) {
    if constexpr (kFloat)
      return (best == best) & ((x != x) | (kMaximum ? x > best : x < best));
    else
      return kMaximum ? x > best : x < best;
  }
};

// Stored is what out holds (f32 for f16 and bf16, rounded afterwards).
template <class Element, class T, class A, bool kWinners>
struct TropicalEngine {
  using In = Element;
  using Real = T;
  using Tile = TropicalTile<T>;
  static constexpr int64_t kPlanes = 1, kMr = Tile::kMr, kNr = Tile::kNr;
  // A panel of 4 KiB a row; winners are compared across blocks, so of them there are few.
  static constexpr int64_t kKc = kWinners ? 1024 : 4096 / int64_t(sizeof(T));
  static constexpr int64_t kNote = 64 / int64_t(sizeof(T));  // whether a panel is everyday
  static constexpr bool kCommutes = true;

  struct Target {
    T* out;
    int64_t* winner;  // or null
    bool no_terms;
  };

  static void put(T* to, int64_t i, int64_t, In x, bool brain) {
    if constexpr (sizeof(In) == 2)
      to[i] = widen(x, brain);
    else
      to[i] = x;
  }
  static void note(T* panel, int64_t n) { panel[n] = T(everyday<A>(panel, n)); }
  static void micro(int64_t kc, const T* a, const T* b, Tile& tile) {
    tile.a = a;
    tile.b = b;
    tile.k = kc;
    tropical_tile<A, kWinners>(tile, a[kc * kMr] != T(0) && b[kc * kNr] != T(0));
  }
  template <class Rows, class Columns>
  static void fetch(const Target& t, const Rows& rows, int64_t r, int64_t nr,
                    const Columns& columns, int64_t c, int64_t nc) {
    for (int64_t i = 0; i < nr; ++i) {
      const T* const row = t.out + rows.at[kOut][r + i];
      __builtin_prefetch(row + columns.at[kOut][c], 1);
      __builtin_prefetch(row + columns.at[kOut][c + nc - 1], 1);
      if constexpr (kWinners) {
        const int64_t* const winner = t.winner + rows.at[kWinner][r + i];
        __builtin_prefetch(winner + columns.at[kWinner][c], 1);
        __builtin_prefetch(winner + columns.at[kWinner][c + nc - 1], 1);
      }
    }
  }
  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, KBlock block, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    const int64_t* const at = columns.at[kOut] + c;
    const bool whole = tile.chunks && !t.no_terms && nc == kNr && unit_steps(at, kNr);
    for (int64_t i = 0; i < nr; ++i) {
      T* const out = t.out + rows.at[kOut][r + i];
      const T* const best = tile.best + i * kNr;
      if constexpr (kWinners) {
        int64_t* const winner = t.winner + rows.at[kWinner][r + i];
        for (int64_t j = 0; j < nc; ++j) {
          T& to = out[at[j]];
          if (!block.first && !A::beats(best[j], to)) continue;
          to = t.no_terms ? A::empty() : best[j];
          const int64_t k = tile.template winner<A>(i, j);
          winner[columns.at[kWinner][c + j]] = k < 0 ? -1 : block.k0 + k;
        }
      } else if (whole) {
        for (int64_t j = 0; j < kNr; j += kLanesOf<T>) {
          const Lanes<T> x = lanes_at(best + j);
          T* const to = out + at[j];
          put_lanes(to, block.first ? x : best_of<A>(x, lanes_at(to)));
        }
      } else {
        for (int64_t j = 0; j < nc; ++j) {
          T& to = out[at[j]];
          if (block.first || A::beats(best[j], to)) to = t.no_terms ? A::empty() : best[j];
        }
      }
    }
  }
};

template <class T, class A, bool kWinners>
gd_status multiply_with(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<T, T, A, kWinners>;
  return for_batches(d, x, e, [&](int64_t b) {
    const typename E::Target target{o.start<T>(kOut, x.batch, b),
                                    o.start<int64_t>(kWinner, x.batch, b), x.k.count == 0};
    return Gemm<E>(d, x, o, target, b).run();
  });
}

template <class T, class A>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return (o.data[kWinner] ? multiply_with<T, A, true> : multiply_with<T, A, false>)(d, x, o, e);
}

template <class A, bool kWinners>
gd_status multiply_16_bit_with(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<uint16_t, float, A, kWinners>;
  const bool brain = x.dtype == GD_BF16;
  return through_f32(
      d, x, o, e,
      [&](const Contraction& dense, const Operands& raw, float* best, int64_t b) {
        const typename E::Target target{best, o.start<int64_t>(kWinner, x.batch, b),
                                        x.k.count == 0};
        return Gemm<E>(d, dense, raw, target, b).run();
      },
      [=](uint16_t& to, float best, const uint16_t*) { to = narrow(best, brain); });
}

template <class A>
gd_status multiply_16_bit(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return (o.data[kWinner] ? multiply_16_bit_with<A, true> : multiply_16_bit_with<A, false>)(d, x, o,
                                                                                            e);
}

template <class T, class A>
gd_status multiply_thin(gd_device* d, const Contraction& x, const Operands& o, gd_error*) {
  ThinTropical<T, A>(d, x, o).run();
  return GD_OK;
}

template <class T, class A>
void plan(Contraction& x) {
  if (ThinTropical<T, A>::suits(x)) {
    x.m.take(output_axes(x));
    x.n.rank = x.batch.rank = 0;
    x.n.count = x.batch.count = 1;
    x.run = multiply_thin<T, A>;
    return;
  }
  orient<TropicalEngine<T, T, A, false>>(x);
  x.run = multiply<T, A>;
}
template <class A>
void plan_16_bit(Contraction& x) {
  orient<TropicalEngine<uint16_t, float, A, false>>(x);
  x.conj_a = x.conj_b = x.dtype == GD_BF16;
  x.run = multiply_16_bit<A>;
}

template <int kAlgebra>
void plan_dtype(Contraction& x) {
  switch (x.dtype) {
    case GD_F32:
      return plan<float, Algebra<float, kAlgebra>>(x);
    case GD_F64:
      return plan<double, Algebra<double, kAlgebra>>(x);
    case GD_F16:
    case GD_BF16:
      return plan_16_bit<Algebra<float, kAlgebra>>(x);
    case GD_I32:
      return plan<int32_t, Algebra<int32_t, kAlgebra>>(x);
    default:
      return plan<int64_t, Algebra<int64_t, kAlgebra>>(x);
  }
}

}  // namespace

void plan_tropical(Contraction& x) {
  switch (x.algebra) {
    case GD_MAX_PLUS:
      return plan_dtype<GD_MAX_PLUS>(x);
    case GD_MIN_PLUS:
      return plan_dtype<GD_MIN_PLUS>(x);
    case GD_MAX_TIMES:
      return plan_dtype<GD_MAX_TIMES>(x);
    default:
      return plan_dtype<GD_MIN_TIMES>(x);
  }
}

}  // namespace gradus::cpu
