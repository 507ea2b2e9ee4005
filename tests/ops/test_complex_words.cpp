// The words of complex numbers against the standard library, and where its simple formulas fail.
#include "ops/def/words_scalar.hpp"
#include "tests/oracles/statement_limits.hpp"

#include <complex>

using namespace gradus;
using namespace gradus::testing;

namespace {
std::vector<c128> off_the_axes() {
  std::vector<c128> points;
  for (double re : {-5.3, -1.37, -0.71, -0.013, 0.021, 0.31, 0.77, 1.21, 2.6, 4.4})
    for (double im : {-2.6, -0.4, 0.07, 1.9}) points.push_back(c128(re, im));
  return points;
}
}  // namespace

TEST_CASE("statements: complex words agree with the standard library") {
  using std_c = std::complex<double>;
  using W = Words<c128>;
  const auto as_std = [](c128 z) { return std_c(z.re, z.im); };
  const auto close = [](c128 got, std_c want) {
    return std::abs(std_c(got.re, got.im) - want) <= 4e-15 * std::abs(want);
  };
  for (c128 z : off_the_axes()) {
    const std_c s = as_std(z);
    INFO(z.re, " + ", z.im, "i");
    CHECK(close(W::exp(z), std::exp(s)));
    CHECK(close(W::log(z), std::log(s)));
    CHECK(close(W::sqrt(z), std::sqrt(s)));
    CHECK(close(W::sin(z), std::sin(s)));
    CHECK(close(W::cos(z), std::cos(s)));
    CHECK(close(W::tanh(z), std::tanh(s)));
    CHECK(close(W::expm1(z), std::exp(s) - 1.0));
    CHECK(close(W::log1p(z), std::log(s + 1.0)));
    CHECK(close(W::pow(z, c128(3.0)), s * s * s));
    CHECK(close(W::pow(z, c128(-2.0)), 1.0 / (s * s)));
    CHECK(close(W::pow(z, c128(0.3, -0.7)), std::pow(s, std_c(0.3, -0.7))));
  }
}

TEST_CASE("statements: complex words where the simple formula fails") {
  using W = Words<c128>;
  // log |z| near |z| = 1: (0.6, 0.8) rounded is 1 + 2.2e-17 away from the circle.
  const long double re = 0.6, im = 0.8;
  const double exact = double(0.5L * std::log1p(re * re + im * im - 1));
  CHECK(W::log(c128(0.6, 0.8)).re == doctest::Approx(exact).epsilon(1e-3));
  CHECK(W::log(c128(1e308, 1e308)).re == doctest::Approx(std::log(1e308) + 0.5 * std::log(2.0)));
  CHECK(W::log(c128(-1.0, 0.0)).im == doctest::Approx(M_PI));
  CHECK(W::log(c128(-1.0, -0.0)).im == doctest::Approx(-M_PI));
  CHECK(W::log1p(c128(1e-20, 1e-20)).re == doctest::Approx(1e-20));
  CHECK(W::expm1(c128(1e-20, 1e-20)).re == doctest::Approx(1e-20));
  CHECK(W::sqrt(c128(-4.0, 0.0)) == c128(0.0, 2.0));
  CHECK(W::sqrt(c128(-4.0, -0.0)) == c128(0.0, -2.0));
  CHECK(W::sqrt(c128(0.0, 1e308)).re == doctest::Approx(std::sqrt(0.5e308)));
  CHECK(W::sqrt(c128(0.0, 8e-320)).re == doctest::Approx(2e-160).epsilon(1e-3));
  CHECK(W::exp(c128(710, M_PI / 2)).im == kInf);
  CHECK(W::exp(c128(709.9, 1.2)).re ==
        doctest::Approx(std::exp(709.0) * (std::exp(0.9) * std::cos(1.2))));
  CHECK(W::exp(c128(-kInf, 1.0)) == c128(0.0, 0.0));
  CHECK(W::exp(c128(1000.0, 0.0)).im == 0);
  CHECK(W::tanh(c128(1000.0, 1.0)) == c128(1.0, 0.0));
  CHECK(W::tanh(c128(-kInf, 1.0)).re == -1);
  CHECK(W::sin(c128(0.0, 710.0)).re == 0);
  CHECK(W::pow(c128(0.0), c128(0.0)) == c128(1.0));
  CHECK(W::pow(c128(0.0), c128(2.0)) == c128(0.0));
  CHECK(W::pow(c128(0.0), c128(2.0, 1.0)) == c128(0.0));
  CHECK(W::pow(c128(0.0, 1.0), c128(2.0)) == c128(-1.0));
  CHECK(W::cabs(c128(3e307, 4e307)) == doctest::Approx(5e307));
}

TEST_CASE("statements: the other complex words agree with the standard library") {
  constexpr double kPi = 3.141592653589793, kLn2 = 0.6931471805599453;
  using std_c = std::complex<double>;
  using W = Words<c128>;
  const auto close = [](c128 got, std_c want) {
    return std::abs(std_c(got.re, got.im) - want) <= 4e-15 * std::abs(want);
  };
  const double some[] = {-5.3, -1.1, -1.0, -0.3, 0.0, 1e-9, 0.5, 1.0, 1.9, 30.0};
  for (double re : some)
    for (double im : some) {
      if (im == 0 || re == 0) continue;  // branch points and cuts follow
      const c128 z(re, im);
      const std_c s(re, im);
      INFO(re, " + ", im, "i");
      CHECK(close(W::tan(z), std::tan(s)));
      CHECK(close(W::asin(z), std::asin(s)));
      CHECK(close(W::acos(z), std::acos(s)));
      CHECK(close(W::atan(z), std::atan(s)));
      CHECK(close(W::sinh(z), std::sinh(s)));
      CHECK(close(W::cosh(z), std::cosh(s)));
      CHECK(close(W::asinh(z), std::asinh(s)));
      CHECK(close(W::acosh(z), std::acosh(s)));
      CHECK(close(W::atanh(z), std::atanh(s)));
      CHECK(close(W::exp2(z), std::exp(s * kLn2)));
      CHECK(close(W::log2(z), std::log(s) / kLn2));
      CHECK(close(W::log10(z), std::log10(s)));
    }
  // On a cut the sign of the zero chooses the side.
  for (double zero : {0.0, -0.0}) {
    const double side = std::copysign(1.0, zero);
    CHECK(W::asin(c128(2, zero)).im == doctest::Approx(side * std::acosh(2.0)));
    CHECK(W::acos(c128(-2, zero)).im == doctest::Approx(-side * std::acosh(2.0)));
    CHECK(W::acosh(c128(-2, zero)).im == doctest::Approx(side * kPi));
    CHECK(W::atanh(c128(2, zero)).im == doctest::Approx(side * kPi / 2));
    CHECK(W::asinh(c128(zero, 2)).re == doctest::Approx(side * std::acosh(2.0)));
    CHECK(W::atan(c128(zero, 2)).re == doctest::Approx(side * kPi / 2));
    // The slope takes the side of the value: the difference quotient along the cut.
    const double h = 1e-6;
    const c128 up = W::asin(c128(2 + h, zero)), down = W::asin(c128(2 - h, zero));
    CHECK(def::asin{}.slope(c128(2, zero), {}).im == doctest::Approx((up.im - down.im) / (2 * h)));
  }
  // So do both slopes on the cut beyond -1.
  for (double zero : {0.0, -0.0}) {
    const double h = 1e-6;
    const auto rise = [&](auto f) {
      const c128 up = f(c128(-2 + h, zero)), down = f(c128(-2 - h, zero));
      return (up - down) / c128(2 * h);
    };
    CHECK(def::acos{}.slope(c128(-2, zero), {}).im == doctest::Approx(rise(W::acos).im));
    CHECK(def::acosh{}.slope(c128(-2, zero), {}).re == doctest::Approx(rise(W::acosh).re));
  }
  CHECK(W::asin(c128(1e200, 1e200)).im == doctest::Approx(std::log(2e200) + 0.5 * kLn2));
  CHECK(W::atanh(c128(3e200, 4e200)).re == doctest::Approx(1.2e-201));
  CHECK(W::atanh(c128(1, 1e-200)).re == doctest::Approx(0.5 * (kLn2 - std::log(1e-200))));
  CHECK(W::asin(c128(kInf, kInf)).re == doctest::Approx(kPi / 4));
  CHECK(W::acos(c128(-kInf, kInf)).re == doctest::Approx(0.75 * kPi));
  CHECK(W::atan(c128(-kInf, 0)).re == doctest::Approx(-kPi / 2));
  CHECK(W::exp2(c128(1024, 1)).re == doctest::Approx(std::ldexp(std::cos(kLn2), 1023) * 2));
  CHECK(W::exp2(c128(-kInf, 1)) == c128(0.0));
}
