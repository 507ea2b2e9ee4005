// Packing for the real contraction: lines (rows of a, columns of b) from anywhere into a panel that
// holds, for each k, its lines side by side. Fast where the lines are neighbours, where runs of
// them are, and where the steps of k are (blocks are transposed in registers).
#pragma once
#include "kernels/cpu/isa/tile.hpp"

#include <string.h>

namespace gradus::cpu {

// A square block: to[i * step + j] = from[j][i].
template <class T>
struct Square {
#if defined(__AVX2__)
  static constexpr int64_t kSide = 32 / int64_t(sizeof(T));
#elif defined(__SSE2__)
  static constexpr int64_t kSide = 16 / int64_t(sizeof(T));
#else
  static constexpr int64_t kSide = 2;
#endif
  static void transpose(const T* const* from, int64_t k, T* to, int64_t step) {
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      __m256 r[8], s[8];
      for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from[i] + k);
      for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
      }
      for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(to + i * step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * step, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
      }
    } else {
      __m256d r[4], s[4];
      for (int i = 0; i < 4; ++i) r[i] = _mm256_loadu_pd(from[i] + k);
      for (int i = 0; i < 4; i += 2) {
        s[i] = _mm256_unpacklo_pd(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_pd(r[i], r[i + 1]);
      }
      for (int i = 0; i < 2; ++i) {
        _mm256_storeu_pd(to + i * step, _mm256_permute2f128_pd(s[i], s[i + 2], 0x20));
        _mm256_storeu_pd(to + (i + 2) * step, _mm256_permute2f128_pd(s[i], s[i + 2], 0x31));
      }
    }
#elif defined(__SSE2__)
    if constexpr (sizeof(T) == 4) {
      __m128 r[4];
      for (int i = 0; i < 4; ++i) r[i] = _mm_loadu_ps(from[i] + k);
      _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
      for (int i = 0; i < 4; ++i) _mm_storeu_ps(to + i * step, r[i]);
    } else {
      const __m128d r0 = _mm_loadu_pd(from[0] + k), r1 = _mm_loadu_pd(from[1] + k);
      _mm_storeu_pd(to, _mm_unpacklo_pd(r0, r1));
      _mm_storeu_pd(to + step, _mm_unpackhi_pd(r0, r1));
    }
#else
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j) to[i * step + j] = from[j][k + i];
#endif
  }
};

// n contiguous elements; what is written beyond them, up to a whole vector, is zero.
template <class T>
inline void copy_run(const T* from, int64_t n, T* to) {
  using B = Batch<T>;
  constexpr int64_t kWidth = int64_t(B::size);
  for (; n >= kWidth; n -= kWidth, from += kWidth, to += kWidth)
    B::load_unaligned(from).store_unaligned(to);
  if (n > 0) Some<T>(n).load(from).store_unaligned(to);
}

inline bool unit_steps(const int64_t* at, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (at[i] != at[0] + i) return false;
  return true;
}

// to[k * width + i] = from[at[i] + k_at[k]] for i < n <= width. Writes up to one vector beyond the
// panel.
template <class T>
void pack_lines(const T* from, const int64_t* at, int64_t n, int64_t width, const int64_t* k_at,
                int64_t kc, bool k_unit, T* to) {
  if (unit_steps(at, n)) {
    for (int64_t k = 0; k < kc; ++k) copy_run(from + at[0] + k_at[k], n, to + k * width);
    return;
  }
  if (k_unit && kc > 1) {
    constexpr int64_t kSide = Square<T>::kSide;
    int64_t i = 0;
    for (; i + kSide <= n; i += kSide) {
      const T* line[kSide];
      for (int64_t s = 0; s < kSide; ++s) line[s] = from + at[i + s] + k_at[0];
      int64_t k = 0;
      for (; k + kSide <= kc; k += kSide) Square<T>::transpose(line, k, to + k * width + i, width);
      for (; k < kc; ++k)
        for (int64_t s = 0; s < kSide; ++s) to[k * width + i + s] = line[s][k];
    }
    for (; i < n; ++i) {
      const T* line = from + at[i] + k_at[0];
      for (int64_t k = 0; k < kc; ++k) to[k * width + i] = line[k];
    }
    return;
  }
  constexpr int64_t kMost = 64;
  int64_t first[kMost], length[kMost], runs = 0;
  for (int64_t i = 0; i < n && runs < kMost; i += length[runs++]) {
    first[runs] = i;
    length[runs] = 1;
    while (i + length[runs] < n && at[i + length[runs]] == at[i] + length[runs]) ++length[runs];
  }
  if (runs * 3 <= n) {  // one after the other: a run's zeros are overwritten by the next
    for (int64_t k = 0; k < kc; ++k)
      for (int64_t r = 0; r < runs; ++r)
        copy_run(from + at[first[r]] + k_at[k], length[r], to + k * width + first[r]);
    return;
  }
  for (int64_t k = 0; k < kc; ++k)
    for (int64_t i = 0; i < n; ++i) to[k * width + i] = from[at[i] + k_at[k]];
}

}  // namespace gradus::cpu
