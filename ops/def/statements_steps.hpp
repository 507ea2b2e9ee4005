// Statements 5 of 5: rounding and rests, activations in pieces, tests, logic and bits.
// Read statements.hpp first.
#pragma once
#include "ops/def/names.hpp"
#include "ops/def/statement.hpp"
#include "ops/def/statements_pieces.hpp"

namespace gradus::inline v1::def {

// ---- rounding: slope 0 everywhere, as of every step

struct floor : Unary {
  static constexpr Meta meta{"floor", "the next integer down", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::floor(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
};

struct ceil : Unary {
  static constexpr Meta meta{"ceil", "the next integer up", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::ceil(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
};

struct round : Unary {
  static constexpr Meta meta{"round", "the nearest integer, the even one of two", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::round(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
};

struct trunc : Unary {
  static constexpr Meta meta{"trunc", "the next integer towards 0", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::trunc(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
};

struct frac : Unary {
  static constexpr Meta meta{"frac", "x - trunc(x)", kReal};
  template <class T> GRADUS_HD T value(T x) const { return x - w::trunc(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(1); }
};

// ---- rests of divisions, 0 by integer 0 (PyTorch raises an error). The slope by b is the value's
// own quotient, negative: a / b may round up to the next integer.

struct fmod : Binary {
  static constexpr Meta meta{"fmod", "rest of a / b, with the sign of a", kReal | kInteger};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::fmod(a, b); }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(1); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T y) const { return -w::round((a - y) / b); }
};

struct remainder : Binary {
  static constexpr Meta meta{"remainder", "rest of a / b, with the sign of b", kReal | kInteger};
  template <class T> GRADUS_HD T value(T a, T b) const {
    const T rest = w::fmod(a, b);
    return rest + w::select(w::lt(T(w::sign(rest) * w::sign(b)), T(0)), b, T(0));
  }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(1); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return -w::floor_divide(a, b); }
};

struct floor_divide : Binary {
  static constexpr Meta meta{"floor_divide", "a / b rounded down", kReal | kInteger};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::floor_divide(a, b); }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(0); }
  template <class T> GRADUS_HD T slope_b(T, T, T) const { return T(0); }
};

// ---- signs and choices between two operands

struct copysign : Binary {
  static constexpr Meta meta{"copysign", "|a| with the sign of b", kReal};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::copysign(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    return w::sign(a) * w::copysign(T(1), b);
  }
  template <class T> GRADUS_HD T slope_b(T, T, T) const { return T(0); }
};

struct heaviside : Binary {
  static constexpr Meta meta{"heaviside", "0 below 0, 1 above, b at 0", kReal | kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::select(w::eq(a, T(0)), b, w::select(w::lt(T(0), a), T(1), T(0)));
  }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(0); }
  template <class T> GRADUS_HD T slope_b(T a, T, T) const {
    return w::select(w::eq(a, T(0)), T(1), T(0));
  }
};

// The slope by `own` of a choice between two in which a number wins over NaN: half at a tie.
template <class T> GRADUS_HD inline T chosen_number(Mask<T> wins, T own, T other) {
  const T numbers = w::select(w::eq(own, other), T(0.5), w::select(wins, T(1), T(0)));
  return w::select(w::eq(other, other), numbers, unless_nan(own, T(1)));
}

struct fmax : Binary {
  static constexpr Meta meta{"fmax", "the larger of a and b that is a number",
                             kReal | kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::select(w::ne(b, b), a, w::select(w::le(b, a), a, b));
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    return chosen_number(w::lt(b, a), a, b);
  }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const {
    return chosen_number(w::lt(a, b), b, a);
  }
};

struct fmin : Binary {
  static constexpr Meta meta{"fmin", "the smaller of a and b that is a number",
                             kReal | kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::select(w::ne(b, b), a, w::select(w::le(a, b), a, b));
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    return chosen_number(w::lt(a, b), a, b);
  }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const {
    return chosen_number(w::lt(b, a), b, a);
  }
};

// Where x is replaced the slope is 0.
struct nan_to_num : Unary {
  static constexpr Meta meta{
      "nan_to_num", "x, with numbers for nan, inf and -inf", kReal, {"nan", "posinf", "neginf"}};
  double nan = 0, posinf = kInf, neginf = -kInf;
  template <class T> GRADUS_HD T value(T x) const {
    const T negative = w::select(w::eq(x, T(-kInf)), T(neginf), x);
    return w::select(w::ne(x, x), T(nan), w::select(w::eq(x, T(kInf)), T(posinf), negative));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return w::select(w::eq(x - x, T(0)), T(1), T(0));
  }
};

// ---- activations. At a kink the slope is PyTorch's.

// Held within 1e30 the quotient is 1 in every dtype.
struct softsign : Unary {
  static constexpr Meta meta{"softsign", "x / (1 + |x|)", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    const T c = within(x, 1e30);
    return c / (T(1) + w::abs(c));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T r = T(1) / (T(1) + w::abs(x));
    return r * r;
  }
};

struct celu : Unary {
  static constexpr Meta meta{"celu", "x, and alpha * expm1(x / alpha) below 0", kReal, {"alpha"}};
  double alpha = 1;
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::lt(T(0), x), x, T(alpha) * w::expm1(w::min(x, T(0)) / T(alpha)));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const Mask<T> right = w::lt(T(0), x);
    return w::select(right, T(1), w::exp(w::select(right, T(0), x) / T(alpha)));
  }
};

// Klambauer et al., "Self-normalizing neural networks" (2017): scale times elu.
struct selu : Unary {
  static constexpr Meta meta{"selu", "scaled elu that keeps mean 0 and variance 1", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    const T left = T(1.7580993408473766) * w::expm1(w::min(x, T(0)));
    return w::select(w::lt(T(0), x), T(1.0507009873554805) * x, left);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const Mask<T> right = w::lt(T(0), x);
    const T left = T(1.7580993408473766) * w::exp(w::select(right, T(0), x));
    return w::select(right, T(1.0507009873554805), left);
  }
};

// y = x t with t = tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2), which is 1 beyond 40;
// dt/dx = (1 - t^2) logistic(x) and 1 - t = 2 / (n + 2).
struct mish : Unary {
  static constexpr Meta meta{"mish", "x * tanh(softplus(x))", kReal};
  template <class T> GRADUS_HD static T grown(T x) {
    const T e = w::exp(w::min(x, T(40)));
    return e * (e + T(2));
  }
  template <class T> GRADUS_HD T value(T x) const {
    const T n = grown(x);
    return w::max(x, T(-1000)) * (n / (n + T(2)));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T n = grown(x);
    const T t = n / (n + T(2)), rest = T(2) / (n + T(2));
    return t + within(x, 1000) * logistic(x) * rest * (T(1) + t);
  }
};

// As clamp.
struct hardtanh : Unary {
  static constexpr Meta meta{
      "hardtanh", "x held in [min_val, max_val]", kReal | kInteger, {"min_val", "max_val"}};
  double min_val = -1, max_val = 1;
  template <class T> GRADUS_HD T value(T x) const {
    return w::min(w::max(x, w::number<T>(min_val)), w::number<T>(max_val));
  }
  template <class T> GRADUS_HD T slope(T x, T y) const {
    return slope_between(w::number<T>(min_val), w::number<T>(max_val), x, y);
  }
};

struct relu6 : Unary {
  static constexpr Meta meta{"relu6", "x held in [0, 6]", kReal | kInteger};
  template <class T> GRADUS_HD T value(T x) const { return w::min(w::max(x, T(0)), T(6)); }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T below = w::select(w::lt(x, T(6)), T(1), T(0));
    return unless_nan(x, w::select(w::lt(T(0), x), below, T(0)));
  }
};

struct hardsigmoid : Unary {
  static constexpr Meta meta{"hardsigmoid", "(x + 3) / 6 held in [0, 1]", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return w::min(w::max(x + T(3), T(0)), T(6)) / T(6);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T below = w::select(w::lt(x, T(3)), T(1.0 / 6), T(0));
    return unless_nan(x, w::select(w::lt(T(-3), x), below, T(0)));
  }
};

struct hardswish : Unary {
  static constexpr Meta meta{"hardswish", "x * hardsigmoid(x)", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return w::max(x, T(-3)) * (w::min(w::max(x + T(3), T(0)), T(6)) / T(6));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T between = x / T(3) + T(0.5);
    return w::select(w::le(x, T(-3)), T(0), w::select(w::le(T(3), x), T(1), between));
  }
};

// The slope of both shrinks is 0 on the closed interval.
struct softshrink : Unary {
  static constexpr Meta meta{
      "softshrink", "x moved by lambd towards 0, and 0 within lambd", kReal, {"lambd"}};
  double lambd = 0.5;
  template <class T> GRADUS_HD T value(T x) const {
    const T left = w::select(w::lt(x, -T(lambd)), x + T(lambd), w::select(w::eq(x, x), T(0), x));
    return w::select(w::lt(T(lambd), x), x - T(lambd), left);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return unless_nan(x, w::select(w::lt(T(lambd), w::abs(x)), T(1), T(0)));
  }
};

struct hardshrink : Unary {
  static constexpr Meta meta{"hardshrink", "x, and 0 within lambd", kReal, {"lambd"}};
  double lambd = 0.5;
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::le(w::abs(x), T(lambd)), T(0), x);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return unless_nan(x, w::select(w::lt(T(lambd), w::abs(x)), T(1), T(0)));
  }
};

struct tanhshrink : Unary {
  static constexpr Meta meta{"tanhshrink", "x - tanh(x)", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return x - w::tanh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T t = w::tanh(x);
    return t * t;
  }
};

struct threshold : Unary {
  static constexpr Meta meta{
      "threshold", "x above the threshold, else value", kReal | kInteger, {"threshold", "value"}};
  double bound = 0, other = 0;
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::le(x, w::number<T>(bound)), w::number<T>(other), x);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return unless_nan(x, w::select(w::le(x, w::number<T>(bound)), T(0), T(1)));
  }
};

// ---- tests of one number. inf - inf is NaN: only of finite numbers x - x is 0.

struct isnan : Test {
  static constexpr Meta meta{"isnan", "is x, or a part of it, not a number?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T x) const { return w::ne(x, x); }
};

struct isinf : Test {
  static constexpr Meta meta{"isinf", "is x, or a part of it, infinite?", kAny};
  // NaN if x is infinite, else 0.
  template <class R> GRADUS_HD static R trace(R x) {
    return w::select(w::eq(x, x), R(x - x), R(0));
  }
  template <class T> GRADUS_HD Mask<T> value(T x) const {
    using R = real_reader<T>;
    return w::ne(R(trace(w::real(x)) + trace(w::imag(x))), R(0));
  }
};

struct isfinite : Test {
  static constexpr Meta meta{"isfinite", "is x neither infinite nor NaN?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T x) const { return w::eq(T(x - x), T(0)); }
};

struct signbit : Test {
  static constexpr Meta meta{"signbit", "has x a minus sign, -0 too?", kReal | kInteger};
  template <class T> GRADUS_HD Mask<T> value(T x) const {
    return w::lt(w::copysign(T(1), x), T(0));
  }
};

// ---- logic: what is not 0 is true, NaN too

struct logical_not : Test {
  static constexpr Meta meta{"logical_not", "is x 0?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T x) const { return w::eq(x, T(0)); }
};

struct logical_and : Comparison {
  static constexpr Meta meta{"logical_and", "are both not 0?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const {
    return w::ne(w::select(w::eq(a, T(0)), T(0), b), T(0));
  }
};

struct logical_or : Comparison {
  static constexpr Meta meta{"logical_or", "is one not 0?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const {
    return w::ne(w::select(w::eq(a, T(0)), b, T(1)), T(0));
  }
};

struct logical_xor : Comparison {
  static constexpr Meta meta{"logical_xor", "is just one not 0?", kAny};
  template <class T> GRADUS_HD Mask<T> value(T a, T b) const {
    return w::ne(w::select(w::eq(a, T(0)), T(0), T(1)), w::select(w::eq(b, T(0)), T(0), T(1)));
  }
};

// ---- bits, of integers and bool

struct bitwise_and : Binary {
  static constexpr Meta meta{"bitwise_and", "bits that both have", kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::bit_and(a, b); }
};

struct bitwise_or : Binary {
  static constexpr Meta meta{"bitwise_or", "bits that one has", kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::bit_or(a, b); }
};

struct bitwise_xor : Binary {
  static constexpr Meta meta{"bitwise_xor", "bits that just one has", kInteger | kBool};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::bit_xor(a, b); }
};

struct bitwise_left_shift : Binary {
  static constexpr Meta meta{"bitwise_left_shift",
                             "bits b places to the left, zeros behind them; by b < 0 all are gone",
                             kInteger};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::shift_left(a, b); }
};

struct bitwise_right_shift : Binary {
  static constexpr Meta meta{
      "bitwise_right_shift",
      "bits b places to the right, copies of the sign before them; by b < 0 all are gone",
      kInteger};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::shift_right(a, b); }
};

struct bitwise_not : Unary {
  static constexpr Meta meta{"bitwise_not", "all bits turned", kInteger | kBool};
  template <class T> GRADUS_HD T value(T x) const { return w::bit_not(x); }
};

}  // namespace gradus::def
