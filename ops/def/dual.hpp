// Dual<T>: a number v and its derivative d, v + d e with e^2 = 0. Reading a statement's value with
// Dual gives the derivative of what is computed, to rounding, without looking at its slope: the
// exact check of slopes. T is float, double or Complex. At a kink the derivative is that of the
// words below (min and max share a tie, abs has slope 0 at 0).
#pragma once
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1 {

template <class T> struct Dual {
  T v{}, d{};

  Dual() = default;
  constexpr Dual(T value, T derivative) : v(value), d(derivative) {}
  constexpr explicit Dual(double constant) : v(real_of<T>(constant)) {}

  friend constexpr Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
  friend constexpr Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
  friend constexpr Dual operator-(Dual a) { return {-a.v, -a.d}; }
  friend constexpr Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend constexpr Dual operator/(Dual a, Dual b) {
    const T y = a.v / b.v;
    return {y, (a.d - y * b.d) / b.v};
  }
};

template <class T> struct Words<Dual<T>> {
  using D = Dual<T>;
  using W = Words<T>;
  using Mask = bool;
  using Real = Dual<real_of<T>>;

// The word and its derivative, from x.v = v; where the statement's slope stands, it stands in
// another form.
#define GRADUS_DUAL_WORD(name, derivative)    \
  static D name(D x) {                        \
    const T v = x.v;                          \
    return {W::name(v), x.d * T(derivative)}; \
  }
  GRADUS_DUAL_WORD(exp, W::exp(v))
  GRADUS_DUAL_WORD(expm1, W::exp(v))
  GRADUS_DUAL_WORD(log, T(1) / v)
  GRADUS_DUAL_WORD(log1p, T(1) / (T(1) + v))
  GRADUS_DUAL_WORD(sqrt, T(0.5) / W::sqrt(v))
  GRADUS_DUAL_WORD(sin, W::cos(v))
  GRADUS_DUAL_WORD(cos, -W::sin(v))
  GRADUS_DUAL_WORD(tan, T(1) / (W::cos(v) * W::cos(v)))
  GRADUS_DUAL_WORD(tanh, T(1) / (W::cosh(v) * W::cosh(v)))
  GRADUS_DUAL_WORD(sinh, (W::exp(v) + W::exp(-v)) / T(2))
  GRADUS_DUAL_WORD(cosh, (W::exp(v) - W::exp(-v)) / T(2))
  GRADUS_DUAL_WORD(asin, T(1) / W::cos(W::asin(v)))
  GRADUS_DUAL_WORD(acos, T(-1) / W::sin(W::acos(v)))
  GRADUS_DUAL_WORD(atan, W::cos(W::atan(v)) * W::cos(W::atan(v)))
  GRADUS_DUAL_WORD(asinh, T(1) / W::cosh(W::asinh(v)))
  GRADUS_DUAL_WORD(acosh, T(1) / W::sinh(W::acosh(v)))
  GRADUS_DUAL_WORD(atanh, W::cosh(W::atanh(v)) * W::cosh(W::atanh(v)))
  GRADUS_DUAL_WORD(exp2, T(0.6931471805599453) * W::exp2(v))
  GRADUS_DUAL_WORD(log2, T(1.4426950408889634) / v)
  GRADUS_DUAL_WORD(log10, T(0.4342944819032518) / v)
  GRADUS_DUAL_WORD(cbrt, W::cbrt(v) / (T(3) * v))
  GRADUS_DUAL_WORD(erf, T(1.1283791670955126) * W::exp(-(v * v)))
  GRADUS_DUAL_WORD(erfc, T(-1.1283791670955126) * W::exp(-(v * v)))
  GRADUS_DUAL_WORD(erfinv, T(0.886226925452758) * W::exp(W::erfinv(v) * W::erfinv(v)))
  GRADUS_DUAL_WORD(lgamma, W::digamma(v))
  GRADUS_DUAL_WORD(digamma, W::polygamma(T(1), v))
  GRADUS_DUAL_WORD(abs, W::sign(v))
  GRADUS_DUAL_WORD(sign, 0)
  GRADUS_DUAL_WORD(floor, 0)
  GRADUS_DUAL_WORD(ceil, 0)
  GRADUS_DUAL_WORD(round, 0)
  GRADUS_DUAL_WORD(trunc, 0)
#undef GRADUS_DUAL_WORD
  static D polygamma(D n, D x) {
    return {W::polygamma(n.v, x.v), x.d * W::polygamma(n.v + T(1), x.v)};
  }
  static D atan2(D a, D b) {
    return {W::atan2(a.v, b.v), (a.d * b.v - a.v * b.d) / (a.v * a.v + b.v * b.v)};
  }
  static D hypot(D a, D b) {
    const T angle = W::atan2(a.v, b.v);
    return {W::hypot(a.v, b.v), W::sin(angle) * a.d + W::cos(angle) * b.d};
  }
  static D fmod(D a, D b) {
    const T y = W::fmod(a.v, b.v);
    return {y, a.d - b.d * W::round((a.v - y) / b.v)};
  }
  static D floor_divide(D a, D b) { return {W::floor_divide(a.v, b.v), T(0)}; }
  static D copysign(D a, D b) {
    return {W::copysign(a.v, b.v), a.d * W::sign(a.v) * W::copysign(T(1), b.v)};
  }
  static D pow(D a, D b) {
    T d = T(0);
    if (a.d != T(0) && b.v != T(0)) d = d + a.d * b.v * W::pow(a.v, b.v - T(1));
    if (b.d != T(0) && !(a.v == T(0))) d = d + b.d * W::pow(a.v, b.v) * W::log(a.v);
    return {W::pow(a.v, b.v), d};
  }
  static D min(D a, D b) { return a.v == b.v ? tie(a, b) : a.v < b.v || a.v != a.v ? a : b; }
  static D max(D a, D b) { return a.v == b.v ? tie(a, b) : b.v < a.v || a.v != a.v ? a : b; }
  static bool lt(D a, D b) { return W::lt(a.v, b.v); }
  static bool le(D a, D b) { return W::le(a.v, b.v); }
  static bool eq(D a, D b) { return W::eq(a.v, b.v); }
  static bool ne(D a, D b) { return W::ne(a.v, b.v); }
  static Real cabs(D x) {  // only its number is right: it is compared, no more
    return Real(double(W::cabs(x.v)));
  }
  static D select(bool m, D a, D b) { return m ? a : b; }

 private:
  static D tie(D a, D b) { return {a.v, (a.d + b.d) / T(2)}; }
};

}  // namespace gradus
