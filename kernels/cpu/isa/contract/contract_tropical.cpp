// contract in the algebras max-plus, min-plus and max-times: the best term in the place of the sum,
// the first of equal ones, the first NaN above all. Winners are counted within a block of k and
// compared across blocks at the store.
#include "kernels/cpu/isa/contract/gemm.hpp"

#include <limits>
#include <type_traits>

namespace gradus::inline v1::cpu {
namespace {

template <class T, int kAlgebra>
struct Algebra {
  using Limits = std::numeric_limits<T>;
  static constexpr bool kFloat = Limits::has_infinity, kMaximum = kAlgebra != GD_MIN_PLUS;

  // What no term beats: the zero of max-plus and min-plus.
  static constexpr T worst() {
    if constexpr (kFloat)
      return kMaximum ? -Limits::infinity() : Limits::infinity();
    else
      return kMaximum ? Limits::min() : Limits::max();
  }
  static constexpr T empty() { return kAlgebra == GD_MAX_TIMES ? T(0) : worst(); }

  // The zero swallows: worst + x = worst, also for -inf + inf. Other integer sums saturate.
  static T term(T a, T b) {
    if constexpr (kAlgebra == GD_MAX_TIMES) {
      return a * b;
    } else if constexpr (kFloat) {
      const T s = a + b;
      return ((s != s) & (a == a) & (b == b)) ? worst() : s;
    } else {
      T s;
      const bool over = __builtin_add_overflow(a, b, &s);
      if (over) s = a < 0 ? Limits::min() : Limits::max();
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
template <class Element, class T, class A>
struct TropicalEngine {
  using In = Element;
  using Real = T;
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // k within a block
  static constexpr int64_t kPlanes = 1, kMr = 4, kNr = 16, kKc = 256;
  static constexpr bool kCommutes = true;

  struct Tile {
    alignas(64) T at[kMr * kNr];
    alignas(64) Place place[kMr * kNr];
  };
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
  static void micro(int64_t kc, const T* a, const T* b, Tile& tile) {
    T best[kMr][kNr];
    Place place[kMr][kNr];
    for (int64_t i = 0; i < kMr; ++i)
      for (int64_t j = 0; j < kNr; ++j) {
        best[i][j] = A::worst();
        place[i][j] = -1;
      }
    for (Place k = 0; k < Place(kc); ++k, a += kMr, b += kNr)
      for (int64_t i = 0; i < kMr; ++i)
        for (int64_t j = 0; j < kNr; ++j) {
          const T x = A::term(a[i], b[j]);
          const bool wins = A::beats(x, best[i][j]);
          best[i][j] = wins ? x : best[i][j];
          place[i][j] = wins ? k : place[i][j];
        }
    memcpy(tile.at, best, sizeof best);
    memcpy(tile.place, place, sizeof place);
  }
  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, KBlock block, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    for (int64_t i = 0; i < nr; ++i)
      for (int64_t j = 0; j < nc; ++j) {
        T& to = t.out[rows.at[kOut][r + i] + columns.at[kOut][c + j]];
        const T x = tile.at[i * kNr + j];
        const int64_t place = tile.place[i * kNr + j];
        if (!block.first && !A::beats(x, to)) continue;
        to = t.no_terms ? A::empty() : x;
        if (t.winner)
          t.winner[rows.at[kWinner][r + i] + columns.at[kWinner][c + j]] =
              place < 0 ? -1 : block.k0 + place;
      }
  }
};

template <class T, class A>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<T, T, A>;
  return for_batches(d, x, e, [&](int64_t b) {
    const typename E::Target target{o.start<T>(kOut, x.batch, b),
                                    o.start<int64_t>(kWinner, x.batch, b), x.k.count == 0};
    return Gemm<E>(d, x, o, target, b).run();
  });
}

template <class A>
gd_status multiply_16_bit(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<uint16_t, float, A>;
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

template <class T, class A>
void plan(Contraction& x) {
  orient<TropicalEngine<T, T, A>>(x);
  x.run = multiply<T, A>;
}
template <class A>
void plan_16_bit(Contraction& x) {
  orient<TropicalEngine<uint16_t, float, A>>(x);
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
    default:
      return plan_dtype<GD_MAX_TIMES>(x);
  }
}

}  // namespace gradus::cpu
