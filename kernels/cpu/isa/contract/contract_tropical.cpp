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

// Row i of a tile on its way to out.
template <class T>
struct Row {
  int64_t i, n;
  T* out;
  const int64_t* at;  // of columns, in out
  int64_t* winner;    // or null
  const int64_t* winner_at;
  KBlock block;
  bool whole, no_terms;  // side by side in out, a full tile; an empty sum
};

template <class A, bool kWinners>
void put_row(const TropicalTile<typename A::Value>& tile, const Row<typename A::Value>& row) {
  using T = typename A::Value;
  constexpr int64_t kNr = TropicalTile<T>::kNr;
  const T* const best = tile.best + row.i * kNr;
  if (!kWinners && row.whole) {
    for (int64_t j = 0; j < kNr; j += kLanesOf<T>) {
      const Lanes<T> x = lanes_at(best + j);
      T* const to = row.out + row.at[j];
      put_lanes(to, row.block.first ? x : best_of<A>(x, lanes_at(to)));
    }
    return;
  }
  for (int64_t j = 0; j < row.n; ++j) {
    T& to = row.out[row.at[j]];
    if (!row.block.first && !A::beats(best[j], to)) continue;
    to = row.no_terms ? A::empty() : best[j];
    if constexpr (kWinners) {
      const int64_t k = tile.template winner<A>(row.i, j);
      row.winner[row.winner_at[j]] = k < 0 ? -1 : row.block.k0 + k;
    }
  }
}

// What the blocked loops, which are compiled once for all algebras of a T, ask of one; each pair
// is without and with winners.
template <class T>
struct Words {
  bool (*everyday)(const T* panel, int64_t n);
  void (*tile[2])(TropicalTile<T>&, bool everyday);
  void (*put_row[2])(const TropicalTile<T>&, const Row<T>&);
};
template <class A, class T = typename A::Value>
constexpr Words<T> kWords = {everyday<A, T>,
                             {tropical_tile<A, false>, tropical_tile<A, true>},
                             {put_row<A, false>, put_row<A, true>}};

// f(Algebra<T, ...>()) of an algebra that is known at run time.
template <class T, class F>
auto with_algebra(int32_t algebra, F&& f) {
  switch (algebra) {
    case GD_MAX_PLUS:
      return f(Algebra<T, GD_MAX_PLUS>());
    case GD_MIN_PLUS:
      return f(Algebra<T, GD_MIN_PLUS>());
    case GD_MAX_TIMES:
      return f(Algebra<T, GD_MAX_TIMES>());
    default:
      return f(Algebra<T, GD_MIN_TIMES>());
  }
}

// Element is what a and b hold: T, or f16 and bf16 whose T is float, rounded afterwards.
template <class Element, class T, bool kWinners>
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
    const Words<T>& words;

    Target(const Contraction& x, const Operands& o, T* best, int64_t b)
        : out(best),
          winner(o.start<int64_t>(kWinner, x.batch, b)),
          no_terms(x.k.count == 0),
          words(*with_algebra<T>(x.algebra, [](auto a) { return &kWords<decltype(a)>; })) {}
  };

  static void put(T* to, int64_t i, int64_t, In x, bool brain) {
    if constexpr (sizeof(In) == 2)
      to[i] = widen(x, brain);
    else
      to[i] = x;
  }
  static void note(const Target& t, T* panel, int64_t n) {
    panel[n] = T(t.words.everyday(panel, n));
  }
  static void micro(const Target& t, int64_t kc, const T* a, const T* b, Tile& tile) {
    tile.a = a;
    tile.b = b;
    tile.k = kc;
    t.words.tile[kWinners](tile, a[kc * kMr] != T(0) && b[kc * kNr] != T(0));
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
    Row<T> row{0, nc, nullptr, at, nullptr, columns.at[kWinner] + c, block, false, t.no_terms};
    row.whole = tile.chunks && !t.no_terms && nc == kNr && unit_steps(at, kNr);
    for (; row.i < nr; ++row.i) {
      row.out = t.out + rows.at[kOut][r + row.i];
      if constexpr (kWinners) row.winner = t.winner + rows.at[kWinner][r + row.i];
      t.words.put_row[kWinners](tile, row);
    }
  }
};

template <class T, bool kWinners>
gd_status multiply_with(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<T, T, kWinners>;
  return for_batches(d, x, e, [&](int64_t b) {
    const typename E::Target target(x, o, o.start<T>(kOut, x.batch, b), b);
    return Gemm<E>(d, x, o, target, b).run();
  });
}
template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return (o.data[kWinner] ? multiply_with<T, true> : multiply_with<T, false>)(d, x, o, e);
}

template <bool kWinners>
gd_status multiply_16_bit_with(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = TropicalEngine<uint16_t, float, kWinners>;
  const bool brain = x.dtype == GD_BF16;
  return through_f32(
      d, x, o, e,
      [&](const Contraction& dense, const Operands& raw, float* best, int64_t b) {
        const typename E::Target target(x, o, best, b);
        return Gemm<E>(d, dense, raw, target, b).run();
      },
      [=](uint16_t& to, float best, const uint16_t*) { to = narrow(best, brain); });
}
gd_status multiply_16_bit(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return (o.data[kWinner] ? multiply_16_bit_with<true> : multiply_16_bit_with<false>)(d, x, o, e);
}

template <class A>
gd_status multiply_thin(gd_device* d, const Contraction& x, const Operands& o, gd_error*) {
  ThinTropical<A>(d, x, o).run();
  return GD_OK;
}

template <class T>
void plan(Contraction& x) {
  if (thin<T>(x)) {
    x.m.take(output_axes(x));
    x.n.rank = x.batch.rank = 0;
    x.n.count = x.batch.count = 1;
    x.run = with_algebra<T>(x.algebra, [](auto a) -> Engine { return multiply_thin<decltype(a)>; });
    return;
  }
  orient<TropicalEngine<T, T, false>>(x);
  x.run = multiply<T>;
}
void plan_16_bit(Contraction& x) {
  orient<TropicalEngine<uint16_t, float, false>>(x);
  x.conj_a = x.conj_b = x.dtype == GD_BF16;
  x.run = multiply_16_bit;
}

}  // namespace

void plan_tropical(Contraction& x) {
  switch (x.dtype) {
    case GD_F32:
      return plan<float>(x);
    case GD_F64:
      return plan<double>(x);
    case GD_F16:
    case GD_BF16:
      return plan_16_bit(x);
    case GD_I32:
      return plan<int32_t>(x);
    default:
      return plan<int64_t>(x);
  }
}

}  // namespace gradus::cpu
