// Lanes of a vector taken in pairs: complex numbers as they lie in memory.
#pragma once
#include "kernels/cpu/isa/words/batch.hpp"

namespace gradus::inline v1::cpu {

// (x0, x0, x2, x2, ...), (x1, x1, x3, x3, ...) and (x1, x0, x3, x2, ...).
template <class T>
inline Batch<T> first_of_pairs(Batch<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_moveldup_ps(x);
  else
    return _mm512_movedup_pd(x);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return _mm256_moveldup_ps(x);
  else
    return _mm256_movedup_pd(x);
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4)
    return _mm_shuffle_ps(x, x, _MM_SHUFFLE(2, 2, 0, 0));
  else
    return _mm_shuffle_pd(x, x, 0);
#else
  if constexpr (sizeof(T) == 4)
    return vtrn1q_f32(x, x);
  else
    return vtrn1q_f64(x, x);
#endif
}
template <class T>
inline Batch<T> second_of_pairs(Batch<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_movehdup_ps(x);
  else
    return _mm512_permute_pd(x, 0xff);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return _mm256_movehdup_ps(x);
  else
    return _mm256_permute_pd(x, 0xf);
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4)
    return _mm_shuffle_ps(x, x, _MM_SHUFFLE(3, 3, 1, 1));
  else
    return _mm_shuffle_pd(x, x, 3);
#else
  if constexpr (sizeof(T) == 4)
    return vtrn2q_f32(x, x);
  else
    return vtrn2q_f64(x, x);
#endif
}
template <class T>
inline Batch<T> swapped_pairs(Batch<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
  else
    return _mm512_permute_pd(x, 0x55);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return _mm256_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
  else
    return _mm256_permute_pd(x, 0x5);
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4)
    return _mm_shuffle_ps(x, x, _MM_SHUFFLE(2, 3, 0, 1));
  else
    return _mm_shuffle_pd(x, x, 1);
#else
  if constexpr (sizeof(T) == 4)
    return vrev64q_f32(x);
  else
    return vextq_f64(x, x, 1);
#endif
}
// -0 in the first or the second lanes of pairs, +0 in the others: x ^ signs turns those.
template <class T>
inline Batch<T> signs(bool first, bool second) {
  T lanes[Batch<T>::size];
  for (size_t i = 0; i < Batch<T>::size; i += 2) {
    lanes[i] = first ? T(-0.0) : T(0);
    lanes[i + 1] = second ? T(-0.0) : T(0);
  }
  return Batch<T>::load_unaligned(lanes);
}

}  // namespace gradus::cpu
