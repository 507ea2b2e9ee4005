// Logarithms and powers. x = m 2^k with sqrt(1/2) <= m < sqrt(2), s = (m - 1) / (m + 1):
// log m = 2 s + s^3 P(s^2), P by Remez (error below 2^-36 of f32, 2^-57 of f64). How the parts are
// added follows fdlibm: no digit of m - 1 is lost. pow carries the logarithm in two numbers.
#pragma once
#include "kernels/cpu/isa/words/words_exp.hpp"

#include <limits>

namespace gradus::inline v1::cpu {

template <class T>
struct LogTable;
template <>
struct LogTable<float> {
  static constexpr float P[] = {0.23521780967712402f, 0.285409152507782f, 0.40000268816947937f,
                                0.6666666865348816f};
  // 1 / log 2, 1 / log 10, log10(2) as sums of a number of few bits and the rest; a mask for such.
  static constexpr float log2_e[] = {1.4428710938f, -1.7605285393e-4f};
  static constexpr float log10_e[] = {4.3432617188e-1f, -3.1689971365e-5f};
  static constexpr float log10_2[] = {3.0102920532e-1f, 7.9034151668e-7f};
  static constexpr uint32_t few_bits = 0xfffff000;
};
template <>
struct LogTable<double> {
  static constexpr double P[] = {0.14734229752550188, 0.1532053691832541,  0.18183295962291238,
                                 0.22222204086469444, 0.28571428684348454, 0.39999999999701386,
                                 0.6666666666666685};
  static constexpr double log2_e[] = {1.44269504072144627571e+00, 1.67517131648865118353e-10};
  static constexpr double log10_e[] = {4.34294481878168880939e-01, 2.50829467116452752298e-11};
  static constexpr double log10_2[] = {3.01029995663611771306e-01, 3.69423907715893078616e-13};
  static constexpr uint64_t few_bits = 0xffffffff00000000;
};

// Parts of x > 0, subnormal or not. (Of other x: whatever.)
template <class T>
inline Parts<T> positive_parts(Batch<T> x) {
  using F = Form<T>;
  const BatchMask<T> tiny = x < Batch<T>(F::least_normal);
  Parts<T> p = parts<T>(xsimd::select(tiny, x * Batch<T>(F::up), x));
  const Batch<T> lift(T(sizeof(T) == 4 ? 24 : 54));
  p.exponent = p.exponent - xsimd::select(tiny, lift, Batch<T>(T(0)));
  return p;
}
// y for 0 < x < inf, else the limit.
template <class T>
inline Batch<T> log_limits(Batch<T> y, Batch<T> x) {
  const Batch<T> zero(T(0)), inf(std::numeric_limits<T>::infinity());
  const Batch<T> nan(std::numeric_limits<T>::quiet_NaN());
  const Batch<T> other = xsimd::select(x == zero, -inf, xsimd::select(x < zero, nan, x));
  return xsimd::select((x > zero) & (x < inf), y, other);
}
// log(1 + f) = f - (hf - rest) with hf = f^2 / 2.
template <class T>
struct LogSeries {
  Batch<T> hf, rest;
};
template <class T>
inline LogSeries<T> log_series(Batch<T> f) {
  const Batch<T> s = f / (Batch<T>(T(2)) + f), z = s * s;
  const Batch<T> hf = Batch<T>(T(0.5)) * f * f;
  return {hf, s * fused<T>(polynomial<T>(LogTable<T>::P, z), z, hf)};
}

template <class T>
inline Batch<T> log_of(Batch<T> x) {
  using E = ExpTable<T>;
  const Parts<T> p = positive_parts<T>(x);
  const Batch<T> f = p.fraction - Batch<T>(T(1));
  const LogSeries<T> l = log_series<T>(f);
  const Batch<T> low = fused<T>(p.exponent, Batch<T>(E::ln2_lo), l.rest);
  return log_limits<T>(fused<T>(p.exponent, Batch<T>(E::ln2_hi), f - (l.hf - low)), x);
}
// u = 1 + x loses c = 1 + x - u, which joins the fraction of u.
template <class T>
inline Batch<T> log1p_of(Batch<T> x) {
  using E = ExpTable<T>;
  const Batch<T> one(T(1)), least(T(-100));
  const Pair<T> u = exact_sum<T>(one, x);
  const Parts<T> p = parts<T>(u.hi);
  const Batch<T> c = u.lo * power_of_two<T>(xsimd::max(least, -p.exponent));
  const Batch<T> f = (p.fraction - one) + c;
  const LogSeries<T> l = log_series<T>(f);
  const Batch<T> low = fused<T>(p.exponent, Batch<T>(E::ln2_lo), l.rest);
  const Batch<T> y = fused<T>(p.exponent, Batch<T>(E::ln2_hi), f - (l.hf - low));
  const Batch<T> inf(std::numeric_limits<T>::infinity());
  const Batch<T> limit = xsimd::select(x == inf, inf, log_limits<T>(y, u.hi));
  return xsimd::select(x == Batch<T>(T(0)), x, limit);
}
// log(x) b + k b_2 for b = 1 / log(base), b_2 = log(2) / log(base), both in two numbers.
template <class T>
inline Batch<T> log_to_base(Batch<T> x, const T (&b)[2], const T (&b_2)[2]) {
  const Parts<T> p = positive_parts<T>(x);
  const Batch<T> f = p.fraction - Batch<T>(T(1));
  const LogSeries<T> l = log_series<T>(f);
  const Batch<T> hi = from_bits<T>(bits<T>(f - l.hf) & LogTable<T>::few_bits);
  const Batch<T> lo = ((f - hi) - l.hf) + l.rest;
  const Batch<T> main = hi * Batch<T>(b[0]), whole = p.exponent * Batch<T>(b_2[0]);
  Batch<T> low = fused<T>(lo + hi, Batch<T>(b[1]), lo * Batch<T>(b[0]));
  low = fused<T>(p.exponent, Batch<T>(b_2[1]), low);
  const Pair<T> sum = fast_sum<T>(whole, main);
  return log_limits<T>(sum.hi + (sum.lo + low), x);
}
template <class T>
inline Batch<T> log2_of(Batch<T> x) {
  constexpr T one[2] = {1, 0};
  return log_to_base<T>(x, LogTable<T>::log2_e, one);
}
template <class T>
inline Batch<T> log10_of(Batch<T> x) {
  return log_to_base<T>(x, LogTable<T>::log10_e, LogTable<T>::log10_2);
}

// ---- pow

// |a|^b = e^(b log|a|) with its sign and limits put right.
template <class T>
inline Batch<T> pow_signs(Batch<T> y, Batch<T> a, Batch<T> b) {
  const Batch<T> zero(T(0)), one(T(1)), inf(std::numeric_limits<T>::infinity());
  const Batch<T> nan(std::numeric_limits<T>::quiet_NaN());
  const Batch<T> half = b * Batch<T>(T(0.5));
  const BatchMask<T> whole = xsimd::floor(b) == b, even = xsimd::floor(half) == half;
  const Batch<T> sign = xsimd::select(whole & !even, a, zero);
  const Batch<T> y2 = signed_as<T>(y, sign);
  const BatchMask<T> none = (a < zero) & (a > -inf) & !whole;
  return xsimd::select((b == zero) | (a == one), one, xsimd::select(none, nan, y2));
}

// f32: the logarithm and the power in f64, to some 2^-40.
inline Batch<double> pow_of_f32(Batch<double> a, Batch<double> b) {
  using B = Batch<double>;
  using E = ExpTable<double>;
  constexpr double P[] = {0.19517943062241658, 0.22181160198642907, 0.28571978514606033,
                          0.39999997008704774, 0.6666666667101131};
  constexpr double q[] = {0.0001978631890906245, 0.001394376320931696, 0.008333502491147279,
                          0.0416663108376853,    0.1666666585873198,   0.5000000061224376};
  const B zero(0.0), one(1.0), inf(std::numeric_limits<double>::infinity());
  const Parts<double> p = parts<double>(a);
  const B s = (p.fraction - one) / (p.fraction + one), z = s * s;
  B l = fused<double>(s * z, polynomial<double>(P, z), s + s);
  l = fused<double>(p.exponent, B(0.6931471805599453), l);
  l = xsimd::select(a == zero, -inf, xsimd::select(a < inf, l, a));
  const B y = held<double>(xsimd::select(l == zero, zero, b * l), -110, 90);
  const B k = nearest<double>(y * B(E::log2_e)), r = fused<double>(k, B(-0.6931471805599453), y);
  const B e = fused<double>(fused<double>(polynomial<double>(q, r), r, one), r, one);
  return e * power_of_two<double>(k);
}

// log a for a > 0 as a Pair, to some 2^-66.
inline Pair<double> log_pair(Batch<double> a) {
  using B = Batch<double>;
  using E = ExpTable<double>;
  constexpr double Q[] = {0.13107406947367864, 0.13266969841391912, 0.15386293050427632,
                          0.18181795164095288, 0.22222222386785298, 0.2857142857091151,
                          0.4000000000000039};
  const B one(1.0);
  const Parts<double> p = positive_parts<double>(a);
  const B f = p.fraction - one;
  const Pair<double> d = exact_sum<double>(p.fraction, one);
  const B inverse = one / d.hi, sh = f * inverse;
  const B sl = (residual<double>(f, sh, d.hi) - sh * d.lo) * inverse;
  Pair<double> z = exact_product<double>(sh, sh);
  z.lo = fused<double>(sh + sh, sl, z.lo);
  // s z (2/3 + z Q)
  Pair<double> c = fast_sum<double>(B(0.6666666666666666), z.hi * polynomial<double>(Q, z.hi));
  c.lo = c.lo + B(3.700743415417188e-17);
  Pair<double> u = exact_product<double>(z.hi, c.hi);
  u.lo = u.lo + fused<double>(z.hi, c.lo, z.lo * c.hi);
  Pair<double> v = exact_product<double>(sh, u.hi);
  v.lo = v.lo + fused<double>(sh, u.lo, sl * u.hi);
  const Pair<double> m = fast_sum<double>(sh + sh, v.hi);
  const Pair<double> l = fast_sum<double>(p.exponent * B(E::ln2_hi), m.hi);
  const B low = m.lo + (v.lo + (sl + sl));
  return fast_sum<double>(l.hi, l.lo + fused<double>(p.exponent, B(E::ln2_lo), low));
}

template <class T>
[[gnu::noinline]] Batch<T> pow_of(Batch<T> a, Batch<T> b) {
  if constexpr (sizeof(T) == 4) {
    const Halves x = widened(magnitude<T>(a)), e = widened(b);
    const Batch<T> y = narrowed({pow_of_f32(x.low, e.low), pow_of_f32(x.high, e.high)});
    return pow_signs<T>(xsimd::select((a == a) & (b == b), y, a + b), a, b);
  } else {
    using B = Batch<double>;
    using E = ExpTable<double>;
    const B zero(0.0), one(1.0), inf(std::numeric_limits<double>::infinity()), far(800.0);
    const B x = magnitude<double>(a);
    const Pair<double> l = log_pair(x);
    const B c = held<double>(b, -0x1p70, 0x1p70);  // more changes nothing, and would overflow
    Pair<double> y = exact_product<double>(c, l.hi);
    y.lo = fused<double>(c, l.lo, y.lo);
    const B at_0 = xsimd::select(b < zero, inf, zero), at_inf = xsimd::select(b < zero, zero, inf);
    const B limit = xsimd::select(x == zero, at_0, at_inf);
    const B t = held<double>(y.hi, -800, 800);
    const B k = nearest<double>(t * B(E::log2_e));
    const B head = fused<double>(k, B(-E::ln2_hi), t), tail = k * B(E::ln2_lo), r = head - tail;
    const B rest = ((head - r) - tail) + xsimd::select(magnitude<double>(y.hi) < far, y.lo, zero);
    const B e = fused<double>(r * r, polynomial<double>(E::q, r), r);
    const B power = scaled<double>(one + (e + fused<double>(rest, e, rest)), k);
    const B finite = xsimd::select((x > zero) & (x < inf), power, limit);
    // a or b is NaN: x + b is. One that is 1 to an infinite power is 1.
    return pow_signs<double>(xsimd::select((x == x) & (b == b), finite, x + b), a, b);
  }
}

// ---- cube root. r = m^(-1/3) from a polynomial to 2^-7, each step triples its digits; then one
// step of Newton for m r^2 with an exact residual.
template <class T>
inline Batch<T> cbrt_of(Batch<T> x) {
  using B = Batch<T>;
  constexpr T start[] = {T(0.0026242861058562994), T(-0.041191376745700836), T(0.24344800412654877),
                         T(-0.699602484703064), T(1.5014526844024658)};
  const B third(T(1.0 / 3)), one(T(1)), zero(T(0)), inf(std::numeric_limits<T>::infinity());
  const B a = magnitude<T>(x);
  const Parts<T> p = positive_parts<T>(a);
  const B q = nearest<T>((p.exponent - one) * third);
  const B m = p.fraction * power_of_two<T>(p.exponent - B(T(3)) * q);
  B r = polynomial<T>(start, m);
  for (int i = 0; i < (sizeof(T) == 4 ? 1 : 2); ++i) {
    const B e = residual<T>(one, m * r, r * r);
    r = fused<T>(r * e, fused<T>(e, B(T(2.0 / 9)), third), r);
  }
  const B y = m * r * r;
  const Pair<T> square = exact_product<T>(y, y);
  const B rest = residual<T>(m, square.hi, y) - square.lo * y;
  const B root = fused<T>(rest * third, r * r, y) * power_of_two<T>(q);
  return xsimd::select((a > zero) & (a < inf), signed_as<T>(root, x), x);
}

}  // namespace gradus::cpu
