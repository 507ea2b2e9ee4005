// Statements 1 of 5: elementary functions.
// Read statements.hpp first.
#pragma once
#include "ops/def/names.hpp"
#include "ops/def/statement.hpp"

namespace gradus::inline v1::def {

// ---- helpers of the slopes

// x held in [-r, r], for functions that have reached their limit there: keeps inf * 0 away.
template <class T> GRADUS_HD inline T within(T x, double r) {
  return w::max(T(-r), w::min(x, T(r)));
}

// 1 / (1 + exp(-x)) without an overflow on the way. Both branches are the same analytic function,
// so its derivatives of any order are right at 0 too.
template <class T> GRADUS_HD inline T logistic(T x) {
  const Mask<T> left = w::lt(x, T(0));
  const T e = w::exp(w::select(left, x, -x));
  return w::select(left, e, T(1)) / (T(1) + e);
}

// ---- elementary functions

struct exp : Unary {
  static constexpr Meta meta{"exp", "e to the x", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::exp(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return y; }
};

// The slope y + 1 would lose all digits where y is near -1.
struct expm1 : Unary {
  static constexpr Meta meta{"expm1", "exp(x) - 1, exact near 0", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::expm1(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::exp(x); }
};

struct log : Unary {
  static constexpr Meta meta{"log", "natural logarithm", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::log(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / x; }
};

// Of binary cross-entropies, finite where a prediction is wrong altogether: y is at least -100, and
// the slope at most 1e12. As both are cut, the slope is no longer y's below 1e-12.
struct bounded_log : Unary {
  static constexpr Meta meta{"bounded_log", "log(x), at least -100; its slope is at most 1e12",
                             kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::max(w::log(x), T(-100)); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / w::max(x, T(1e-12)); }
};

struct log1p : Unary {
  static constexpr Meta meta{"log1p", "log(1 + x), exact near 0", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::log1p(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / (T(1) + x); }
};

struct sin : Unary {
  static constexpr Meta meta{"sin", "sine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::sin(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::cos(x); }
};

struct cos : Unary {
  static constexpr Meta meta{"cos", "cosine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::cos(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return -w::sin(x); }
};

struct tanh : Unary {
  static constexpr Meta meta{"tanh", "hyperbolic tangent", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::tanh(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(1) - y * y; }
};

struct sigmoid : Unary {
  static constexpr Meta meta{"sigmoid", "logistic function", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return T(1) / (T(1) + w::exp(-x)); }
  template <class T> GRADUS_HD T slope(T, T y) const { return y * (T(1) - y); }
};

// d erf = 2/sqrt(pi) exp(-x^2), which is 0 in every dtype beyond 40.
struct erf : Unary {
  static constexpr Meta meta{"erf", "error function", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::erf(x); }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T c = within(x, 40);
    return T(1.1283791670955126) * w::exp(-(c * c));
  }
};

}  // namespace gradus::def
