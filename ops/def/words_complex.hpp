// The words for Complex<double>, and for Complex<float> through it: principal branches (the cut of
// log, sqrt and pow is the negative real axis, the sign of a zero imaginary part choosing the
// side), relative error of a few units in the last place of the larger part, no overflow on the way
// to a number that fits. Included by words_scalar.hpp. Plain header: kernels include it.
#pragma once
#include "engine/abi/complex.hpp"
#include "ops/def/words.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace detail::complex_words {

GRADUS_HD inline bool is_inf(double x) { return x - x != 0 && x == x; }

// e^x (u, v) where e^x alone may overflow.
GRADUS_HD inline c128 scaled_exp(double x, double u, double v) {
  if (::std::fabs(x) < 700) {
    const double e = ::std::exp(x);
    return {e * u, e * v};
  }
  const double h = ::std::exp(0.5 * x);
  return {h * u * h, h * v * h};
}

GRADUS_HD inline c128 exp(c128 z) {
  if (z.im == 0) return {::std::exp(z.re), z.im};
  if (is_inf(z.re) && z.re < 0) return {0.0, 0.0};
  return scaled_exp(z.re, ::std::cos(z.im), ::std::sin(z.im));
}

// exp(z) - 1 = expm1(x) cos y - 2 sin^2(y/2) + i e^x sin y
GRADUS_HD inline c128 expm1(c128 z) {
  if (z.im == 0) return {::std::expm1(z.re), z.im};
  if (::std::fabs(z.re) > 40) return exp(z) - c128(1.0);
  const double s = ::std::sin(0.5 * z.im);
  return {::std::expm1(z.re) * ::std::cos(z.im) - 2 * s * s, ::std::exp(z.re) * ::std::sin(z.im)};
}

// log |z|. Near |z| = 1 it is log1p(p + q - 1) / 2 with p = m^2 and q = n^2, each with its rounding
// error (from an FMA), so that what cancels is exact.
GRADUS_HD inline double log_abs(double x, double y) {
  const double a = ::std::fabs(x), b = ::std::fabs(y);
  if (is_inf(a) || is_inf(b)) return __builtin_huge_val();
  const double m = a < b ? b : a, n = a < b ? a : b;
  if (m == 0) return ::std::log(m);
  if (m > 0.5 && m < 2) {
    const double p = m * m, q = n * n;
    const double rest = ::std::fma(m, m, -p) + ::std::fma(n, n, -q);
    return 0.5 * ::std::log1p((p - 1) + q + rest);
  }
  const double r = n / m;
  return ::std::log(m) + 0.5 * ::std::log1p(r * r);
}

GRADUS_HD inline c128 log(c128 z) { return {log_abs(z.re, z.im), ::std::atan2(z.im, z.re)}; }

// Near 0: |1 + z|^2 - 1 = 2x + y^2 + x^2, again with the rounding errors of the squares.
GRADUS_HD inline c128 log1p(c128 z) {
  const double x = z.re, y = z.im;
  const double angle = ::std::atan2(y, 1 + x);
  if (!(::std::fabs(x) <= 0.5 && ::std::fabs(y) <= 1)) return {log_abs(1 + x, y), angle};
  const double p = x * x, q = y * y;
  const double rest = ::std::fma(x, x, -p) + ::std::fma(y, y, -q);
  return {0.5 * ::std::log1p((2 * x + q) + p + rest), angle};
}

GRADUS_HD inline c128 sqrt(c128 z) {
  double x = z.re, y = z.im;
  if (x == 0 && y == 0) return {0.0, y};
  if (is_inf(y)) return {__builtin_huge_val(), y};
  if (is_inf(x)) {
    const double side = y != y ? y : ::std::copysign(0.0, y);
    return x > 0 ? c128(x, side) : c128(y != y ? y : 0.0, ::std::copysign(-x, y));
  }
  // Scaled by powers of 4 so that neither |z| overflows nor its digits are subnormal.
  double scale = 1;
  const double size = ::std::fabs(x) + ::std::fabs(y);
  if (!(size < 1e300)) x *= 0.0625, y *= 0.0625, scale = 4;
  if (size < 1e-290) x *= 0x1p108, y *= 0x1p108, scale = 0x1p-54;
  const double t = ::std::sqrt(0.5 * (::std::fabs(x) + ::std::hypot(x, y)));
  const double u = 0.5 * ::std::fabs(y) / t;
  const double re = x >= 0 ? t : u, im = x >= 0 ? u : t;
  return {re * scale, ::std::copysign(im * scale, z.im)};
}

// u cosh y + i v sinh y where both may overflow alone.
GRADUS_HD inline c128 cosh_sinh(double u, double v, double y) {
  if (y == 0) return {u, v * y};
  if (::std::fabs(y) < 700) return {u * ::std::cosh(y), v * ::std::sinh(y)};
  const c128 e = scaled_exp(::std::fabs(y), 0.5 * u, 0.5 * v);
  return {u == 0 ? u : e.re, v == 0 ? v : y < 0 ? -e.im : e.im};
}

GRADUS_HD inline c128 sin(c128 z) { return cosh_sinh(::std::sin(z.re), ::std::cos(z.re), z.im); }
GRADUS_HD inline c128 cos(c128 z) { return cosh_sinh(::std::cos(z.re), -::std::sin(z.re), z.im); }

// Kahan, "Branch cuts for complex elementary functions" (1987): with t = tan y, s = sinh x,
// b = 1 + t^2, r = sqrt(1 + s^2): tanh z = (b r s + i t) / (1 + b s^2).
GRADUS_HD inline c128 tanh(c128 z) {
  if (z.im == 0) return {::std::tanh(z.re), z.im};
  const double a = ::std::fabs(z.re);
  if (is_inf(a)) return {::std::copysign(1.0, z.re), 0.0};
  if (a > 22) {
    const double im = 4 * ::std::sin(z.im) * ::std::cos(z.im) * ::std::exp(-2 * a);
    return {::std::copysign(1.0, z.re), im};
  }
  const double t = ::std::tan(z.im), s = ::std::sinh(z.re);
  const double b = 1 + t * t, r = ::std::sqrt(1 + s * s), d = 1 + b * s * s;
  return {b * r * s / d, t / d};
}

// Functions of i z, turned back: sinh z = -i sin(i z) and the like.
GRADUS_HD inline c128 times_i(c128 z) { return {-z.im, z.re}; }
GRADUS_HD inline c128 over_i(c128 z) { return {z.im, -z.re}; }

GRADUS_HD inline c128 sinh(c128 z) { return over_i(sin(times_i(z))); }
GRADUS_HD inline c128 cosh(c128 z) { return cos(times_i(z)); }
GRADUS_HD inline c128 tan(c128 z) { return over_i(tanh(times_i(z))); }

// Kahan again: no product below cancels, as 1 - z and 1 + z lie on both sides of the real axis.
// On the cuts (real numbers beyond 1 and -1) the sign of the zero chooses the side.
GRADUS_HD inline c128 asin(c128 z) {
  if (is_inf(z.re) || is_inf(z.im)) {  // only the direction matters
    const double x = is_inf(z.re) ? ::std::copysign(1.0, z.re) : ::std::copysign(0.0, z.re);
    return {::std::atan2(x, is_inf(z.im) ? 1.0 : 0.0), ::std::copysign(__builtin_huge_val(), z.im)};
  }
  const c128 below = sqrt(c128(1 - z.re, -z.im)), above = sqrt(c128(1 + z.re, z.im));
  return {::std::atan2(z.re, below.re * above.re - below.im * above.im),
          ::std::asinh(below.re * above.im - below.im * above.re)};
}
GRADUS_HD inline c128 acos(c128 z) {
  if (is_inf(z.re) || is_inf(z.im)) {
    const c128 a = asin(z);
    return {1.5707963267948966 - a.re, -a.im};
  }
  const c128 below = sqrt(c128(1 - z.re, -z.im)), above = sqrt(c128(1 + z.re, z.im));
  return {2 * ::std::atan2(below.re, above.re),
          ::std::asinh(above.re * below.im - above.im * below.re)};
}
GRADUS_HD inline c128 asinh(c128 z) { return over_i(asin(times_i(z))); }
// acosh z = i acos z or -i acos z, the one with a positive real part.
GRADUS_HD inline c128 acosh(c128 z) {
  const c128 a = acos(z);
  return {::std::fabs(a.im), ::std::copysign(a.re, z.im)};
}
// re = log1p(4x / ((1 - x)^2 + y^2)) / 4 for x >= 0, im = atan2(2y, 1 - x^2 - y^2) / 2;
// odd in x.
GRADUS_HD inline c128 atanh(c128 z) {
  const double x = ::std::fabs(z.re), y = z.im, b = ::std::fabs(y);
  if (x > 1e150 || b > 1e150) {  // 1 / z
    const double m = x < b ? b : x;
    const double re = is_inf(m) ? 0.0 : (x / m) / m / ((x / m) * (x / m) + (b / m) * (b / m));
    return {::std::copysign(re, z.re), ::std::copysign(1.5707963267948966, y)};
  }
  const double re = x == 1 && b < 1e-100 ? -0.5 * ::std::log(0.5 * b)
                                         : 0.25 * ::std::log1p(4 * x / ((1 - x) * (1 - x) + y * y));
  const double im = 0.5 * ::std::atan2(2 * y, (1 - x) * (1 + x) - y * y);
  return {::std::copysign(re, z.re), im};
}
GRADUS_HD inline c128 atan(c128 z) { return over_i(atanh(times_i(z))); }

// 2^x split in two factors, as it alone may overflow.
GRADUS_HD inline c128 exp2(c128 z) {
  if (z.im == 0) return {::std::exp2(z.re), z.im};
  if (is_inf(z.re) && z.re < 0) return {0.0, 0.0};
  const double h = ::std::exp2(0.5 * z.re), angle = 0.6931471805599453 * z.im;
  return {h * ::std::cos(angle) * h, h * ::std::sin(angle) * h};
}
// Part by part: in a complex product the infinity of log 0 would meet the 0 of the factor.
GRADUS_HD inline c128 scaled_log(c128 z, double by) {
  const c128 y = log(z);
  return {y.re * by, y.im * by};
}
GRADUS_HD inline c128 log2(c128 z) { return scaled_log(z, 1.4426950408889634); }
GRADUS_HD inline c128 log10(c128 z) { return scaled_log(z, 0.4342944819032518); }

// Small whole exponents by multiplication, else exp(b log a).
GRADUS_HD inline c128 pow(c128 a, c128 b) {
  if (b.im == 0) {
    if (b.re == 0) return {1.0, 0.0};
    if (a.im == 0 && a.re >= 0) return {::std::pow(a.re, b.re), a.im};
    if (::std::fabs(b.re) <= 16 && b.re == double(int(b.re))) {
      const int count = int(::std::fabs(b.re));
      c128 power = a;
      for (int k = 1; k < count; ++k) power = power * a;
      return b.re < 0 ? c128(1.0) / power : power;
    }
  }
  if (a.re == 0 && a.im == 0 && b.re > 0) return {0.0, 0.0};
  return exp(b * log(a));
}

}  // namespace detail::complex_words

template <class R> struct Words<Complex<R>> {
  using C = Complex<R>;
  using Mask = bool;
  using Real = R;
#define GRADUS_COMPLEX_WORD(name) \
  GRADUS_HD static C name(C z) { return C(detail::complex_words::name(c128(z))); }
  GRADUS_COMPLEX_WORD(exp)
  GRADUS_COMPLEX_WORD(expm1)
  GRADUS_COMPLEX_WORD(log)
  GRADUS_COMPLEX_WORD(log1p)
  GRADUS_COMPLEX_WORD(sqrt)
  GRADUS_COMPLEX_WORD(sin)
  GRADUS_COMPLEX_WORD(cos)
  GRADUS_COMPLEX_WORD(tanh)
  GRADUS_COMPLEX_WORD(exp2)
  GRADUS_COMPLEX_WORD(log2)
  GRADUS_COMPLEX_WORD(log10)
  GRADUS_COMPLEX_WORD(tan)
  GRADUS_COMPLEX_WORD(asin)
  GRADUS_COMPLEX_WORD(acos)
  GRADUS_COMPLEX_WORD(atan)
  GRADUS_COMPLEX_WORD(sinh)
  GRADUS_COMPLEX_WORD(cosh)
  GRADUS_COMPLEX_WORD(asinh)
  GRADUS_COMPLEX_WORD(acosh)
  GRADUS_COMPLEX_WORD(atanh)
#undef GRADUS_COMPLEX_WORD
  GRADUS_HD static C pow(C a, C b) { return C(detail::complex_words::pow(c128(a), c128(b))); }
  GRADUS_HD static bool eq(C a, C b) { return a == b; }
  GRADUS_HD static bool ne(C a, C b) { return a != b; }
  GRADUS_HD static C select(bool m, C a, C b) { return m ? a : b; }
  GRADUS_HD static C conj(C z) { return {z.re, -z.im}; }
  GRADUS_HD static R real(C z) { return z.re; }
  GRADUS_HD static R imag(C z) { return z.im; }
  GRADUS_HD static R cabs(C z) { return R(::std::hypot(double(z.re), double(z.im))); }
  GRADUS_HD static C i() { return {R(0), R(1)}; }
};

}  // namespace gradus
