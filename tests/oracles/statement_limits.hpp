// Tables of limits of statements: value and slopes at 0, huge, subnormal, inf and NaN, read in f32
// and f64 by the statement's own templates.
#pragma once
#include "ops/def/dual.hpp"
#include "ops/def/statements.hpp"
#include "tests/helpers/not_finite.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

namespace gradus::inline v1::testing {

constexpr double kAnyNumber = 12345.678;  // in a table of limits: not checked

constexpr double kTiny = 1e-40;  // subnormal in f32
constexpr double kHuge = 3e38;

inline bool same(double got, double want, double tolerance) {
  if (want == kAnyNumber) return true;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  if (std::fabs(want) < 1e-30) return std::fabs(got - want) <= 1e-4 * std::fabs(want);
  return std::fabs(got - want) <= tolerance * (1 + std::fabs(want));
}

// value, slope, and slope of the slope at x, by the statement's own templates. The dual number
// gives NaN where a constant meets inf (its derivative 0 times inf), the engine does not: it never
// differentiates constants. The tables leave the second order of such points open.
template <class S, class T>
struct Readings {
  T value, slope, second;
  explicit Readings(T x, S s = {}) {
    value = s.value(x);
    slope = s.slope(x, value);
    second = s.slope(Dual<T>(x, T(1)), Dual<T>(value, slope)).d;
  }
};

struct Limit {
  double x, value, slope, second = kAnyNumber;
};

// One number of a table. No template, as checking macros take long to compile.
inline void expect_limit(const std::string& statement, DType dtype, const char* what, double got,
                         double want, double x, double b = kAnyNumber) {
  INFO(statement, " at ", x, b == kAnyNumber ? "" : ", " + std::to_string(b), " in ",
       std::string(dtype_name(dtype)));
  CHECK_MESSAGE(same(got, want, 1e-6), what, " ", got);
}

template <class S, class T>
void check_limits_in(const std::vector<Limit>& table, S s) {
  const std::string name(S::meta.name);
  for (const Limit& row : table) {
    const Readings<S, T> got(T(row.x), s);
    expect_limit(name, dtype_of<T>, "value", double(got.value), row.value, row.x);
    expect_limit(name, dtype_of<T>, "slope", double(got.slope), row.slope, row.x);
    expect_limit(name, dtype_of<T>, "second", double(got.second), row.second, row.x);
  }
}
template <class S>
void check_limits(const std::vector<Limit>& table, S s = {}) {
  check_limits_in<S, float>(table, s);
  check_limits_in<S, double>(table, s);
}

struct Limit2 {
  double a, b, value, slope_a, slope_b;
};

template <class S, class T>
void check_limits2_in(const std::vector<Limit2>& table, S s) {
  const std::string name(S::meta.name);
  const auto expect = [&](const char* what, T got, double want, const Limit2& row) {
    expect_limit(name, dtype_of<T>, what, double(got), want, row.a, row.b);
  };
  for (const Limit2& row : table) {
    const T a = T(row.a), b = T(row.b), y = s.value(a, b);
    expect("value", y, row.value, row);
    expect("slope by a", s.slope_a(a, b, y), row.slope_a, row);
    expect("slope by b", s.slope_b(a, b, y), row.slope_b, row);
  }
}
template <class S>
void check_limits2(const std::vector<Limit2>& table, S s = {}) {
  check_limits2_in<S, float>(table, s);
  check_limits2_in<S, double>(table, s);
}

}  // namespace gradus::testing
