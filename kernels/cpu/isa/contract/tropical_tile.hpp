// The register block of a tropical contraction: rows of packed a times columns of packed b. Plain
// numbers take two instructions for each term, a sum (or product) and a maximum. Their winners are
// counted in chunks of k: after each chunk the lanes that got better remember which one it was, and
// the place within it is looked up only for what is stored. Rows with rare numbers (see
// tropical_lanes.hpp) go one by one, term by term.
#pragma once
#include "kernels/cpu/isa/contract/tropical_lanes.hpp"

#include <utility>

namespace gradus::inline v1::cpu {

// With a line of b, one broadcast and one term they fill the registers.
inline constexpr int64_t kTropicalVectors = 2;
#if defined(__AVX512BW__)
inline constexpr int64_t kTropicalRows = 12;
#else
inline constexpr int64_t kTropicalRows = 6;
#endif
inline constexpr int64_t kChunk = 16;  // of k

template <class T>
struct TropicalTile {
  static constexpr int64_t kMr = kTropicalRows, kNr = kTropicalVectors * kLanesOf<T>;
  alignas(64) T best[kMr * kNr];
  alignas(64) T place[kMr * kNr];  // a chunk of k, or with rare numbers k itself; -1: none
  const T *a, *b;
  int64_t k;
  bool chunks;

  // The first k in the block that gave the winner of row i, column j; -1: none.
  template <class A>
  int64_t winner(int64_t i, int64_t j) const {
    const int64_t found = int64_t(place[i * kNr + j]);
    if (found < 0 || !chunks) return found;
    const int64_t first = found * kChunk;
    const T *x = a + first * kMr + i, *y = b + first * kNr + j, z = best[i * kNr + j];
    if (first + kChunk > k) {
      int64_t t = first;
      while (plain_term<A>(*x, *y) != z) ++t, x += kMr, y += kNr;
      return t;
    }
    uint32_t equal = 0;
    for (int t = 0; t < kChunk; ++t)
      equal |= uint32_t(plain_term<A>(x[t * kMr], y[t * kNr]) == z) << t;
    return first + __builtin_ctz(equal);
  }
};

// n steps of k from the bests at `from`, or from the start; not inline, since registers that a
// caller keeps would be missing here.
template <class A, size_t... I>
[[gnu::noinline]] void plain_steps(const typename A::Value* a, const typename A::Value* b,
                                   int64_t n, const typename A::Value* from, typename A::Value* to,
                                   std::index_sequence<I...>) {
  using T = typename A::Value;
  using V = Lanes<T>;
  constexpr int64_t kWidth = kLanesOf<T>, kMr = TropicalTile<T>::kMr, kNr = TropicalTile<T>::kNr,
                    kVs = kTropicalVectors;
  V best[sizeof...(I)];
  if (from)
    ((best[I] = lanes_at(from + I * kWidth)), ...);
  else
    ((best[I] = all_lanes(A::worst())), ...);
#pragma GCC unroll 4
  for (; n > 0; --n, a += kMr, b += kNr) {
    V line[kVs];
    for (int v = 0; v < kVs; ++v) line[v] = lanes_at(b + v * kWidth);
    ((best[I] = best_of<A>(plain_term<A>(all_lanes(a[I / kVs]), line[I % kVs]), best[I])), ...);
  }
  (put_lanes(to + I * kWidth, best[I]), ...);
}

template <class A, bool kPlaces>
void plain_tile(TropicalTile<typename A::Value>& to) {
  using T = typename A::Value;
  using Tile = TropicalTile<T>;
  constexpr auto all = std::make_index_sequence<kTropicalRows * kTropicalVectors>();
  if constexpr (!kPlaces) return plain_steps<A>(to.a, to.b, to.k, nullptr, to.best, all);
  constexpr int64_t kAll = Tile::kMr * Tile::kNr, kWidth = kLanesOf<T>;
  alignas(64) T next[kAll];
  for (int64_t i = 0; i < kAll; ++i) to.best[i] = A::worst(), to.place[i] = T(-1);
  for (int64_t k = 0; k < to.k; k += kChunk) {
    plain_steps<A>(to.a + k * Tile::kMr, to.b + k * Tile::kNr,
                   k + kChunk < to.k ? kChunk : to.k - k, to.best, next, all);
    const Lanes<T> chunk = all_lanes(T(k / kChunk));
    for (int64_t i = 0; i < kAll; i += kWidth) {
      const Lanes<T> now = lanes_at(next + i);
      put_lanes(to.place + i,
                better<A>(now, lanes_at(to.best + i)) ? chunk : lanes_at(to.place + i));
      put_lanes(to.best + i, now);
    }
  }
}

template <class A>
[[gnu::noinline]] void exact_tile(TropicalTile<typename A::Value>& to) {
  using T = typename A::Value;
  using V = Lanes<T>;
  constexpr int64_t kWidth = kLanesOf<T>, kMr = TropicalTile<T>::kMr, kNr = TropicalTile<T>::kNr;
  for (int64_t i = 0; i < kMr; ++i)
    for (int64_t j = 0; j < kNr; j += kWidth) {
      V best = all_lanes(A::worst()), place = all_lanes(T(-1)), at = all_lanes(T(0));
      const T *a = to.a + i, *b = to.b + j;
      for (int64_t k = 0; k < to.k; ++k, a += kMr, b += kNr, at += T(1)) {
        const ExactTerm<A, T> x(all_lanes(*a), lanes_at(b), best);
        best = x.wins ? x.value : best;
        place = x.wins ? at : place;
      }
      put_lanes(to.best + i * kNr + j, best);
      put_lanes(to.place + i * kNr + j, place);
    }
}

template <class A, bool kPlaces>
inline void tropical_tile(TropicalTile<typename A::Value>& to, bool everyday) {
  to.chunks = everyday;
  if (everyday)
    plain_tile<A, kPlaces>(to);
  else
    exact_tile<A>(to);
}

}  // namespace gradus::cpu
