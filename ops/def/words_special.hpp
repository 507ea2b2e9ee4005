// Functions that libm lacks or that its C++ form gets wrong: in double, to some units in the last
// place, without loops whose length depends on the argument. Plain header: kernels include it.
#pragma once
#include "engine/abi/hd.hpp"

#include <cmath>

namespace gradus::inline v1::detail::special {

constexpr double kPi = 3.141592653589793;

// log |gamma(x)|. std::lgamma writes the global signgam, which is a data race between threads.
GRADUS_HD inline double lgamma(double x) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}

// S. Winitzki, "A handy approximation for the error function and its inverse" (2008), relative
// error 2e-3; then three steps of Halley's method. Beyond 1/2 the error is taken with erfc, as 1 -
// x is exact there.
GRADUS_HD inline double erfinv(double x) {
  const double a = ::std::fabs(x);
  if (!(a < 1)) return a == 1 ? x * __builtin_huge_val() : __builtin_nan("");
  const double l = ::std::log((1 - a) * (1 + a)), t = 2 / (kPi * 0.147) + 0.5 * l;
  double y = ::std::sqrt(::std::sqrt(t * t - l / 0.147) - t);
  for (int step = 0; step < 3; ++step) {
    const double error = a < 0.5 ? ::std::erf(y) - a : (1 - a) - ::std::erfc(y);
    const double newton = error / (1.1283791670955126 * ::std::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return ::std::copysign(y, x);
}

// d = x - (nearest integer), which is exact.
GRADUS_HD inline double from_integer(double x) { return x - ::std::nearbyint(x); }

// psi(x). Below 1 by reflection and recurrence; in [1, 2] (x - root) times a rational function,
// from Boost.Math (digamma.hpp, John Maddock); beyond 10 the asymptotic series (Abramowitz and
// Stegun 6.3.18).
GRADUS_HD inline double digamma(double x) {
  if (x == 0) return ::std::copysign(__builtin_huge_val(), -x);
  double y = 0;
  if (x < 0) {
    const double d = from_integer(x);
    if (!(d != 0)) return __builtin_nan("");
    y = -kPi / ::std::tan(kPi * d);
    x = 1 - x;
  }
  if (x < 10) {
    for (; x > 2; x -= 1) y += 1 / (x - 1);
    for (; x < 1; x += 1) y -= 1 / x;
    constexpr double root[3] = {1569415565.0 / 1073741824, 381566830.0 / 1073741824 / 1073741824,
                                0.9016312093258695918615e-19};
    constexpr double p[6] = {0.25479851061131551,  -0.32555031186804491,  -0.65031853770896507,
                             -0.28919126444774784, -0.045251321448739056, -0.0020713321167745952};
    constexpr double q[7] = {1.0,
                             2.0767117023730469,
                             1.4606242909763515,
                             0.43593529692665969,
                             0.054151797245674225,
                             0.0021284987017821144,
                             -0.55789841321675513e-6};
    const double g = x - root[0] - root[1] - root[2], t = x - 1;
    double top = p[5], bottom = q[6];
    for (int k = 4; k >= 0; --k) top = top * t + p[k];
    for (int k = 5; k >= 0; --k) bottom = bottom * t + q[k];
    return y + (g * 0.99558162689208984 + g * (top / bottom));
  }
  constexpr double c[7] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                           1.0 / 252, -1.0 / 120,     1.0 / 12};
  const double z = 1 / (x * x);
  double sum = 0;
  for (const double k : c) sum = sum * z + k;
  return y + (::std::log(x) - 0.5 / x - z * sum);
}

// Hurwitz zeta(s, q) = sum over k >= 0 of (q + k)^-s, for q > 0 and s >= 2: ten terms, then
// Euler and Maclaurin's formula (as in S. L. Moshier's Cephes).
GRADUS_HD inline double hurwitz_zeta(double s, double q) {
  double sum = 0;
  for (int k = 0; k < 10; ++k, q += 1) sum += ::std::pow(q, -s);
  // B_2j / (2j)!
  constexpr double b[10] = {1.0 / 12,
                            -1.0 / 720,
                            1.0 / 30240,
                            -1.0 / 1209600,
                            1.0 / 47900160,
                            -691.0 / 1307674368000,
                            1.0 / 74724249600,
                            -3617.0 / 10670622842880000,
                            43867.0 / 5109094217170944000,
                            -174611.0 / 802857662698291200000.0};
  const double last = ::std::pow(q, -s);
  sum += ::std::pow(q, 1 - s) / (s - 1) + 0.5 * last;
  double factor = s * last / q;
  for (int j = 0; j < 10; ++j) {
    sum += b[j] * factor;
    factor *= (s + 2 * j + 1) / q * ((s + 2 * j + 2) / q);
  }
  return sum;
}

// psi^(n)(x) = (-1)^(n+1) n! zeta(n + 1, x) for n = 1, 2, ... (n! is finite up to 170). On negative
// x it is the sum over all integers without those below; the nearest term is exact.
GRADUS_HD inline double polygamma(double n, double x) {
  if (!(n >= 0) || n != ::std::floor(n) || x != x) return __builtin_nan("");
  if (n == 0) return digamma(x);
  const double s = n + 1, even = ::std::fmod(s, 2.0) == 0 ? 1 : -1;
  const double scale = even * ::std::tgamma(s);
  if (x > 0) return x - x == 0 ? scale * hurwitz_zeta(s, x) : 0 * scale;
  if (x - x != 0) return __builtin_nan("");
  const double d = from_integer(x);
  if (d == 0) return scale * __builtin_huge_val();
  const double above = hurwitz_zeta(s, d > 0 ? d : 1 + d);
  const double below = hurwitz_zeta(s, d > 0 ? 1 - d : -d);
  return scale * (above + even * (below - hurwitz_zeta(s, 1 - x)));
}

}  // namespace gradus::detail::special
