// The batch types of the instruction set that this object is compiled for, and the words of
// statements for them. Where xsimd 8.1 is wrong, or lets a lane depend on its neighbours, the lane
// goes through libm or through our own polynomial: an element gives the same bits in any company.
#pragma once
#include "ops/def/words_scalar.hpp"

#include <cmath>
#include <xsimd/xsimd.hpp>

namespace gradus::cpu {

#if defined(__AVX512BW__)
using Arch = xsimd::avx512bw;
#elif defined(__AVX2__)
using Arch = xsimd::fma3<xsimd::avx2>;
#elif defined(__SSE2__)
using Arch = xsimd::sse2;
#else
using Arch = xsimd::neon64;
#endif

template <class T>
using Batch = xsimd::batch<T, Arch>;

// x y + z, rounded once where the instruction set can. (xsimd 8.1 has no fma for AVX-512: its
// xsimd::fma multiplies and adds there.)
template <class T>
inline Batch<T> fused(Batch<T> x, Batch<T> y, Batch<T> z) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_fmadd_ps(x, y, z);
  else
    return _mm512_fmadd_pd(x, y, z);
#else
  return xsimd::fma(x, y, z);
#endif
}

// y with the lanes named by `bad` replaced by f(x). Not inline: it is the rare way.
template <class B>
[[gnu::noinline]] B by_lane(B y, typename B::batch_bool_type bad, B x,
                            typename B::value_type (*f)(typename B::value_type)) {
  typename B::value_type xs[B::size], ys[B::size];
  bool bads[B::size];
  x.store_unaligned(xs);
  y.store_unaligned(ys);
  bad.store_unaligned(bads);
  for (size_t i = 0; i < B::size; ++i)
    if (bads[i]) ys[i] = f(xs[i]);
  return B::load_unaligned(ys);
}
// f of each lane, of one operand or two.
template <class B, class... Bs>
[[gnu::noinline]] B each_lane(typename B::value_type (*f)(typename B::value_type,
                                                          typename Bs::value_type...),
                              B a, Bs... b) {
  using T = typename B::value_type;
  T x[1 + sizeof...(b)][B::size];
  int k = 0;
  a.store_unaligned(x[k]);
  (b.store_unaligned(x[++k]), ...);
  for (size_t i = 0; i < B::size; ++i) {
    if constexpr (sizeof...(b) == 0)
      x[0][i] = f(x[0][i]);
    else
      x[0][i] = f(x[0][i], x[1][i]);
  }
  return B::load_unaligned(x[0]);
}

template <class T>
struct Trig;

// sin and cos after x = k pi/2 + r, |r| <= pi/4: pi/2 as a sum of three parts of few bits (Cody and
// Waite), polynomials of S. L. Moshier's Cephes. Beyond kFar the parts lose digits.
template <>
struct Trig<float> {
  static constexpr float kFar = 4096;
  static constexpr float half_pi[3] = {1.5703125f, 4.837512969970703125e-4f,
                                       7.54978995489188216e-8f};
  static constexpr float sine[3] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  static constexpr float cosine[3] = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                      4.166664568298827e-2f};
};
template <>
struct Trig<double> {
  static constexpr double kFar = 65536;
  static constexpr double half_pi[3] = {1.57079625129699707031, 7.54978941586159635335e-8,
                                        5.39030285815811905290e-15};
  static constexpr double sine[6] = {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                                     2.75573136213857245213e-6,  -1.98412698295895385996e-4,
                                     8.33333333332211858878e-3,  -1.66666666666666307295e-1};
  static constexpr double cosine[6] = {-1.13585365213876817300e-11, 2.08757008419747316778e-9,
                                       -2.75573141792967388112e-7,  2.48015872888517045348e-5,
                                       -1.38888888888730564116e-3,  4.16666666666665929218e-2};
};

template <class T>
struct BatchWords {
  using B = Batch<T>;
  using M = typename B::batch_bool_type;
  static constexpr bool f32 = sizeof(T) == 4;

  static B mend(B y, M bad, B x, T (*f)(T)) {
    if (__builtin_expect(xsimd::any(bad), 0)) return by_lane(y, bad, x, f);
    return y;
  }
  template <size_t N>
  static B polynomial(const T (&c)[N], B z) {
    B p(c[0]);
    for (size_t i = 1; i < N; ++i) p = fused<T>(p, z, B(c[i]));
    return p;
  }
  // quarter = 0 for sine, 1 for cosine.
  static B trig(B x, T quarter, T (*f)(T)) {
    using P = Trig<T>;
    const B k = xsimd::nearbyint(x * B(T(0.63661977236758134308)));
    B r = fused<T>(k, B(-P::half_pi[0]), x);
    r = fused<T>(k, B(-P::half_pi[1]), r);
    r = fused<T>(k, B(-P::half_pi[2]), r);
    const B z = r * r;
    const B s = fused<T>(polynomial(P::sine, z) * z, r, r);
    const B c = fused<T>(polynomial(P::cosine, z) * z, z, B(T(1)) - B(T(0.5)) * z);
    // q = k + quarter modulo 4: odd takes the cosine, 2 and 3 change the sign.
    const B turn = k + B(quarter);
    const B q = turn - B(T(4)) * xsimd::floor(turn * B(T(0.25)));
    const M odd = (q == B(T(1))) | (q == B(T(3)));
    const B y = xsimd::select(odd, c, s);
    return mend(xsimd::select(q >= B(T(2)), -y, y), !(xsimd::abs(x) <= B(P::kFar)), x, f);
  }
};

}  // namespace gradus::cpu

namespace gradus {

template <class T>
struct Words<xsimd::batch<T, cpu::Arch>> {
  using B = xsimd::batch<T, cpu::Arch>;
  using Mask = typename B::batch_bool_type;
  using Real = B;
  using Own = cpu::BatchWords<T>;
  using One = Words<T>;
  static constexpr bool f32 = sizeof(T) == 4;

  // xsimd flushes subnormal results and gives inf a little too early.
  static B exp(B x) {
    const B low(T(f32 ? -87.0 : -708.0)), least(T(f32 ? -104.0 : -746.0));
    const B high(T(f32 ? 88.0 : 709.0)), most(T(f32 ? 88.8 : 709.8));
    const Mask bad = ((x < low) & (x > least)) | ((x > high) & (x < most));
    return Own::mend(xsimd::exp(x), bad, x, One::exp);
  }
  static B expm1(B x) {
    const Mask bad = (x > B(T(f32 ? 88.0 : 709.0))) & (x < B(T(f32 ? 88.8 : 709.8)));
    return Own::mend(xsimd::expm1(x), bad, x, One::expm1);
  }
  static B log(B x) {
    const B normal(f32 ? T(1.1754943508222875e-38) : T(2.2250738585072014e-308));
    return Own::mend(xsimd::log(x), (x < normal) & (x > B(T(0))), x, One::log);
  }
  static B log1p(B x) { return xsimd::log1p(x); }
  static B sqrt(B x) { return xsimd::sqrt(x); }
  static B sin(B x) { return Own::trig(x, T(0), One::sin); }
  static B cos(B x) { return Own::trig(x, T(1), One::cos); }
  static B tanh(B x) { return xsimd::tanh(x); }
  static B erf(B x) {
    if constexpr (f32)
      return xsimd::erf(x);
    else
      return cpu::each_lane(One::erf, x);
  }
#define GRADUS_EACH_LANE(name) \
  static B name(B x) { return cpu::each_lane(One::name, x); }
#define GRADUS_EACH_LANE2(name) \
  static B name(B a, B b) { return cpu::each_lane(One::name, a, b); }
  GRADUS_LANE_WORDS(GRADUS_EACH_LANE)
  GRADUS_LANE_WORDS2(GRADUS_EACH_LANE2)
#undef GRADUS_EACH_LANE
#undef GRADUS_EACH_LANE2
  static B floor(B x) { return xsimd::floor(x); }
  static B ceil(B x) { return xsimd::ceil(x); }
  static B round(B x) { return xsimd::nearbyint(x); }
  static B trunc(B x) { return xsimd::trunc(x); }
  static B abs(B x) { return xsimd::abs(x); }
  static B cabs(B x) { return xsimd::abs(x); }
  static B sign(B x) {
    const B zero(T(0));
    return xsimd::select(x > zero, B(T(1)), xsimd::select(x < zero, B(T(-1)), x));
  }
  // xsimd's != is false for NaN on AVX; the other comparisons are as they should be.
  static Mask ne(B a, B b) { return !(a == b); }
  static B min(B a, B b) { return xsimd::select((a < b) | ne(a, a), a, b); }
  static B max(B a, B b) { return xsimd::select((b < a) | ne(a, a), a, b); }
  static Mask lt(B a, B b) { return a < b; }
  static Mask le(B a, B b) { return a <= b; }
  static Mask eq(B a, B b) { return a == b; }
  static B select(Mask m, B a, B b) { return xsimd::select(m, a, b); }
  static B conj(B x) { return x; }
  static B real(B x) { return x; }
  static B imag(B) { return B(T(0)); }
};

}  // namespace gradus
