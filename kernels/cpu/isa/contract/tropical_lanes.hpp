// Vectors of any number type for the tropical algebras, in the compiler's own vector types: best
// and term of floats and integers are the same words there, and a comparison selects exactly as it
// says, so that x > best ? x : best is one instruction where the set has it. An algebra A says
// Value, kPlus (terms are sums), kMaximum, worst(), what no term beats, and kSwallows (a term with
// it is it).
#pragma once
#include "kernels/cpu/isa/words/batch.hpp"

#include <limits>
#include <string.h>

namespace gradus::inline v1::cpu {

template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(sizeof(typename Batch<float>::register_type))));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
template <class T>
inline constexpr int64_t kLanesOf = int64_t(sizeof(Lanes<T>) / sizeof(T));

template <class T>
inline Lanes<T> lanes_at(const T* p) {
  Lanes<T> x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
inline void put_lanes(T* p, Lanes<T> x) {
  memcpy(p, &x, sizeof x);
}
template <class T>
inline Lanes<T> all_lanes(T x) {
  return x - Lanes<T>{};  // not +: a -0 would become +0
}
template <class Mask>
inline bool any_lane(Mask m) {
  bool any = false;
  for (size_t i = 0; i < sizeof m / sizeof m[0]; ++i) any = any | (m[i] != 0);
  return any;
}

// The term of everyday numbers, and the better of two, the earlier of equal ones. A NaN, here the
// sum of opposite infinities, never wins: that is what the zero, which swallows all, would do.
template <class A, class X>
inline X plain_term(X a, X b) {
  if constexpr (A::kPlus)
    return a + b;
  else
    return a * b;
}
template <class A, class X>
inline auto better(X x, X best) {
  if constexpr (A::kMaximum)
    return x > best;
  else
    return x < best;
}
template <class A, class X>
inline X best_of(X x, X best) {
  return better<A>(x, best) ? x : best;
}

// Does the plain term say it all? Not where a number is NaN or may make one, nor where an integer
// is the zero or a sum might saturate.
template <class A, class T>
inline bool everyday(const T* x, int64_t n) {
  constexpr bool kInteger = !std::numeric_limits<T>::has_infinity;
  if constexpr (kInteger && !A::kPlus && !A::kSwallows) return true;
  using V = Lanes<T>;
  constexpr T kHalf = kInteger ? std::numeric_limits<T>::max() / 2 : T(0);
  auto rare = [](V v) {
    if constexpr (kInteger && !A::kPlus)
      return v == A::worst();
    else if constexpr (kInteger)
      return (v > kHalf) | (v < -kHalf);
    else if constexpr (A::kPlus)
      return v != v;
    else
      return (v - v) != (v - v);
  };
  decltype(rare(V{})) found{};
  int64_t i = 0;
  for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) found |= rare(lanes_at(x + i));
  if (i < n) {
    V rest{};
    memcpy(&rest, x + i, size_t(n - i) * sizeof(T));
    found |= rare(rest);
  }
  return !any_lane(found);
}

// A term of any numbers, and where it wins against the best so far.
template <class A, class T>
struct ExactTerm {
  using V = Lanes<T>;
  V value;
  decltype(V{} > V{}) wins;

  ExactTerm(V a, V b, V best) {
    using Limits = std::numeric_limits<T>;
    value = plain_term<A>(a, b);
    if constexpr (Limits::has_infinity) {
      const auto nan = A::kSwallows ? (b != b) | (a != a) : value != value;
      wins = better<A>(value, best) | (nan & (best == best));
    } else if constexpr (A::kPlus) {
      const V over = (value ^ a) & (value ^ b);
      const V end = a < 0 ? all_lanes(Limits::min()) : all_lanes(Limits::max());
      value = over < 0 ? end : value;
      wins = better<A>(value, best) & (b != A::worst()) & (a != A::worst());
    } else {
      wins = better<A>(value, best);
      if constexpr (A::kSwallows) wins = wins & (b != A::worst()) & (a != A::worst());
    }
  }
};

}  // namespace gradus::cpu
