// Statements 3 of 5: comparisons, functions in pieces, and the smooth steps made of them.
// Read statements.hpp first.
#pragma once
#include "ops/def/names.hpp"
#include "ops/def/statement.hpp"
#include "ops/def/statements_smooth.hpp"

namespace gradus::inline v1::def {

inline constexpr double kInf = __builtin_huge_val();

// x where it is NaN, a constant then. Not a literal: exact number types have none.
template <class T> GRADUS_HD inline T nan_of(T x) {
  if constexpr (requires { Words<T>::detached(x); })
    return Words<T>::detached(x);
  else
    return x;
}

// The slope of a function in pieces: comparisons would choose a piece for NaN too, but where the
// value is NaN, so is the slope.
template <class T> GRADUS_HD inline T unless_nan(T x, T slope) {
  return w::select(w::eq(x, x), slope, nan_of(x));
}

// The slope of y = x held between bounds: 1 where x lies strictly between them, else 0. An infinite
// bound is none, so it has no slope of its own where x is that infinity. It is x that is compared:
// y is rounded to 16 bits where x is, and the bounds are not.
template <class T> GRADUS_HD inline T slope_between(T low, T high, T x, T y) {
  const T below = w::select(w::lt(x, high), T(1), w::select(w::lt(high, T(kInf)), T(0), T(1)));
  const T at_low = w::select(w::lt(T(-kInf), low), T(0), T(1));
  return unless_nan(y, w::select(w::lt(low, x), below, at_low));
}

// ---- comparisons: a mask, no slope. NaN compares false, but for ne.

struct lt : Comparison {
  static constexpr Meta meta{"lt", "is a < b?", kReal | kInteger | kBool};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::lt(a, b); }
};

struct le : Comparison {
  static constexpr Meta meta{"le", "is a <= b?", kReal | kInteger | kBool};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::le(a, b); }
};

struct gt : Comparison {
  static constexpr Meta meta{"gt", "is a > b?", kReal | kInteger | kBool};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::gt(a, b); }
};

struct ge : Comparison {
  static constexpr Meta meta{"ge", "is a >= b?", kReal | kInteger | kBool};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::ge(a, b); }
};

struct eq : Comparison {
  static constexpr Meta meta{"eq", "is a == b?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::eq(a, b); }
};

struct ne : Comparison {
  static constexpr Meta meta{"ne", "is a != b?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const { return w::ne(a, b); }
};

// ---- functions in pieces. At a kink the slope is PyTorch's; NaN goes through, in the slope too.

struct where : Select {
  static constexpr Meta meta{"where", "a where m holds, else b", kAny};
  template <class T> GRADUS_HD T value(Mask<T> m, T a, T b) const { return w::select(m, a, b); }
  template <class T> GRADUS_HD T slope_a(Mask<T> m, T, T, T) const {
    return w::select(m, T(1), T(0));
  }
  template <class T> GRADUS_HD T slope_b(Mask<T> m, T, T, T) const {
    return w::select(m, T(0), T(1));
  }
};

struct relu : Unary {
  static constexpr Meta meta{"relu", "the positive part of x", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::max(x, T(0)); }
  template <class T> GRADUS_HD T slope(T, T y) const {
    return unless_nan(y, w::select(w::le(y, T(0)), T(0), T(1)));
  }
};

struct leaky_relu : Unary {
  static constexpr Meta meta{
      "leaky_relu", "x, and negative_slope * x below 0", kReal, {"negative_slope"}};
  double negative_slope = 0.01;
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::lt(T(0), x), x, T(negative_slope) * x);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return unless_nan(x, w::select(w::lt(T(0), x), T(1), T(negative_slope)));
  }
};

// The slope of the larger of two by `high`: 1 if it is that, half at a tie, NaN with a NaN.
template <class T> GRADUS_HD inline T chosen(T low, T high) {
  const T unequal = w::select(w::lt(low, high), T(1), nan_of(T(low + high)));
  return w::select(w::eq(low, high), T(0.5), w::select(w::lt(high, low), T(0), unequal));
}

struct maximum : Binary {
  static constexpr Meta meta{"maximum", "the larger of a and b", kReal | kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::max(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const { return chosen(b, a); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return chosen(a, b); }
};

struct minimum : Binary {
  static constexpr Meta meta{"minimum", "the smaller of a and b", kReal | kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::min(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const { return chosen(a, b); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return chosen(b, a); }
};

// The slope is 0 at the bounds. If min > max the value is max.
struct clamp : Unary {
  static constexpr Meta meta{"clamp", "x held in [min, max]", kReal | kInteger, {"min", "max"}};
  double min = -kInf, max = kInf;
  template <class T> GRADUS_HD T value(T x) const {
    return w::min(w::max(x, w::number<T>(min)), w::number<T>(max));
  }
  template <class T> GRADUS_HD T slope(T x, T y) const {
    return slope_between(w::number<T>(min), w::number<T>(max), x, y);
  }
};

struct elu : Unary {
  static constexpr Meta meta{"elu", "x, and alpha * expm1(x) below 0", kReal, {"alpha"}};
  double alpha = 1;
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::lt(T(0), x), x, T(alpha) * w::expm1(w::min(x, T(0))));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const Mask<T> right = w::lt(T(0), x);
    return w::select(right, T(1), T(alpha) * w::exp(w::select(right, T(0), x)));
  }
};

// ---- smooth steps

// log(1 + e^t) / beta with t = beta x, written as max(t, 0) + log1p(e^-|t|); x itself beyond the
// threshold.
struct softplus : Unary {
  static constexpr Meta meta{"softplus",
                             "log(1 + exp(beta * x)) / beta, and x where beta * x > threshold",
                             kReal,
                             {"beta", "threshold"}};
  double beta = 1, threshold = 20;
  template <class T> GRADUS_HD T value(T x) const {
    const T t = T(beta) * x;
    const T soft = w::max(t, T(0)) + w::log1p(w::exp(-w::abs(t)));
    return w::select(w::lt(T(threshold), t), x, soft / T(beta));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T t = T(beta) * x;
    return w::select(w::lt(T(threshold), t), T(1), logistic(t));
  }
};

// log sigmoid(x) = -softplus(-x); its slope 1 - sigmoid(x) is 1 - e^y.
struct logsigmoid : Unary {
  static constexpr Meta meta{"logsigmoid", "log of the logistic function", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return w::min(x, T(0)) - w::log1p(w::exp(-w::abs(x)));
  }
  template <class T> GRADUS_HD T slope(T, T y) const { return -w::expm1(y); }
};

// y = x s with s = sigmoid(x); dy/dx = s + x s (1 - s).
struct silu : Unary {
  static constexpr Meta meta{"silu", "x * sigmoid(x)", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return w::max(x, T(-1000)) / (T(1) + w::exp(-x));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T s = logistic(x);
    return s * (T(1) + within(x, 1000) * (T(1) - s));
  }
};

// y = x P(x) with P(x) = (1 + erf(x / sqrt 2)) / 2; dy/dx = P(x) + x p(x) with
// p(x) = e^(-x^2/2) / sqrt(2 pi).
struct gelu : Unary {
  static constexpr Meta meta{"gelu", "x times the normal distribution function of x", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return T(0.5) * w::max(x, T(-100)) * (T(1) + w::erf(x * T(0.7071067811865476)));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T c = within(x, 100);
    const T p = T(0.3989422804014327) * w::exp(T(-0.5) * c * c);
    return T(0.5) * (T(1) + w::erf(c * T(0.7071067811865476))) + c * p;
  }
};

// gelu with erf(x / sqrt 2) replaced by t = tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct gelu_tanh : Unary {
  static constexpr Meta meta{"gelu_tanh", "gelu through tanh", kReal};
  template <class T> GRADUS_HD static T inner(T c) {
    return T(0.7978845608028654) * (c + T(0.044715) * c * c * c);
  }
  template <class T> GRADUS_HD T value(T x) const {
    return T(0.5) * w::max(x, T(-100)) * (T(1) + w::tanh(inner(within(x, 100))));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T c = within(x, 100);
    const T t = w::tanh(inner(c));
    const T du = T(0.7978845608028654) * (T(1) + T(0.134145) * c * c);
    return T(0.5) * (T(1) + t) + T(0.5) * c * (T(1) - t * t) * du;
  }
};

}  // namespace gradus::def
