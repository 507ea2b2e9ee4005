// The batch types of the instruction set that this object is compiled for, and the small tools from
// which words_*.hpp build functions: fused products, exact products, bits, powers of two. Every
// tool works lane by lane, so a lane never depends on its neighbours.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <utility>
#include <xsimd/xsimd.hpp>

#if defined(__AVX512BW__)
namespace xsimd {
// xsimd 8.1 subtracts from 0 here, which makes +0 of +0.
template <>
inline batch<float, avx512bw> batch<float, avx512bw>::operator-() const noexcept {
  return _mm512_castsi512_ps(
      _mm512_xor_si512(_mm512_castps_si512(data), _mm512_set1_epi32(INT32_MIN)));
}
template <>
inline batch<double, avx512bw> batch<double, avx512bw>::operator-() const noexcept {
  return _mm512_castsi512_pd(
      _mm512_xor_si512(_mm512_castpd_si512(data), _mm512_set1_epi64(INT64_MIN)));
}
}  // namespace xsimd
#elif defined(__aarch64__)
namespace xsimd {
// xsimd 8.1 has only an estimate for f32 on ARM.
template <>
inline batch<float, neon64>& batch<float, neon64>::operator/=(
    batch<float, neon64> const& other) noexcept {
  return *this = vdivq_f32(*this, other);
}
}  // namespace xsimd
#endif

namespace gradus::inline v1::cpu {

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
template <class T>
using BatchMask = typename Batch<T>::batch_bool_type;

// Does fused() round once? SSE2 has no such instruction.
#if defined(__FMA__) || defined(__aarch64__)
inline constexpr bool kFused = true;
#else
inline constexpr bool kFused = false;
#endif

// x y + z, rounded once where the instruction set can. (xsimd 8.1 has no fma for AVX-512: its
// xsimd::fma multiplies and adds there.)
template <class T>
inline Batch<T> fused(Batch<T> x, Batch<T> y, Batch<T> z) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_fmadd_ps(x, y, z);
  else
    return _mm512_fmadd_pd(x, y, z);
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4)
    return vfmaq_f32(z, x, y);
  else
    return vfmaq_f64(z, x, y);
#else
  return xsimd::fma(x, y, z);
#endif
}

// z - x y, as exact as fused.
template <class T>
inline Batch<T> fused_minus(Batch<T> x, Batch<T> y, Batch<T> z) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_fnmadd_ps(x, y, z);
  else
    return _mm512_fnmadd_pd(x, y, z);
#elif defined(__FMA__)
  if constexpr (sizeof(T) == 4)
    return _mm256_fnmadd_ps(x, y, z);
  else
    return _mm256_fnmadd_pd(x, y, z);
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4)
    return vfmsq_f32(z, x, y);
  else
    return vfmsq_f64(z, x, y);
#else
  return z - x * y;
#endif
}

// xsimd::sqrt is an estimate too for f32 on ARM, and NaN for inf.
template <class T>
inline Batch<T> root(Batch<T> x) {
#if defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return vsqrtq_f32(x);
#endif
  return xsimd::sqrt(x);
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

// ---- bits

template <class T>
struct Form;
template <>
struct Form<float> {
  using Word = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float round = 0x1.8p23f;  // added and subtracted: rounds |x| < 2^22
  static constexpr Word one = 0x3f800000, root_half = 0x3f3504f3;
  static constexpr float least_normal = 0x1p-126f, up = 0x1p24f;
  static constexpr float split = 4097;  // of Dekker
};
template <>
struct Form<double> {
  using Word = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double round = 0x1.8p52;
  static constexpr Word one = 0x3ff0000000000000, root_half = 0x3fe6a09e667f3bcd;
  static constexpr double least_normal = 0x1p-1022, up = 0x1p54;
  static constexpr double split = 134217729;
};
template <class T>
struct BitsOf {
  using Word = typename Form<T>::Word;
  typedef Word type __attribute__((vector_size(sizeof(typename Batch<T>::register_type))));
};
template <class T>
using Bits = typename BitsOf<T>::type;

template <class T>
inline Bits<T> bits(Batch<T> x) {
  return __builtin_bit_cast(Bits<T>, x.data);
}
template <class T>
inline Batch<T> from_bits(Bits<T> b) {
  return Batch<T>(__builtin_bit_cast(typename Batch<T>::register_type, b));
}
template <class T>
inline constexpr typename Form<T>::Word kSign = typename Form<T>::Word(1) << (sizeof(T) * 8 - 1);

template <class T>
inline Batch<T> magnitude(Batch<T> x) {
  return from_bits<T>(bits<T>(x) & ~kSign<T>);
}
// y with the sign of x; y is not negative.
template <class T>
inline Batch<T> signed_as(Batch<T> y, Batch<T> x) {
  return from_bits<T>(bits<T>(y) | (bits<T>(x) & kSign<T>));
}

// ---- powers of two

// x + round: its low bits are the nearest integer, in two's complement.
template <class T>
inline Batch<T> nearest(Batch<T> x) {
  return (x + Batch<T>(Form<T>::round)) - Batch<T>(Form<T>::round);
}
// 2^n for an integer |n| <= bias.
template <class T>
inline Batch<T> power_of_two(Batch<T> n) {
  using F = Form<T>;
  return from_bits<T>((bits<T>(n + Batch<T>(F::round)) << F::mantissa) + F::one);
}
// y 2^n for an integer n and y near 1, right where the result is subnormal or too large. Without an
// instruction for it, in two steps of which the first is exact.
template <class T>
inline Batch<T> scaled(Batch<T> y, Batch<T> n) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return _mm512_scalef_ps(y, n);
  else
    return _mm512_scalef_pd(y, n);
#else
  const Batch<T> half = nearest<T>(n * Batch<T>(T(0.5)));
  return y * power_of_two<T>(half) * power_of_two<T>(n - half);
#endif
}

// x = fraction 2^exponent with sqrt(1/2) <= fraction < sqrt(2), for normal x > 0.
template <class T>
struct Parts {
  Batch<T> fraction, exponent;
};
template <class T>
inline Parts<T> parts(Batch<T> x) {
  using F = Form<T>;
  using Word = typename F::Word;
  constexpr Word whole = (Word(1) << F::mantissa) - 1;
  constexpr T base = T(Word(1) << F::mantissa);  // its low bits hold an integer
  constexpr Word base_bits = Word(F::mantissa + F::bias) << F::mantissa;
  const Bits<T> b = bits<T>(x) + (F::one - F::root_half);
  const Batch<T> e = from_bits<T>((b >> F::mantissa) | base_bits) - Batch<T>(base + T(F::bias));
  return {from_bits<T>((b & whole) + F::root_half), e};
}

// ---- sums and products without loss

// value = hi + lo, lo below the last place of hi.
template <class T>
struct Pair {
  Batch<T> hi, lo;
};
// Exact where |a| >= |b|, or a is 0.
template <class T>
inline Pair<T> fast_sum(Batch<T> a, Batch<T> b) {
  const Batch<T> s = a + b;
  return {s, b - (s - a)};
}
template <class T>
inline Pair<T> exact_sum(Batch<T> a, Batch<T> b) {
  const Batch<T> s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// Dekker's without fused products: |a|, |b| must stay far from overflow.
template <class T>
inline Pair<T> exact_product(Batch<T> a, Batch<T> b) {
  const Batch<T> p = a * b;
  if constexpr (kFused) {
    return {p, -fused_minus<T>(a, b, p)};
  } else {
    const Batch<T> c(Form<T>::split);
    const Batch<T> ca = c * a, ah = ca - (ca - a), al = a - ah;
    const Batch<T> cb = c * b, bh = cb - (cb - b), bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
  }
}
// z - a b, rounded once (nearly, without fused products).
template <class T>
inline Batch<T> residual(Batch<T> z, Batch<T> a, Batch<T> b) {
  if constexpr (kFused) {
    return fused_minus<T>(a, b, z);
  } else {
    const Pair<T> p = exact_product<T>(a, b);
    return (z - p.hi) - p.lo;
  }
}

// ---- polynomials c[0] x^(N-1) + ... + c[N-1]. (Fewer products in a row, by even and odd powers,
// take more time: the units are busy, not waiting.)

template <class T, size_t N, size_t... I>
inline Batch<T> horner(const T (&c)[N], Batch<T> x, std::index_sequence<I...>) {
  Batch<T> p(c[0]);
  ((p = fused<T>(p, x, Batch<T>(c[I + 1]))), ...);
  return p;
}
template <class T, size_t N>
inline Batch<T> polynomial(const T (&c)[N], Batch<T> x) {
  return horner<T>(c, x, std::make_index_sequence<N - 1>());
}
// Of the coefficients a where m, else b.
template <class T, size_t N, size_t... I>
inline Batch<T> horner_of(BatchMask<T> m, const T (&a)[N], const T (&b)[N], Batch<T> x,
                          std::index_sequence<I...>) {
  Batch<T> p = xsimd::select(m, Batch<T>(a[0]), Batch<T>(b[0]));
  ((p = fused<T>(p, x, xsimd::select(m, Batch<T>(a[I + 1]), Batch<T>(b[I + 1])))), ...);
  return p;
}
template <class T, size_t N>
inline Batch<T> polynomial_of(BatchMask<T> m, const T (&a)[N], const T (&b)[N], Batch<T> x) {
  return horner_of<T>(m, a, b, x, std::make_index_sequence<N - 1>());
}

// ---- f32 through f64, for the few words that need it

struct Halves {
  Batch<double> low, high;
};
inline Halves widened(Batch<float> x) {
#if defined(__AVX512F__)
  const __m256 high = _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(x), 1));
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(high)};
#elif defined(__AVX2__)
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
#elif defined(__SSE2__)
  return {_mm_cvtps_pd(x), _mm_cvtps_pd(_mm_movehl_ps(x, x))};
#else
  return {vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
#endif
}
inline Batch<float> narrowed(Halves h) {
#if defined(__AVX512F__)
  const __m512d low = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(h.low)));
  return _mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm512_cvtpd_ps(h.high)), 1));
#elif defined(__AVX2__)
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(h.low)),
                              _mm256_cvtpd_ps(h.high), 1);
#elif defined(__SSE2__)
  return _mm_movelh_ps(_mm_cvtpd_ps(h.low), _mm_cvtpd_ps(h.high));
#else
  return vcvt_high_f32_f64(vcvt_f32_f64(h.low), h.high);
#endif
}

}  // namespace gradus::cpu
