// The tree of join_lanes (fold.hpp) in registers: over lanes that are vectors, depth first, so that
// few of them wait; and over the numbers in one vector or in a few.
#pragma once
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

#include <utility>

namespace gradus::inline v1::cpu {

// The sum of lanes kFirst, kFirst + kStep, ... of those below n; lane(l) gives one.
template <int kFirst, int kStep, class B, class F>
__attribute__((always_inline)) inline B lane_tree(int64_t n, const F& lane) {
  if constexpr (kStep == kLanes) {
    return lane(kFirst);
  } else {
    const B x = lane_tree<kFirst, 2 * kStep, B>(n, lane);
    return kFirst + kStep < n ? x + lane_tree<kFirst + kStep, 2 * kStep, B>(n, lane) : x;
  }
}

// The numbers of one batch: its upper half onto the lower one. join is of vectors and of numbers.
template <class T, int n, class V, class J>
__attribute__((always_inline)) inline T joined(V x, J join) {
  typedef T Whole __attribute__((vector_size(n * sizeof(T))));
  const Whole v = __builtin_bit_cast(Whole, x);
  if constexpr (n == 2) {
    return join(v[0], v[1]);
  } else {
    return [&]<int... i>(std::integer_sequence<int, i...>) {
      return joined<T, n / 2>(
          join(__builtin_shufflevector(v, v, i...), __builtin_shufflevector(v, v, (i + n / 2)...)),
          join);
    }
    (std::make_integer_sequence<int, n / 2>());
  }
}
// All kLanes of them, in batches; x is lost.
template <class T, class J>
__attribute__((always_inline)) inline T joined_lanes(Batch<T>* x, J join) {
  constexpr int64_t width = int64_t(Batch<T>::size);
#pragma GCC unroll 16
  for (int64_t half = kLanes / width / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int64_t k = 0; k < half; ++k) x[k] = join(x[k].data, x[k + half].data);
  return joined<T, int(width)>(x[0].data, join);
}
inline constexpr auto sum_of = [](auto a, auto b) { return a + b; };
inline constexpr auto larger_of = [](auto a, auto b) { return b > a ? b : a; };

}  // namespace gradus::cpu
