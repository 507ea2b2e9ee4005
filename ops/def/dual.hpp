// Dual<T>: a number v and its derivative d, v + d e with e^2 = 0. Reading a statement's value with
// Dual gives the derivative of what is computed, to rounding, without looking at its slope: the
// exact check of slopes. T is float, double or Complex. At a kink the derivative is that of the
// words below (min and max share a tie, abs has slope 0 at 0).
#pragma once
#include "ops/def/words_scalar.hpp"

namespace gradus {

template <class T>
struct Dual {
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

template <class T>
struct Words<Dual<T>> {
  using D = Dual<T>;
  using W = Words<T>;
  using Mask = bool;
  using Real = Dual<real_of<T>>;

  static D exp(D x) { return {W::exp(x.v), x.d * W::exp(x.v)}; }
  static D expm1(D x) { return {W::expm1(x.v), x.d * W::exp(x.v)}; }
  static D log(D x) { return {W::log(x.v), x.d / x.v}; }
  static D log1p(D x) { return {W::log1p(x.v), x.d / (T(1) + x.v)}; }
  static D sqrt(D x) {
    const T y = W::sqrt(x.v);
    return {y, x.d / (y + y)};
  }
  static D sin(D x) { return {W::sin(x.v), x.d * W::cos(x.v)}; }
  static D cos(D x) { return {W::cos(x.v), -(x.d * W::sin(x.v))}; }
  static D tanh(D x) {
    const T cosh = (W::exp(x.v) + W::exp(-x.v)) / T(2);
    return {W::tanh(x.v), x.d / (cosh * cosh)};
  }
  static D erf(D x) { return {W::erf(x.v), x.d * T(1.1283791670955126) * W::exp(-(x.v * x.v))}; }
  static D abs(D x) { return {W::abs(x.v), x.d * W::sign(x.v)}; }
  static D sign(D x) { return {W::sign(x.v), T(0)}; }
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
  static D select(bool m, D a, D b) { return m ? a : b; }

 private:
  static D tie(D a, D b) { return {a.v, (a.d + b.d) / T(2)}; }
};

}  // namespace gradus
