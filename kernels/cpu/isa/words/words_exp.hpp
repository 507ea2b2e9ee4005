// exp and its kin: exp, exp2, expm1, tanh. x = k log 2 + r with |r| <= log(2) / 2; e^r is
// 1 + r + r^2 q(r), q by Remez (error 2^-28 of f32, 2^-57 of f64, relative); then times 2^k.
// Greatest errors seen, in ulp: exp 1.2, exp2 1.2, expm1 1.2, tanh 1.7.
#pragma once
#include "kernels/cpu/isa/words/batch.hpp"

namespace gradus::inline v1::cpu {

// ln2_hi has so few bits that k ln2_hi is exact. Below `low` e^x is 0, above `high` it is inf.
template <class T>
struct ExpTable;
template <>
struct ExpTable<float> {
  static constexpr float log2_e = 1.44269504f, ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
  static constexpr float low = -104, high = 89;
  static constexpr float near_minus_1 = -18;  // e^x - 1 is -1 from here on
  static constexpr float low2 = -151, high2 = 129;
  static constexpr float q[] = {0.001381470705382526f, 0.008368462324142456f, 0.0416683629155159f,
                                0.1666652411222458f, 0.4999999403953552f};
  static constexpr float c[] = {0.00015352277841884643f, 0.001339870155788958f,
                                0.009618440642952919f,   0.05550333112478256f,
                                0.24022647738456726f,    0.6931471824645996f};
  static constexpr float tanh_1 = 10;  // tanh is 1 from here on
  static constexpr float tanh_P[] = {0.002380752470344305f, -0.008404945954680443f,
                                     0.021781515330076218f, -0.05395975336432457f,
                                     0.1333329677581787f,   -0.3333333432674408f};
};
template <>
struct ExpTable<double> {
  static constexpr double log2_e = 1.4426950408889634;
  static constexpr double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
  static constexpr double low = -746, high = 710, near_minus_1 = -40;
  static constexpr double low2 = -1080, high2 = 1025;
  static constexpr double q[] = {2.4996243470364085e-08, 2.7628855482023033e-07,
                                 2.7557593255686692e-06, 2.4801497375297752e-05,
                                 0.0001984126950665491,  0.0013888888939042254,
                                 0.008333333333489417,   0.041666666666549994,
                                 0.16666666666666433,    0.5000000000000008};
  static constexpr double c[] = {
      4.4348610589584767e-10, 7.073773698369204e-09, 1.0178198924263347e-07, 1.3215435381429935e-06,
      1.5252733495290148e-05, 0.0001540353045680641, 0.0013333558146770674,  0.00961812910759447,
      0.05550410866482012,    0.2402265069591013,    0.6931471805599453};
  static constexpr double tanh_1 = 22;
  static constexpr double tanh_P[] = {
      -1.9219904382126784e-05, 8.292050974100488e-05, -0.00023314506272016324,
      0.0005883698036811219,   -0.001455529950629058, 0.0035920910095216985,
      -0.008863232619612388,   0.021869488396131214,  -0.053968253964537444,
      0.13333333333328945,     -0.3333333333333332};
};

// x held between low and high; NaN stays (min and max give their second operand then).
template <class T>
inline Batch<T> held(Batch<T> x, T low, T high) {
  return xsimd::min(Batch<T>(high), xsimd::max(Batch<T>(low), x));
}

// 1 + r + r^2 q(r); 2^r is 1 + r c(r).
template <class T>
inline Batch<T> exp_near_0(Batch<T> r) {
  const Batch<T> one(T(1)), q = polynomial<T>(ExpTable<T>::q, r);
  return fused<T>(fused<T>(q, r, one), r, one);
}

// e^x for x that is held already.
template <class T>
inline Parts<T> exp_parts(Batch<T> x) {
  using P = ExpTable<T>;
  const Batch<T> k = nearest<T>(x * Batch<T>(P::log2_e));
  Batch<T> r = fused<T>(k, Batch<T>(-P::ln2_hi), x);
  r = fused<T>(k, Batch<T>(-P::ln2_lo), r);
  return {exp_near_0<T>(r), k};
}
template <class T>
inline Batch<T> exp_of(Batch<T> x) {
  const Parts<T> e = exp_parts<T>(held<T>(x, ExpTable<T>::low, ExpTable<T>::high));
  return scaled<T>(e.fraction, e.exponent);
}
template <class T>
inline Batch<T> exp2_of(Batch<T> x) {
  const Batch<T> y = held<T>(x, ExpTable<T>::low2, ExpTable<T>::high2), k = nearest<T>(y);
  const Batch<T> r = y - k;
  return scaled<T>(fused<T>(polynomial<T>(ExpTable<T>::c, r), r, Batch<T>(T(1))), k);
}

// e^x = 2^k (1 + r + rest), r with its rounding errors in rest.
template <class T>
struct Expm1Parts {
  Batch<T> k, r, rest;
};
template <class T>
inline Expm1Parts<T> expm1_parts(Batch<T> x) {
  using P = ExpTable<T>;
  const Batch<T> k = nearest<T>(x * Batch<T>(P::log2_e));
  const Batch<T> a = fused<T>(k, Batch<T>(-P::ln2_hi), x), b = k * Batch<T>(P::ln2_lo);
  const Batch<T> r = a - b;
  return {k, r, fused<T>(r * r, polynomial<T>(P::q, r), (a - r) - b)};
}
// Half the result first, (2^(k-1) - 1/2) + 2^(k-1) (r + rest), as 2^k may be too large.
template <class T>
inline Batch<T> expm1_of(Batch<T> x) {
  using P = ExpTable<T>;
  const Expm1Parts<T> e = expm1_parts<T>(held<T>(x, P::near_minus_1, P::high));
  const Batch<T> half = power_of_two<T>(e.k - Batch<T>(T(1)));
  const Pair<T> sum = fast_sum<T>(half - Batch<T>(T(0.5)), half * e.r);
  const Batch<T> y = sum.hi + fused<T>(half, e.rest, sum.lo);
  const Batch<T> whole = xsimd::select(e.k == Batch<T>(T(0)), e.r + e.rest, y + y);
  return signed_as<T>(magnitude<T>(whole), x);  // the sign of -0
}
// x + x^3 P(x^2) up to 9/16, then 1 - 2 / (1 + 2^y), y = 2 x / log 2. A batch has both kinds of x:
// one polynomial in x^2 or in the rest of y, by choice of its coefficients.
template <class T>
inline Batch<T> tanh_of(Batch<T> x) {
  using P = ExpTable<T>;
  const Batch<T> a = magnitude<T>(x), one(T(1)), scale(T(2.8853900817779268));
  const BatchMask<T> near = a < Batch<T>(T(0.5625));
  const Batch<T> b = xsimd::min(Batch<T>(P::tanh_1), a);
  const Batch<T> shifted = fused<T>(b, scale, Batch<T>(Form<T>::round));
  const Batch<T> r = fused<T>(b, scale, Batch<T>(Form<T>::round) - shifted);
  const Batch<T> z = a * a, p = polynomial_of<T>(near, P::tanh_P, P::c, xsimd::select(near, z, r));
  const Batch<T> n = from_bits<T>((bits<T>(shifted) << Form<T>::mantissa) + Form<T>::one);
  const Batch<T> q = one / fused<T>(n, fused<T>(p, r, one), one);
  const Batch<T> y =
      xsimd::select(near, fused<T>(a * z, p, a), fused_minus<T>(Batch<T>(T(2)), q, one));
  return signed_as<T>(y, x);
}

}  // namespace gradus::cpu
