// contract for c64 and c128: real and imaginary parts are packed apart, so the micro-kernel is four
// real multiply-adds per pair. Conjugation happens while packing.
#include "kernels/cpu/isa/contract/gemm.hpp"
#include "kernels/cpu/isa/contract/side_by_side.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

namespace gradus::inline v1::cpu {
namespace {

template <class R>
struct ComplexEngine {
  using In = Complex<R>;
  using Real = R;
  using B = Batch<R>;
  static constexpr int64_t kPlanes = 2, kMr = 4, kNr = int64_t(B::size), kKc = 256;
  static constexpr bool kCommutes = false;  // the roundings of the imaginary part do not

  struct Tile {
    alignas(64) R re[kMr * kNr];
    alignas(64) R im[kMr * kNr];
  };
  struct Target {
    In* out;
    const In* bias;
    In alpha, beta;
  };

  static void put(R* to, int64_t i, int64_t width, In x, bool conj) {
    to[i] = x.re;
    to[width + i] = conj ? -x.im : x.im;
  }

  template <size_t... I>
  static void micro_unrolled(int64_t kc, const R* a, const R* b, Tile& tile,
                             std::index_sequence<I...>) {
    B re[kMr], im[kMr];
    ((re[I] = B(R(0)), im[I] = B(R(0))), ...);
    for (int64_t k = 0; k < kc; ++k, a += 2 * kMr, b += 2 * kNr) {
      const B br = B::load_aligned(b), bi = B::load_aligned(b + kNr);
      ((re[I] = fused<R>(B(a[I]), br, re[I]), im[I] = fused<R>(B(a[I]), bi, im[I])), ...);
      ((re[I] = fused<R>(B(-a[kMr + I]), bi, re[I]), im[I] = fused<R>(B(a[kMr + I]), br, im[I])),
       ...);
    }
    ((re[I].store_aligned(tile.re + int64_t(I) * kNr),
      im[I].store_aligned(tile.im + int64_t(I) * kNr)),
     ...);
  }
  static void micro(const Target&, int64_t kc, const R* a, const R* b, Tile& tile) {
    micro_unrolled(kc, a, b, tile, std::make_index_sequence<size_t(kMr)>());
  }

  // factor * x without turning 1 * inf into NaN.
  static In times(In factor, In x) {
    return factor.im == R(0) ? In{factor.re * x.re, factor.re * x.im} : factor * x;
  }
  template <class Rows, class Columns>
  static void store(const Target& t, const Tile& tile, KBlock block, const Rows& rows, int64_t r,
                    int64_t nr, const Columns& columns, int64_t c, int64_t nc) {
    for (int64_t i = 0; i < nr; ++i)
      for (int64_t j = 0; j < nc; ++j) {
        In& to = t.out[rows.at[kOut][r + i] + columns.at[kOut][c + j]];
        In y = times(t.alpha, {tile.re[i * kNr + j], tile.im[i * kNr + j]});
        if (!block.first)
          y = to + y;
        else if (t.beta != In{})
          y = y + times(t.beta, to);
        if (block.last && t.bias) y = y + t.bias[rows.at[kBias][r + i] + columns.at[kBias][c + j]];
        to = y;
      }
  }
};

template <class R>
gd_status multiply_one(gd_device* d, const Contraction& x, const Operands& o, int64_t b) {
  using E = ComplexEngine<R>;
  using T = Complex<R>;
  const typename E::Target target{o.start<T>(kOut, x.batch, b), o.start<const T>(kBias, x.batch, b),
                                  T(o.alpha), T(o.beta)};
  return Gemm<E>(d, x, o, target, b).run();
}
template <class R>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return for_batches(d, x, e, [&](int64_t b) { return multiply_one<R>(d, x, o, b); });
}
template <class R>
gd_status multiply_side_by_side(gd_device* d, const Contraction& x, const Operands& o,
                                gd_error* e) {
  return SideBySide<Complex<R>>::run(d, x, o, ComplexEngine<R>::kKc, e,
                                     [&](int64_t b) { return multiply_one<R>(d, x, o, b); });
}

template <class R>
void plan(Contraction& x) {
  orient<ComplexEngine<R>>(x);
  x.run = SideBySide<Complex<R>>::suits(x) ? multiply_side_by_side<R> : multiply<R>;
}

}  // namespace

void plan_complex(Contraction& x) { x.dtype == GD_C64 ? plan<float>(x) : plan<double>(x); }

}  // namespace gradus::cpu
