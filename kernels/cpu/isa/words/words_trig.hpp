// sin, cos, tan. |x| = k pi/2 + r, |r| <= pi/4, with pi/2 as a sum of three numbers: k times the
// first leaves an exact rest, and what the others lose stays in `rest`. Polynomials by Remez
// (error below 2^-27 of f32, 2^-57 of f64). Beyond `far` lanes go through libm, one by one.
#pragma once
#include "kernels/cpu/isa/words/batch.hpp"

namespace gradus::inline v1::cpu {

template <class T>
struct TrigTable;
template <>
struct TrigTable<float> {
  static constexpr float far = 65536;
  static constexpr float half_pi[] = {1.5707963705062866f, -4.371138828673793e-08f,
                                      -1.7151245100058819e-15f};
  static constexpr float sine[] = {2.719049234656268e-06f, -0.00019839429296553135f,
                                   0.008333330042660236f, -0.1666666716337204f};
  static constexpr float cosine[] = {2.4440272682113573e-05f, -0.0013887386303395033f,
                                     0.04166664555668831f};
  static constexpr float tangent[] = {
      0.00430496409535408f, 0.0002541775465942919f, 0.01068528275936842f, 0.021351072937250137f,
      0.05404357984662056f, 0.13332848250865936f,   0.33333343267440796f};
};
template <>
struct TrigTable<double> {
  static constexpr double far = 1e9;
  static constexpr double half_pi[] = {1.5707963267948966, 6.123233995736766e-17,
                                       -1.4973849048591698e-33};
  static constexpr double sine[] = {1.590052531164186e-10,  -2.5050829588177007e-08,
                                    2.7557314208083356e-06, -0.00019841269831533153,
                                    0.008333333333325012,   -0.16666666666666646};
  static constexpr double cosine[] = {-1.1363963538920583e-11, 2.087581364083252e-09,
                                      -2.755731508089639e-07,  2.480158729228529e-05,
                                      -0.001388888888887921,   0.04166666666666664};
  static constexpr double tangent[] = {
      9.477028690435897e-06,   -2.2760869456715638e-05, 4.5430994632186126e-05,
      -2.1590384993720428e-05, 6.38402573986847e-05,    8.553329836698136e-05,
      0.00024292573344154573,  0.00058911382426919,     0.0014559913724687627,
      0.0035921092257515256,   0.008863237038367847,    0.021869488460555968,
      0.053968253970355345,    0.13333333333330788,     0.3333333333333334};
};

// quarter: k modulo 4 in its low bits.
template <class T>
struct Angle {
  Batch<T> r, rest;
  Bits<T> quarter;
};
template <class T>
inline Angle<T> angle_of(Batch<T> magnitude) {
  using P = TrigTable<T>;
  const Batch<T> shifted =
      fused<T>(magnitude, Batch<T>(T(0.63661977236758134308)), Batch<T>(Form<T>::round));
  const Batch<T> k = shifted - Batch<T>(Form<T>::round);
  const Batch<T> a = residual<T>(magnitude, k, Batch<T>(P::half_pi[0]));
  const Pair<T> p = exact_product<T>(k, Batch<T>(P::half_pi[1]));
  const Batch<T> r = a - p.hi;
  const Batch<T> low = fused<T>(k, Batch<T>(P::half_pi[2]), p.lo);
  return {r, ((a - r) - p.hi) - low, bits<T>(shifted)};
}
template <class T>
inline BatchMask<T> odd(Bits<T> n) {
  constexpr int top = int(sizeof(T)) * 8 - 1;
  return from_bits<T>((n << top) >> 1) > Batch<T>(T(0));  // 2.0 or 0.0
}
template <class T>
inline Batch<T> far_by_lane(Batch<T> y, Batch<T> x, Batch<T> magnitude, T (*f)(T)) {
  const BatchMask<T> far = !(magnitude <= Batch<T>(TrigTable<T>::far));
  if (__builtin_expect(xsimd::any(far), 0)) return by_lane(y, far, x, f);
  return y;
}

// shift = 0: the sine of |x|; 1: the cosine.
template <class T>
inline Batch<T> sine_of(Batch<T> a, typename Form<T>::Word shift) {
  using P = TrigTable<T>;
  const Angle<T> t = angle_of<T>(a);
  const Bits<T> quarter = t.quarter + shift;
  const Batch<T> one(T(1)), z = t.r * t.r;
  const Batch<T> s = t.r + fused<T>(t.r * z, polynomial<T>(P::sine, z), t.rest);
  const Batch<T> half = Batch<T>(T(0.5)) * z, w = one - half;
  const Batch<T> low = fused<T>(z * z, polynomial<T>(P::cosine, z), -(t.r * t.rest));
  const Batch<T> c = w + (((one - w) - half) + low);
  const Batch<T> y = xsimd::select(odd<T>(quarter), c, s);
  return from_bits<T>(bits<T>(y) ^ ((quarter & 2) << (int(sizeof(T)) * 8 - 2)));
}
template <class T>
inline Batch<T> sin_of(Batch<T> x, T (*f)(T)) {
  const Batch<T> a = magnitude<T>(x), s = sine_of<T>(a, 0);
  return far_by_lane<T>(from_bits<T>(bits<T>(s) ^ (bits<T>(x) & kSign<T>)), x, a, f);
}
template <class T>
inline Batch<T> cos_of(Batch<T> x, T (*f)(T)) {
  const Batch<T> a = magnitude<T>(x);
  return far_by_lane<T>(sine_of<T>(a, 1), x, a, f);
}
// tan r = h + l; where k is odd the result is -1 / (h + l).
template <class T>
[[gnu::noinline]] Batch<T> tan_of(Batch<T> x, T (*f)(T)) {
  const Batch<T> a = magnitude<T>(x), one(T(1));
  const Angle<T> t = angle_of<T>(a);
  const Batch<T> z = t.r * t.r;
  const Batch<T> rise = polynomial<T>(TrigTable<T>::tangent, z);
  const Pair<T> y = fast_sum<T>(t.r, fused<T>(t.r * z, rise, fused<T>(t.rest, z, t.rest)));
  const Batch<T> q = one / y.hi;
  const Batch<T> inverse = fused<T>(q, residual<T>(one, y.hi, q) - y.lo * q, q);
  const Batch<T> tangent = xsimd::select(odd<T>(t.quarter), -inverse, y.hi);
  return far_by_lane<T>(from_bits<T>(bits<T>(tangent) ^ (bits<T>(x) & kSign<T>)), x, a, f);
}

}  // namespace gradus::cpu
