// contract for i32, i64 and u8: products and sums modulo 2^bits (u8 through i32).
#include "kernels/cpu/isa/contract/gemm.hpp"

namespace gradus::inline v1::cpu {
namespace {

template <class T, class Wide>
struct IntegerEngine {
  using In = T;
  using Real = Wide;
  static constexpr int64_t kPlanes = 1, kMr = 4, kNr = 16, kKc = 256;
  static constexpr bool kCommutes = true;

  struct Tile {
    alignas(64) Wide at[kMr * kNr];
  };
  struct Target {
    T* out;
    const T* bias;
    Wide alpha, beta;
  };

  static void put(Wide* to, int64_t i, int64_t, T x, bool) { to[i] = Wide(x); }
  static void micro(const Target&, int64_t kc, const Wide* a, const Wide* b, Tile& tile) {
    Wide sum[kMr][kNr] = {};
    for (int64_t k = 0; k < kc; ++k, a += kMr, b += kNr)
      for (int64_t i = 0; i < kMr; ++i)
        for (int64_t j = 0; j < kNr; ++j) sum[i][j] += a[i] * b[j];
    for (int64_t i = 0; i < kMr; ++i)
      for (int64_t j = 0; j < kNr; ++j) tile.at[i * kNr + j] = sum[i][j];
  }
  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, KBlock block, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    for (int64_t i = 0; i < nr; ++i)
      for (int64_t j = 0; j < nc; ++j) {
        T& to = t.out[rows.at[kOut][r + i] + columns.at[kOut][c + j]];
        Wide y = t.alpha * tile.at[i * kNr + j];
        if (!block.first || t.beta != 0) y += (block.first ? t.beta : Wide(1)) * Wide(to);
        if (block.last && t.bias)
          y += Wide(t.bias[rows.at[kBias][r + i] + columns.at[kBias][c + j]]);
        to = T(y);
      }
  }
};

template <class T, class Wide>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  using E = IntegerEngine<T, Wide>;
  return for_batches(d, x, e, [&](int64_t b) {
    const typename E::Target target{o.start<T>(kOut, x.batch, b),
                                    o.start<const T>(kBias, x.batch, b), Wide(int64_t(o.alpha.re)),
                                    Wide(int64_t(o.beta.re))};
    return Gemm<E>(d, x, o, target, b).run();
  });
}

template <class T, class Wide>
void plan(Contraction& x) {
  orient<IntegerEngine<T, Wide>>(x);
  x.run = multiply<T, Wide>;
}

}  // namespace

void plan_integer(Contraction& x) {
  switch (x.dtype) {
    case GD_I32:
      return plan<int32_t, int32_t>(x);
    case GD_I64:
      return plan<int64_t, int64_t>(x);
    default:
      return plan<uint8_t, int32_t>(x);
  }
}

}  // namespace gradus::cpu
