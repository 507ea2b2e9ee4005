// Oracles of the statements in ops/def/statements_functions.hpp and statements_steps.hpp, and of
// the pointwise compositions.
#include "tests/oracles/oracles_pointwise.hpp"

#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using namespace pointwise;
constexpr R kLn2 = 0.693147180559945309417232121458176568L;
constexpr Wide kI{0, 1};

// Sums of many terms and the first of what is left, by Euler and Maclaurin.
R digamma(R x) {
  constexpr int n = 5000;
  R sum = -0.577215664901532860606512090082402431L;
  for (int k = 0; k < n; ++k) sum += 1 / R(k + 1) - 1 / (k + x);
  const auto rest = [](R at) { return std::log(at) - 1 / (2 * at) - 1 / (12 * at * at); };
  return sum + rest(n + x) - rest(n + 1);
}
R polygamma(int order, R x) {
  if (order == 0) return digamma(x);
  constexpr int n = 3000;
  const R s = order + 1, at = n + x;
  R sum = std::pow(at, 1 - s) / (s - 1) + std::pow(at, -s) / 2 + s / 12 * std::pow(at, -s - 1);
  for (int k = n - 1; k >= 0; --k) sum += std::pow(k + x, -s);
  return (order % 2 ? 1 : -1) * std::tgamma(s) * sum;
}
// By bisection.
R erfinv(R x) {
  if (x == 0) return 0;
  R low = -6, high = 6;
  for (int k = 0; k < 70; ++k) {
    const R middle = (low + high) / 2;
    (std::erf(middle) < x ? low : high) = middle;
  }
  return (low + high) / 2;
}

void add_functions(std::map<std::string, Oracle>& to) {
  to["cbrt"] =
      real_function([](R x) { return std::copysign(std::pow(std::fabs(x), R(1) / 3), x); });
  to["exp2"] =
      function([](R x) { return std::exp(x * kLn2); }, [](Wide z) { return std::pow(Wide(2), z); });
  to["log2"] =
      function([](R x) { return std::log(x) / kLn2; }, [](Wide z) { return std::log(z) / kLn2; });
  to["log10"] = function([](R x) { return std::log(x) / std::log(R(10)); },
                         [](Wide z) { return std::log10(z); });
  to["tan"] = function([](R x) { return std::sin(x) / std::cos(x); },
                       [](Wide z) { return std::sin(z) / std::cos(z); });
  to["asin"] = function([](R x) { return std::atan2(x, std::sqrt(1 - x * x)); },
                        [](Wide z) { return -kI * std::log(kI * z + std::sqrt(R(1) - z * z)); });
  to["acos"] =
      function([](R x) { return std::atan2(std::sqrt(1 - x * x), x); },
               [](Wide z) { return kPi / 2 + kI * std::log(kI * z + std::sqrt(R(1) - z * z)); });
  to["atan"] = function(
      [](R x) { return std::asin(x / std::sqrt(1 + x * x)); },
      [](Wide z) { return kI / R(2) * (std::log(R(1) - kI * z) - std::log(R(1) + kI * z)); });
  to["sinh"] = function([](R x) { return (std::exp(x) - std::exp(-x)) / 2; },
                        [](Wide z) { return (std::exp(z) - std::exp(-z)) / R(2); });
  to["cosh"] = function([](R x) { return (std::exp(x) + std::exp(-x)) / 2; },
                        [](Wide z) { return (std::exp(z) + std::exp(-z)) / R(2); });
  to["asinh"] = function([](R x) { return std::copysign(std::acosh(std::sqrt(1 + x * x)), x); },
                         [](Wide z) { return std::log(z + std::sqrt(z * z + R(1))); });
  to["acosh"] =
      function([](R x) { return std::log(x + std::sqrt(x * x - 1)); },
               [](Wide z) { return std::log(z + std::sqrt(z - R(1)) * std::sqrt(z + R(1))); });
  to["atanh"] = function([](R x) { return std::log((1 + x) / (1 - x)) / 2; },
                         [](Wide z) { return (std::log(R(1) + z) - std::log(R(1) - z)) / R(2); });
  // by its product over 2^-k: sin(t) / t = prod cos(t / 2^k)
  to["sinc"] = each([](const Call&, X x) {
    Wide product = 1;
    for (int k = 1; k < 40; ++k) product *= std::cos(kPi * x[0] * std::exp2(R(-k)));
    return product;
  });
  to["atan2"] = each([](const Call&, X x) { return std::arg(Wide(x[1].real(), x[0].real())); });
  to["hypot"] = each([](const Call&, X x) {
    return std::sqrt(x[0].real() * x[0].real() + x[1].real() * x[1].real());
  });
  to["angle"] = each([](const Call&, X x) { return std::arg(x[0]); });
  to["deg2rad"] = real_function([](R x) { return x / 180 * kPi; });
  to["rad2deg"] = real_function([](R x) { return x / kPi * 180; });
  to["erfc"] = real_function([](R x) { return x < 0.5L ? 1 - std::erf(x) : std::erfc(x); });
  to["erfinv"] = real_function(erfinv);
  to["ndtr"] = real_function([](R x) {
    const R e = std::erf(std::fabs(x) / std::sqrt(R(2)));
    return x < 0 ? (1 - e) / 2 : (1 + e) / 2;
  });
  to["lgamma"] = real_function([](R x) { return std::log(std::fabs(std::tgamma(x))); });
  to["digamma"] = real_function(digamma);
  to["polygamma"] =
      each([](const Call& c, X x) { return polygamma(int(c.number("n")), x[0].real()); });
  to["logaddexp"] = each(
      [](const Call&, X x) { return std::log(std::exp(x[0].real()) + std::exp(x[1].real())); });
  to["logaddexp2"] = each(
      [](const Call&, X x) { return std::log2(std::exp2(x[0].real()) + std::exp2(x[1].real())); });
  to["xlogy"] = each([](const Call&, X x) {
    return x[0].real() == 0 ? 0 : std::log2(x[1].real()) * x[0].real() * kLn2;
  });
  to["xlog1py"] = each([](const Call&, X x) {
    return x[0].real() == 0 ? 0 : std::log(1 + x[1].real()) * x[0].real();
  });
  to["logit"] = each([](const Call& c, X x) {
    const R eps = c.number("eps");
    R p = x[0].real();
    if (eps >= 0) p = std::fmin(std::fmax(p, eps), 1 - eps);
    return -std::log(1 / p - 1);
  });
}

void add_rounding(std::map<std::string, Oracle>& to) {
  to["floor"] = real_function([](R x) {
    const R whole = R(int64_t(x));
    return whole > x ? whole - 1 : whole;
  });
  to["ceil"] = real_function([](R x) {
    const R whole = R(int64_t(x));
    return whole < x ? whole + 1 : whole;
  });
  to["round"] = real_function([](R x) { return std::rint(x); });
  to["trunc"] = real_function([](R x) { return R(int64_t(x)); });
  to["frac"] = real_function([](R x) { return std::fmod(x, R(1)); });
  to["fmod"] = each([](const Call&, X x) {
    const R a = x[0].real(), b = x[1].real();
    return a - b * std::trunc(a / b);
  });
  to["remainder"] = each([](const Call&, X x) {
    const R a = x[0].real(), b = x[1].real();
    return a - b * std::floor(a / b);
  });
  to["floor_divide"] = each([](const Call&, X x) { return std::floor(x[0].real() / x[1].real()); });
  to["copysign"] = each([](const Call&, X x) {
    return std::signbit(x[1].real()) ? -std::fabs(x[0].real()) : std::fabs(x[0].real());
  });
  to["heaviside"] = each([](const Call&, X x) {
    const R a = x[0].real();
    return a < 0 ? R(0) : a > 0 ? R(1) : x[1].real();
  });
  to["fmax"] = each([](const Call&, X x) {
    const R a = x[0].real(), b = x[1].real();
    return (a + b + std::fabs(a - b)) / 2;
  });
  to["fmin"] = each([](const Call&, X x) {
    const R a = x[0].real(), b = x[1].real();
    return (a + b - std::fabs(a - b)) / 2;
  });
  to["nan_to_num"] = real_function([](R x) { return x; });
}

void add_activations(std::map<std::string, Oracle>& to) {
  const auto held = [](R x, R low, R high) { return std::fmin(std::fmax(x, low), high); };
  const auto negative = [](R x) { return std::fmin(x, R(0)); };
  const auto positive = [](R x) { return std::fmax(x, R(0)); };
  to["celu"] = each([=](const Call& c, X x) {
    const R alpha = c.number("alpha"), v = x[0].real();
    return positive(v) + alpha * (std::exp(negative(v) / alpha) - 1);
  });
  to["selu"] = real_function([=](R x) {
    const R scale = 1.0507009873554804934193349852946L, alpha = 1.6732632423543772848170429916717L;
    return scale * (positive(x) + alpha * (std::exp(negative(x)) - 1));
  });
  to["mish"] = real_function([](R x) { return x * std::tanh(std::log(1 + std::exp(x))); });
  to["hardtanh"] = each([=](const Call& c, X x) {
    return held(x[0].real(), c.number("min_val"), c.number("max_val"));
  });
  to["relu6"] = real_function([=](R x) { return held(x, 0, 6); });
  to["hardsigmoid"] = real_function([=](R x) { return held(x / 6 + 0.5L, 0, 1); });
  to["hardswish"] = real_function([=](R x) { return x * held(x / 6 + 0.5L, 0, 1); });
  to["softshrink"] = each([=](const Call& c, X x) {
    const R lambd = c.number("lambd"), v = x[0].real();
    return positive(v - lambd) + negative(v + lambd);
  });
  to["hardshrink"] = each([](const Call& c, X x) {
    return std::norm(x[0]) > R(c.number("lambd")) * R(c.number("lambd")) ? x[0].real() : R(0);
  });
  to["tanhshrink"] =
      each([](const Call&, X x) { return x[0] - std::sinh(x[0]) / std::cosh(x[0]); });
  to["threshold"] = each([](const Call& c, X x) {
    return x[0].real() > c.number("threshold") ? x[0].real() : R(c.number("value"));
  });
}

int64_t whole(const Wide& x) { return int64_t(x.real()); }

void add_logic(std::map<std::string, Oracle>& to) {
  const Wide zero = 0;
  to["isnan"] = each([](const Call&, X x) { return R(std::isnan(std::abs(x[0]))); });
  to["complex"] = each([](const Call&, X x) { return Wide(x[0].real(), x[1].real()); });
  to["isinf"] = each([](const Call&, X x) { return R(std::isinf(std::abs(x[0]))); });
  to["isfinite"] = each([](const Call&, X x) { return R(std::isfinite(std::abs(x[0]))); });
  to["signbit"] = each([](const Call&, X x) { return R(std::signbit(x[0].real())); });
  to["logical_not"] = each([=](const Call&, X x) { return R(x[0] == zero); });
  to["logical_and"] = comparison([=](Wide a, Wide b) { return a != zero && b != zero; });
  to["logical_or"] = comparison([=](Wide a, Wide b) { return a != zero || b != zero; });
  to["logical_xor"] = comparison([=](Wide a, Wide b) { return (a != zero) != (b != zero); });
  to["bitwise_and"] = each([](const Call&, X x) { return R(whole(x[0]) & whole(x[1])); });
  to["bitwise_or"] = each([](const Call&, X x) { return R(whole(x[0]) | whole(x[1])); });
  to["bitwise_xor"] = each([](const Call&, X x) { return R(whole(x[0]) ^ whole(x[1])); });
  // Here no number has more than 20 bits before it is cut off to the 8 of u8.
  const auto shifts = [](const Call& c, X x) {
    return whole(x[1]) >= 0 && whole(x[1]) < int64_t(8 * itemsize(c.dtype));
  };
  to["bitwise_left_shift"] = each([=](const Call& c, X x) {
    if (!shifts(c, x)) return R(0);
    const int64_t moved = whole(x[0]) * (int64_t(1) << whole(x[1]));
    return R(c.dtype == DType::u8 ? moved & 255 : moved);
  });
  to["bitwise_right_shift"] = each([=](const Call& c, X x) {
    if (!shifts(c, x)) return R(x[0].real() < 0 ? -1 : 0);
    return R(std::floor(x[0].real() / R(int64_t(1) << whole(x[1]))));
  });
  to["bitwise_not"] = each([](const Call& c, X x) {
    return c.dtype == DType::bool_ ? 1 - x[0].real()
           : c.dtype == DType::u8  ? 255 - x[0].real()
                                   : -1 - x[0].real();
  });
}

void add_compositions(std::map<std::string, Oracle>& to) {
  to["sgn"] = function([](R x) { return R((x > 0) - (x < 0)); },
                       [](Wide z) { return std::polar(R(1), std::arg(z)); });
  to["rsub"] = each([](const Call& c, X x) { return x[1] - R(c.number("alpha")) * x[0]; });
  to["lerp"] = each([](const Call&, X x) { return x[0] * (R(1) - x[2]) + x[1] * x[2]; });
  to["addcmul"] =
      each([](const Call& c, X x) { return x[0] + R(c.number("value")) * (x[1] * x[2]); });
  to["addcdiv"] =
      each([](const Call& c, X x) { return x[0] + R(c.number("value")) * (x[1] / x[2]); });
  to["clamp_tensor"] = each([](const Call&, X x) {
    const R above = std::fmax(x[0].real(), x[1].real());
    return x.size() > 2 ? std::fmin(above, x[2].real()) : above;
  });
  to["isclose"] = each([](const Call& c, X x) {
    return R(std::abs(x[0] - x[1]) <= c.number("atol") + c.number("rtol") * std::abs(x[1]));
  });
}

}  // namespace

void add_statement_oracles(std::map<std::string, Oracle>& to) {
  add_functions(to);
  add_rounding(to);
  add_activations(to);
  add_logic(to);
  add_compositions(to);
}

}  // namespace gradus::testing
