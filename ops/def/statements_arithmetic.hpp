// Statements 2 of 5: arithmetic, powers, and the functions of z and its conjugate. Read
// statements.hpp first.
#pragma once
#include "ops/def/statements_smooth.hpp"

namespace gradus::inline v1::def {

// ---- arithmetic. On bool, + is "or" and * is "and".

struct neg : Unary {
  static constexpr Meta meta{"neg", "minus x", kNumbers};
  template <class T> GRADUS_HD T value(T x) const { return -x; }
  template <class T> GRADUS_HD T slope(T, T) const { return T(-1); }
};

struct add : Binary {
  static constexpr Meta meta{"add", "sum of a and b", kAny};
  template <class T> GRADUS_HD T value(T a, T b) const { return a + b; }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(1); }
  template <class T> GRADUS_HD T slope_b(T, T, T) const { return T(1); }
};

struct sub : Binary {
  static constexpr Meta meta{"sub", "difference of a and b", kNumbers};
  template <class T> GRADUS_HD T value(T a, T b) const { return a - b; }
  template <class T> GRADUS_HD T slope_a(T, T, T) const { return T(1); }
  template <class T> GRADUS_HD T slope_b(T, T, T) const { return T(-1); }
};

struct mul : Binary {
  static constexpr Meta meta{"mul", "product of a and b", kAny};
  template <class T> GRADUS_HD T value(T a, T b) const {
    const auto y = a * b;  // an int where T is bool
    return y;
  }
  template <class T> GRADUS_HD T slope_a(T, T b, T) const { return b; }
  template <class T> GRADUS_HD T slope_b(T a, T, T) const { return a; }
};

struct div : Binary {
  static constexpr Meta meta{"div", "quotient of a and b", kReal | kComplex};
  template <class T> GRADUS_HD T value(T a, T b) const { return a / b; }
  template <class T> GRADUS_HD T slope_a(T, T b, T) const { return T(1) / b; }
  template <class T> GRADUS_HD T slope_b(T, T b, T y) const { return -(y / b); }
};

struct reciprocal : Unary {
  static constexpr Meta meta{"reciprocal", "1 / x", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return T(1) / x; }
  template <class T> GRADUS_HD T slope(T, T y) const { return -(y * y); }
};

struct square : Unary {
  static constexpr Meta meta{"square", "x times x", kNumbers};
  template <class T> GRADUS_HD T value(T x) const { return x * x; }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(2) * x; }
};

struct sqrt : Unary {
  static constexpr Meta meta{"sqrt", "square root", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::sqrt(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(0.5) / y; }
};

// d x^(-1/2) = -1/2 x^(-3/2)
struct rsqrt : Unary {
  static constexpr Meta meta{"rsqrt", "1 / sqrt(x)", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return T(1) / w::sqrt(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(-0.5) * y * y * y; }
};

// ---- power. slope_a = b a^(b-1) is 0 at b = 0 even where a^(-1) overflows or is NaN: of such an a
// 0 / a^2 is not 0. slope_b = y log a is 0 where y is 0 (0^b, b > 0), and at 0^0.
struct pow : Binary {
  static constexpr Meta meta{"pow", "a to the b", kNumbers};
  template <class T> GRADUS_HD T value(T a, T b) const { return w::pow(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    const Mask<T> inverts = w::eq(T(0) / (a * a), T(0)), constant = w::eq(b, T(0));
    const T base = w::select(constant, w::select(inverts, a, T(1)), a);
    return w::select(constant, w::select(inverts, b, T(0)), b) * w::pow(base, b - T(1));
  }
  template <class T> GRADUS_HD T slope_b(T a, T b, T y) const {
    const T zero_to_1 = w::select(w::eq(a, T(0)), T(1), a);
    const T base = w::select(w::eq(b, T(0)), zero_to_1, a);
    return y * w::log(w::select(w::eq(y, T(0)), T(1), base));
  }
};

// ---- functions of z and its conjugate. On complex numbers dz and dzbar are the Wirtinger
// derivatives dy/dz and dy/dz*; on real ones value and slope are read.

// |z| = sqrt(z z*): dz = z* / 2|z|, dzbar = z / 2|z|, and 0 at 0.
struct abs : NonHolomorphic {
  static constexpr Meta meta{"abs", "absolute value", kNumbers};
  template <class T> GRADUS_HD T value(T x) const { return w::abs(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::sign(x); }
  template <class T> GRADUS_HD real_reader<T> cvalue(T z) const { return w::cabs(z); }
  template <class T> GRADUS_HD T dz(T z) const { return w::conj(dzbar(z)); }
  template <class T> GRADUS_HD T dzbar(T z) const {
    return T(0.5) * z / w::select(w::eq(z, T(0)), T(1), T(w::cabs(z)));
  }
};

// z / |z| = z (z z*)^(-1/2): dz = 1 / 2|z|, dzbar = -(z/|z|)^2 / 2|z|, and all are 0 at 0.
struct sign : NonHolomorphic {
  static constexpr Meta meta{"sign", "-1, 0 or 1; z / |z| on complex numbers", kAny};
  template <class T> GRADUS_HD T value(T x) const { return w::sign(x); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
  template <class T> GRADUS_HD T cvalue(T z) const {
    return z / w::select(w::eq(z, T(0)), T(1), T(w::cabs(z)));
  }
  template <class T> GRADUS_HD T dz(T z) const {
    const Mask<T> zero = w::eq(z, T(0));
    return w::select(zero, T(0), T(0.5)) / w::select(zero, T(1), T(w::cabs(z)));
  }
  template <class T> GRADUS_HD T dzbar(T z) const {
    const T u = cvalue(z);
    return -(u * u * dz(z));
  }
};

struct conj : NonHolomorphic {
  static constexpr Meta meta{"conj", "complex conjugate", kAny};
  template <class T> GRADUS_HD T value(T x) const { return x; }
  template <class T> GRADUS_HD T slope(T, T) const { return T(1); }
  template <class T> GRADUS_HD T cvalue(T z) const { return w::conj(z); }
  template <class T> GRADUS_HD T dz(T) const { return T(0); }
  template <class T> GRADUS_HD T dzbar(T) const { return T(1); }
};

// (z + z*) / 2
struct real : NonHolomorphic {
  static constexpr Meta meta{"real", "real part", kAny};
  template <class T> GRADUS_HD T value(T x) const { return x; }
  template <class T> GRADUS_HD T slope(T, T) const { return T(1); }
  template <class T> GRADUS_HD real_reader<T> cvalue(T z) const { return w::real(z); }
  template <class T> GRADUS_HD T dz(T) const { return T(0.5); }
  template <class T> GRADUS_HD T dzbar(T) const { return T(0.5); }
};

// (z - z*) / 2i. PyTorch has no imag of real numbers.
struct imag : NonHolomorphic {
  static constexpr Meta meta{"imag", "imaginary part", kComplex};
  template <class T> GRADUS_HD T value(T) const { return T(0); }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
  template <class T> GRADUS_HD real_reader<T> cvalue(T z) const { return w::imag(z); }
  template <class T> GRADUS_HD T dz(T) const { return T(-0.5) * w::i<T>(); }
  template <class T> GRADUS_HD T dzbar(T) const { return T(0.5) * w::i<T>(); }
};

}  // namespace gradus::def
