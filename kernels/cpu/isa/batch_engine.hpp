// Batch elements side by side: where neighbours in memory are batch elements, an element of Gemm is
// a vector of them, and every product one multiply-add of vectors. The order of each sum is that of
// contract_real.cpp, so are the bits.
#pragma once
#include "kernels/cpu/isa/gemm.hpp"

namespace gradus::cpu {

template <class R, int64_t kBlock>
struct BatchEngine {
  using In = R;
  using Real = R;
  using B = Batch<R>;
#if defined(__AVX512BW__)
  static constexpr int64_t kMr = 4, kNr = 6;
#else
  static constexpr int64_t kMr = 3, kNr = 3;
#endif
  static constexpr int64_t kPlanes = int64_t(B::size), kKc = kBlock;
  static constexpr bool kCommutes = true;

  struct Tile {
    alignas(64) R at[kMr * kNr * kPlanes];
  };
  struct Target {
    R* out;
    const R* bias;
    int64_t bias_step;  // from one batch element to the next
    R alpha, beta;
  };

  // `first` is the element of the first of the batch elements.
  static void put(R* to, int64_t i, int64_t, const R& first, bool) {
    B::load_unaligned(&first).store_aligned(to + i * kPlanes);
  }

  template <size_t... I>
  static void micro_unrolled(int64_t kc, const R* a, const R* b, R* to, std::index_sequence<I...>) {
    B sum[sizeof...(I)];
    ((sum[I] = B(R(0))), ...);
    for (int64_t k = 0; k < kc; ++k, a += kMr * kPlanes, b += kNr * kPlanes) {
      B line[kNr];
      for (int64_t j = 0; j < kNr; ++j) line[j] = B::load_aligned(b + j * kPlanes);
      ((sum[I] = fused<R>(B::load_aligned(a + int64_t(I) / kNr * kPlanes), line[I % kNr], sum[I])),
       ...);
    }
    ((sum[I].store_aligned(to + int64_t(I) * kPlanes)), ...);
  }
  static void micro(int64_t kc, const R* a, const R* b, Tile& tile) {
    micro_unrolled(kc, a, b, tile.at, std::make_index_sequence<size_t(kMr * kNr)>());
  }

  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, KBlock block, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    for (int64_t i = 0; i < nr; ++i)
      for (int64_t j = 0; j < nc; ++j) {
        R* const to = t.out + rows.at[kOut][r + i] + columns.at[kOut][c + j];
        B y = B(t.alpha) * B::load_aligned(tile.at + (i * kNr + j) * kPlanes);
        if (!block.first)
          y = y + B::load_unaligned(to);
        else if (t.beta != R(0))
          y = y + B(t.beta) * B::load_unaligned(to);
        if (block.last && t.bias) {
          const R* const from = t.bias + rows.at[kBias][r + i] + columns.at[kBias][c + j];
          alignas(64) R bias[kPlanes];
          for (int64_t l = 0; l < kPlanes; ++l) bias[l] = from[l * t.bias_step];
          y = y + B::load_aligned(bias);
        }
        y.store_unaligned(to);
      }
  }
};

}  // namespace gradus::cpu
