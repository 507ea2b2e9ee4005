// Statements 4 of 5: more functions of one and two operands, from roots and angles to gamma.
// Read statements.hpp first.
#pragma once
#include "ops/def/names.hpp"
#include "ops/def/statement.hpp"
#include "ops/def/statements_pieces.hpp"

namespace gradus::inline v1::def {

// ---- powers and logarithms to other bases

struct cbrt : Unary {
  static constexpr Meta meta{"cbrt", "cube root", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::cbrt(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(1) / (T(3) * y * y); }
};

struct exp2 : Unary {
  static constexpr Meta meta{"exp2", "2 to the x", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::exp2(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(0.6931471805599453) * y; }
};

struct log2 : Unary {
  static constexpr Meta meta{"log2", "logarithm to the base 2", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::log2(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1.4426950408889634) / x; }
};

struct log10 : Unary {
  static constexpr Meta meta{"log10", "logarithm to the base 10", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::log10(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(0.4342944819032518) / x; }
};

// ---- angles and their hyperbolic kin

struct tan : Unary {
  static constexpr Meta meta{"tan", "tangent", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::tan(x); }
  template <class T> GRADUS_HD T slope(T, T y) const { return T(1) + y * y; }
};

// sqrt(1 - x) sqrt(1 + x): two roots, not one of 1 - x^2, as nothing overflows so. Written such
// that on complex numbers the sign of a zero imaginary part survives, which chooses the side of a
// cut.
template <class T> GRADUS_HD inline T root_of_1_minus_square(T x) {
  return w::sqrt(-x - T(-1)) * w::sqrt(x - T(-1));
}

struct asin : Unary {
  static constexpr Meta meta{"asin", "inverse of sine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::asin(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / root_of_1_minus_square(x); }
};

struct acos : Unary {
  static constexpr Meta meta{"acos", "inverse of cosine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::acos(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(-1) / root_of_1_minus_square(x); }
};

struct atan : Unary {
  static constexpr Meta meta{"atan", "inverse of tangent", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::atan(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / (T(1) + x * x); }
};

struct sinh : Unary {
  static constexpr Meta meta{"sinh", "hyperbolic sine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::sinh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::cosh(x); }
};

struct cosh : Unary {
  static constexpr Meta meta{"cosh", "hyperbolic cosine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::cosh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::sinh(x); }
};

struct asinh : Unary {
  static constexpr Meta meta{"asinh", "inverse of hyperbolic sine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::asinh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / w::sqrt(T(1) + x * x); }
};

struct acosh : Unary {
  static constexpr Meta meta{"acosh", "inverse of hyperbolic cosine", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::acosh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const {
    return T(1) / (w::sqrt(x - T(1)) * w::sqrt(x - T(-1)));
  }
};

struct atanh : Unary {
  static constexpr Meta meta{"atanh", "inverse of hyperbolic tangent", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const { return w::atanh(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return T(1) / ((T(1) - x) * (T(1) + x)); }
};

// The slope (t cos t - sin t) / t^2 pi, t = pi x, cancels near 0: there it is its Taylor series,
// sum over k of (-1)^k 2k t^(2k - 1) / (2k + 1)!, which is right through all derivatives at 0.
struct sinc : Unary {
  static constexpr Meta meta{"sinc", "sin(pi x) / (pi x), and 1 at 0", kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const {
    const T t = T(3.141592653589793) * x;
    return w::select(w::eq(x, T(0)), T(1), w::sin(t) / t);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const Mask<T> near = w::lt(w::cabs(x), real_reader<T>(0.25));
    const T t = T(3.141592653589793) * x, z = t * t;
    T sum = T(16 / 355687428096000.0);
    sum = sum * z + T(-14 / 1307674368000.0);
    sum = sum * z + T(12 / 6227020800.0);
    sum = sum * z + T(-10 / 39916800.0);
    sum = sum * z + T(8 / 362880.0);
    sum = sum * z + T(-6 / 5040.0);
    sum = sum * z + T(4 / 120.0);
    sum = sum * z + T(-2 / 6.0);
    const T far = w::select(near, T(3.141592653589793), t);
    const T direct = (w::cos(far) - w::sin(far) / far) / far;
    return T(3.141592653589793) * w::select(near, sum * t, direct);
  }
};

// dy/da = b / (a^2 + b^2), dy/db = -a / (a^2 + b^2); 0 in every order at (0, 0).
struct atan2 : Binary {
  static constexpr Meta meta{"atan2", "the angle of the point (b, a)", kReal};
  template <class T> GRADUS_HD static T over_square(T x, T a, T b) {
    const T r = w::hypot(a, b), safe = w::select(w::eq(r, T(0)), T(1), r);
    return w::select(w::eq(r, T(0)), T(0), x) / safe / safe;
  }
  template <class T> GRADUS_HD T value(T a, T b) const { return w::atan2(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const { return over_square(b, a, b); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return -over_square(a, a, b); }
};

// 0 in every order at (0, 0), as norms.
struct hypot : Binary {
  static constexpr Meta meta{"hypot", "sqrt(a^2 + b^2)", kReal};
  template <class T> GRADUS_HD static T share(T x, T y) {
    const Mask<T> zero = w::eq(y, T(0));
    return w::select(zero, T(0), x) / w::select(zero, T(1), y);
  }
  template <class T> GRADUS_HD T value(T a, T b) const { return w::hypot(a, b); }
  template <class T> GRADUS_HD T slope_a(T a, T, T y) const { return share(a, y); }
  template <class T> GRADUS_HD T slope_b(T, T b, T y) const { return share(b, y); }
};

// Im log z = (log z - log z*) / 2i.
struct angle : NonHolomorphic {
  static constexpr Meta meta{"angle", "the angle of z; pi below 0 on real numbers",
                             kReal | kComplex};
  template <class T> GRADUS_HD T value(T x) const {
    return w::select(w::lt(x, T(0)), T(3.141592653589793), w::select(w::eq(x, x), T(0), x));
  }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0); }
  template <class T> GRADUS_HD real_reader<T> cvalue(T z) const {
    return w::atan2(w::imag(z), w::real(z));
  }
  template <class T> GRADUS_HD T dz(T z) const { return w::conj(dzbar(z)); }
  template <class T> GRADUS_HD T dzbar(T z) const {
    const Mask<T> zero = w::eq(z, T(0));
    return w::select(zero, T(0), T(0.5)) * w::i<T>() / w::conj(w::select(zero, T(1), z));
  }
};

struct deg2rad : Unary {
  static constexpr Meta meta{"deg2rad", "x degrees in radians", kReal};
  template <class T> GRADUS_HD T value(T x) const { return T(0.017453292519943295) * x; }
  template <class T> GRADUS_HD T slope(T, T) const { return T(0.017453292519943295); }
};

struct rad2deg : Unary {
  static constexpr Meta meta{"rad2deg", "x radians in degrees", kReal};
  template <class T> GRADUS_HD T value(T x) const { return T(57.29577951308232) * x; }
  template <class T> GRADUS_HD T slope(T, T) const { return T(57.29577951308232); }
};

// ---- the error function and gamma

struct erfc : Unary {
  static constexpr Meta meta{"erfc", "1 - erf(x), exact for large x", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::erfc(x); }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T c = within(x, 40);
    return T(-1.1283791670955126) * w::exp(-(c * c));
  }
};

struct erfinv : Unary {
  static constexpr Meta meta{"erfinv", "inverse of the error function", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::erfinv(x); }
  template <class T> GRADUS_HD T slope(T, T y) const {
    return T(0.886226925452758) * w::exp(y * y);
  }
};

struct ndtr : Unary {
  static constexpr Meta meta{"ndtr", "normal distribution function of x", kReal};
  template <class T> GRADUS_HD T value(T x) const {
    return T(0.5) * w::erfc(T(-0.7071067811865476) * x);
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const T c = within(x, 60);
    return T(0.3989422804014327) * w::exp(T(-0.5) * c * c);
  }
};

struct lgamma : Unary {
  static constexpr Meta meta{"lgamma", "log of |gamma(x)|", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::lgamma(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::digamma(x); }
};

struct digamma : Unary {
  static constexpr Meta meta{"digamma", "derivative of lgamma", kReal};
  template <class T> GRADUS_HD T value(T x) const { return w::digamma(x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::polygamma(T(1), x); }
};

struct polygamma : Unary {
  static constexpr Meta meta{"polygamma", "n-th derivative of digamma", kReal, {"n"}};
  double n = 1;
  template <class T> GRADUS_HD T value(T x) const { return w::polygamma(T(n), x); }
  template <class T> GRADUS_HD T slope(T x, T) const { return w::polygamma(T(n) + T(1), x); }
};

// ---- sums and products of logarithms

// log(e^a + e^b) = max(a, b) + log1p(e^-|a - b|). The difference of what is held within 1e38 is 0
// where both are the same infinity.
struct logaddexp : Binary {
  static constexpr Meta meta{"logaddexp", "log(exp(a) + exp(b))", kReal};
  template <class T> GRADUS_HD static T difference(T a, T b) {
    return within(a, 1e38) - within(b, 1e38);
  }
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::max(a, b) + w::log1p(w::exp(-w::abs(difference(a, b))));
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const { return logistic(difference(a, b)); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return logistic(difference(b, a)); }
};

struct logaddexp2 : Binary {
  static constexpr Meta meta{"logaddexp2", "log2(2^a + 2^b)", kReal};
  template <class T> GRADUS_HD static T difference(T a, T b) {
    return T(0.6931471805599453) * logaddexp::difference(a, b);
  }
  template <class T> GRADUS_HD T value(T a, T b) const {
    const T rest = w::log1p(w::exp(-w::abs(difference(a, b))));
    return w::max(a, b) + T(1.4426950408889634) * rest;
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const { return logistic(difference(a, b)); }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const { return logistic(difference(b, a)); }
};

// 0 where a is 0, whatever b but NaN; the slopes there are log b and 0, and beyond the logarithm,
// b <= 0, all derivatives are 0.
struct xlogy : Binary {
  static constexpr Meta meta{"xlogy", "a * log(b), and 0 where a is 0", kReal};
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::select(w::eq(a, T(0)), w::select(w::eq(b, b), T(0), b), a * w::log(b));
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    const T positive = w::select(w::le(b, T(0)), T(1), b);
    return w::log(w::select(w::eq(a, T(0)), positive, b));
  }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const {
    const Mask<T> zero = w::eq(a, T(0)), beyond = w::le(b, T(0));
    const T share = w::select(beyond, T(0), a), positive = w::select(beyond, T(1), b);
    return w::select(zero, share, a) / w::select(zero, positive, b);
  }
};

struct xlog1py : Binary {
  static constexpr Meta meta{"xlog1py", "a * log1p(b), and 0 where a is 0", kReal};
  template <class T> GRADUS_HD T value(T a, T b) const {
    return w::select(w::eq(a, T(0)), w::select(w::eq(b, b), T(0), b), a * w::log1p(b));
  }
  template <class T> GRADUS_HD T slope_a(T a, T b, T) const {
    const T above = w::select(w::le(b, T(-1)), T(0), b);
    return w::log1p(w::select(w::eq(a, T(0)), above, b));
  }
  template <class T> GRADUS_HD T slope_b(T a, T b, T) const {
    const Mask<T> zero = w::eq(a, T(0)), beyond = w::le(b, T(-1));
    const T share = w::select(beyond, T(0), a), above = w::select(beyond, T(0), b);
    return w::select(zero, share, a) / (T(1) + w::select(zero, above, b));
  }
};

// eps >= 0 holds x in [eps, 1 - eps], where the slope is 0 outside; below 0 there is none. The
// lower bound goes first, which matters where eps > 1 / 2.
struct logit : Unary {
  static constexpr Meta meta{
      "logit", "log(x / (1 - x)) of x held in [eps, 1 - eps]", kReal, {"eps"}};
  double eps = -1;
  template <class T> GRADUS_HD T low() const {
    return w::select(w::lt(T(eps), T(0)), T(-kInf), T(eps));
  }
  template <class T> GRADUS_HD T value(T x) const {
    const T high = T(1) - low<T>();
    const T p = w::select(w::lt(x, low<T>()), low<T>(), w::select(w::lt(high, x), high, x));
    return w::log(p / (T(1) - p));
  }
  template <class T> GRADUS_HD T slope(T x, T) const {
    const Mask<T> below = w::lt(x, low<T>()), above = w::lt(T(1) - low<T>(), x);
    const T p = w::select(below, T(0.5), w::select(above, T(0.5), x));
    const T one = w::select(below, T(0), w::select(above, T(0), T(1)));
    return one / (p * (T(1) - p));
  }
};

}  // namespace gradus::def
