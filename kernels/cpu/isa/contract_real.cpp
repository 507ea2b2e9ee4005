// contract for f32 and f64, and for f16 and bf16 through f32: the sum-product algebra with a
// register-blocked micro-kernel of fused multiply-adds.
#include "kernels/cpu/isa/gemm.hpp"
#include "kernels/cpu/isa/simd.hpp"

namespace gradus::cpu {
namespace {

// Register blocks: kMr x kVectors accumulators, a row of b and one broadcast must fit the
// registers.
#if defined(__AVX512BW__)
constexpr int64_t kRows = 14;
#elif defined(__AVX2__)
constexpr int64_t kRows = 6;
#elif defined(__SSE2__)
constexpr int64_t kRows = 4;
#else
constexpr int64_t kRows = 8;
#endif
constexpr int64_t kVectors = 2;

// Element is what a and b hold, Stored what out holds.
template <class Element, class R, class Stored>
struct RealEngine {
  using In = Element;
  using Real = R;
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kPlanes = 1, kMr = kRows,
                           kNr = kVectors * kWidth, kKc = sizeof(R) == 4 ? 384 : 256;
  static constexpr bool kCommutes = true;

  struct Tile {
    alignas(64) R at[kMr * kNr];
  };
  struct Target {
    Stored* out;
    const Stored* bias;
    R alpha, beta;
  };

  static void put(R* to, int64_t i, int64_t, In x, bool brain) {
    if constexpr (sizeof(In) == 2)
      to[i] = widen(x, brain);
    else
      to[i] = x;
  }

  template <size_t... I>
  static void micro_unrolled(int64_t kc, const R* a, const R* b, R* to, std::index_sequence<I...>) {
    B sum[sizeof...(I)];
    ((sum[I] = B(R(0))), ...);
    for (int64_t k = 0; k < kc; ++k, a += kMr, b += kNr) {
      const B row[kVectors] = {B::load_aligned(b), B::load_aligned(b + kWidth)};
      ((sum[I] = fused<R>(B(a[I / kVectors]), row[I % kVectors], sum[I])), ...);
    }
    ((sum[I].store_aligned(to + int64_t(I) * kWidth)), ...);
  }
  static void micro(int64_t kc, const R* a, const R* b, Tile& tile) {
    micro_unrolled(kc, a, b, tile.at, std::make_index_sequence<size_t(kMr * kVectors)>());
  }

  // out = alpha sum + beta out + bias for the first block of k, out += alpha sum for the others.
  static R combined(const Target& t, R sum, bool first, const Stored* out, const Stored* bias) {
    R y = t.alpha * sum;
    if (!first) return *out + y;
    if (t.beta != R(0)) y = y + t.beta * *out;
    if (bias) y = y + *bias;
    return y;
  }
  // The same for one whole row of a tile, contiguous in out.
  static void store_row(const Target& t, const R* sum, bool first, Stored* to, const Stored* bias) {
    if (!first)
      for (int64_t j = 0; j < kNr; ++j) to[j] = to[j] + t.alpha * sum[j];
    else if (t.beta == R(0))
      for (int64_t j = 0; j < kNr; ++j) to[j] = t.alpha * sum[j];
    else
      for (int64_t j = 0; j < kNr; ++j) to[j] = t.alpha * sum[j] + t.beta * to[j];
    if (bias)
      for (int64_t j = 0; j < kNr; ++j) to[j] = to[j] + bias[j];
  }
  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, int64_t k0, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    const bool first = k0 == 0;
    const bool dense = nc == kNr && unit_steps(columns.at[kOut] + c, kNr);
    for (int64_t i = 0; i < nr; ++i) {
      const R* sum = tile.at + i * kNr;
      Stored* const row = t.out + rows.at[kOut][r + i];
      if (dense) {
        const Stored* bias = nullptr;
        Stored biases[kNr];
        if (first && t.bias) {
          for (int64_t j = 0; j < kNr; ++j)
            biases[j] = t.bias[rows.at[kBias][r + i] + columns.at[kBias][c + j]];
          bias = biases;
        }
        store_row(t, sum, first, row + columns.at[kOut][c], bias);
        continue;
      }
      for (int64_t j = 0; j < nc; ++j) {
        Stored* const to = row + columns.at[kOut][c + j];
        const Stored* bias = nullptr;
        if (first && t.bias) bias = t.bias + rows.at[kBias][r + i] + columns.at[kBias][c + j];
        *to = combined(t, sum[j], first, to, bias);
      }
    }
  }
};

template <class T>
gd_status multiply(gd_device* d, Contraction& x, gd_error* e) {
  using E = RealEngine<T, T, T>;
  orient<E>(x);
  return for_batches(d, x, e, [&](int64_t b) {
    const typename E::Target target{
        x.start<T>(kOut) + x.batch.offset(kOut, b),
        x.data[kBias] ? x.start<const T>(kBias) + x.batch.offset(kBias, b) : nullptr, T(x.alpha.re),
        T(x.beta.re)};
    return Gemm<E>(d, x, target, x.start<const T>(kA) + x.batch.offset(kA, b),
                   x.start<const T>(kB) + x.batch.offset(kB, b))
        .run();
  });
}

// The sums stay in f32 until the one rounding at the end.
gd_status multiply_16_bit(gd_device* d, Contraction& x, gd_error* e) {
  using E = RealEngine<uint16_t, float, float>;
  orient<E>(x);
  const float alpha = float(x.alpha.re), beta = float(x.beta.re);
  const bool brain = x.dtype == GD_BF16;
  x.conj_a = x.conj_b = brain;
  return through_f32(
      d, x, e,
      [&](const Contraction& dense, float* sum, int64_t b) {
        const typename E::Target target{sum, nullptr, 1.0f, 0.0f};
        return Gemm<E>(d, dense, target, x.start<const uint16_t>(kA) + x.batch.offset(kA, b),
                       x.start<const uint16_t>(kB) + x.batch.offset(kB, b))
            .run();
      },
      [=](uint16_t& to, float sum, const uint16_t* bias) {
        float y = alpha * sum;
        if (beta != 0) y = y + beta * widen(to, brain);
        if (bias) y = y + widen(*bias, brain);
        to = narrow(y, brain);
      });
}

}  // namespace

gd_status contract_real(gd_device* d, const Contraction& contraction, gd_error* e) {
  Contraction x = contraction;
  switch (x.dtype) {
    case GD_F32:
      return multiply<float>(d, x, e);
    case GD_F64:
      return multiply<double>(d, x, e);
    default:
      return multiply_16_bit(d, x, e);
  }
}

}  // namespace gradus::cpu
