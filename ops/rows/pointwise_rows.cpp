// Rows of the statements: one line each, as all of them take the same shapes. A domain keeps away
// from kinks (where difference quotients mean nothing) and from poles (where they lose their
// digits).
#include "ops/rows/rows.hpp"

namespace gradus::rows {

namespace {

using def::kAny;
using def::kBool;
using def::kComplex;
using def::kInteger;
using def::kNumbers;
using def::kReal;

// Vector libraries promise 1 to 3.5 units in the last place for one function; complex functions and
// statements are a few of them after one another. f16 and bf16 are rounded once per call.
constexpr Exactness kArithmetic{0, false, 0, "IEEE operations, equal on every device"};
constexpr Exactness kFunction{8, false, 1, "a few library functions of 4 ulp; one rounding to f16"};
constexpr Exactness kCancels{16, true, 1, "terms of a complex product cancel"};

std::vector<Case> unary_cases(const NamedAttrs& attrs = {}) {
  return {
      {{{3, 5}}, attrs}, {{{}}, attrs}, {{{0}}, attrs}, {{{2, 3, 17}}, attrs}, {{{133}}, attrs}};
}
std::vector<Case> binary_cases() {
  return {{{{3, 5}, {3, 5}}}, {{{3, 5}, {5}}}, {{{}, {}}},     {{{4, 1, 7}, {3, 1}}},
          {{{}, {2, 3}}},     {{{0, 3}, {3}}}, {{{67}, {67}}}, {{{2, 1}, {1, 3}}}};
}
std::vector<Case> ternary_cases() {
  return {{{{3, 5}, {3, 5}, {3, 5}}},
          {{{5}, {3, 1}, {3, 5}}},
          {{{}, {}, {}}},
          {{{0}, {0}, {1}}},
          {{{67}, {67}, {}}}};
}

Row unary(const char* name, Domain x, unsigned dtypes, Exactness exactness = kFunction,
          const NamedAttrs& attrs = {}) {
  return {name, {std::move(x)}, dtypes, unary_cases(attrs), exactness};
}
Row binary(const char* name, Domain a, Domain b, unsigned dtypes, Exactness exactness) {
  return {name, {std::move(a), std::move(b)}, dtypes, binary_cases(), exactness};
}
Row comparison(const char* name, unsigned dtypes) {
  return binary(name, between(-2, 2), between(-2, 2), dtypes, kArithmetic);
}
// Two forms of one op: the attributes of `other` on the cases of `row`, too.
Row also(Row row, const NamedAttrs& other) {
  for (Case& c : unary_cases(other)) row.cases.push_back(std::move(c));
  return row;
}

}  // namespace

std::vector<Row> pointwise_rows() {
  const NamedAttrs tanh_form{{"approximate", "tanh"}};
  return {
      // arithmetic
      unary("neg", between(-2, 2), kNumbers, kArithmetic),
      binary("add", between(-2, 2), between(-2, 2), kAny, kArithmetic),
      binary("sub", between(-2, 2), between(-2, 2), kNumbers, kArithmetic),
      binary("mul", between(-2, 2), between(-2, 2), kAny, kCancels),
      binary("div", between(-2, 2), away_from({0}, 0.4, 2.5), kReal | kComplex | kInteger,
             kCancels),
      unary("reciprocal", between(0.4, 2.5), kReal | kComplex | kInteger),
      unary("square", between(-2, 2), kNumbers, kCancels),
      unary("sqrt", between(0.3, 4), kReal | kComplex | kInteger),
      unary("rsqrt", between(0.5, 4), kReal | kComplex | kInteger),
      binary("pow", between(0.4, 2.4), between(-2, 3), kNumbers, kFunction),
      // elementary functions
      unary("exp", between(-3, 3), kReal | kComplex | kInteger),
      unary("expm1", between(-2, 2), kReal | kComplex | kInteger),
      unary("log", between(0.3, 4), kReal | kComplex | kInteger),
      unary("log1p", between(-0.6, 3), kReal | kComplex | kInteger),
      unary("sin", between(-4, 4), kReal | kComplex | kInteger),
      unary("cos", between(-4, 4), kReal | kComplex | kInteger),
      unary("tanh", between(-2, 2), kReal | kComplex | kInteger),
      unary("sigmoid", between(-4, 4), kReal | kComplex | kInteger),
      unary("erf", between(-2, 2), kReal | kInteger),
      // of z and its conjugate
      unary("abs", away_from({0}), kNumbers),
      unary("sign", away_from({0}), kNumbers),
      unary("conj", between(-2, 2), kNumbers, kArithmetic),
      unary("real", between(-2, 2), kNumbers, kArithmetic),
      unary("imag", between(-2, 2), kComplex, kArithmetic),
      // comparisons
      comparison("lt", kReal | kInteger | kBool),
      comparison("le", kReal | kInteger | kBool),
      comparison("gt", kReal | kInteger | kBool),
      comparison("ge", kReal | kInteger | kBool),
      comparison("eq", kAny),
      comparison("ne", kAny),
      // in pieces
      {"where", {masks(), between(-2, 2)}, kAny, ternary_cases(), kArithmetic},
      unary("relu", away_from({0}), kReal | kInteger, kArithmetic),
      unary("leaky_relu", away_from({0}), kReal, kArithmetic, {{"negative_slope", 0.2}}),
      unary("clamp", away_from({-1, 1}), kReal | kInteger, kArithmetic,
            {{"min", -1.0}, {"max", 1.0}}),
      unary("elu", away_from({0}), kReal, kFunction, {{"alpha", 1.5}}),
      binary("maximum", lattice(), lattice(), kReal | kInteger | kBool, kArithmetic),
      binary("minimum", lattice(), lattice(), kReal | kInteger | kBool, kArithmetic),
      // smooth steps
      also(unary("softplus", between(-4, 4), kReal), {{"beta", 2.0}, {"threshold", 30.0}}),
      unary("logsigmoid", between(-4, 4), kReal),
      unary("silu", between(-4, 4), kReal),
      // below -2 the factor 1 + erf of gelu cancels
      also(unary("gelu", between(-2, 3), kReal, {64, false, 2, "1 + erf cancels for x < 0"}),
           tanh_form),
      unary("gelu_tanh", between(-2, 3), kReal, {64, false, 2, "1 + tanh cancels for x < 0"}),
  };
}

}  // namespace gradus::rows
