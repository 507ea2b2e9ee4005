// Rows of the statements: one line each, as all of them take the same shapes. A domain keeps away
// from kinks (where difference quotients mean nothing) and from poles (where they lose their
// digits).
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

// Vector libraries promise 1 to 3.5 units in the last place for one function; complex functions and
// statements are a few of them after one another. f16 and bf16 are rounded once per call.
constexpr Exactness kArithmetic{0, false, 0, "IEEE operations, equal on every device"};
constexpr Exactness kFunction{8, false, 1, "a few library functions of 4 ulp; one rounding to f16"};
constexpr Exactness kZeros{16, true, 1, "the function has zeros, near which its terms cancel"};
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
Row ternary(const char* name, Domain x, unsigned dtypes, Exactness exactness) {
  return {name, {std::move(x)}, dtypes, ternary_cases(), exactness};
}
// Singular points and cuts lie on this axis of complex numbers.
Domain off_axis() { return {Domain::Kind::range, -2, 2, {0}, 0.2}; }
// Off the steps of rounding: no integer is near (on this lattice), or none if half is added.
Domain off_integers(double shift = 0) { return lattice(-2.95 + shift, 3.05 + shift); }
// Quotients of these are not near an integer.
Domain dividends() { return {Domain::Kind::range, -2.8, 2.8, {-2, -1, 0, 1, 2}, 0.15}; }
Row division(const char* name) {
  return binary(name, dividends(), between(0.98, 1.02), kReal, kZeros);
}

// Two forms of one op: the attributes of `other` on the cases of `row`, too.
Row also(Row row, const NamedAttrs& other) {
  for (Case& c : unary_cases(other)) row.cases.push_back(std::move(c));
  return row;
}

std::vector<Row> function_rows() {
  constexpr unsigned kFields = kReal | kComplex | kInteger, kLine = kReal | kInteger;
  const Domain wide = between(-2, 2);
  return {
      unary("cbrt", away_from({0}), kLine),
      unary("exp2", between(-3, 3), kFields),
      unary("log2", between(0.3, 4), kFields),
      unary("log10", between(0.3, 4), kFields),
      unary("tan", between(-1, 1), kFields),
      unary("asin", between(-0.8, 0.8), kFields),
      unary("acos", between(-0.8, 0.8), kFields),
      unary("atan", off_axis(), kFields),
      unary("sinh", wide, kFields),
      unary("cosh", wide, kFields),
      unary("asinh", off_axis(), kFields),
      unary("acosh", between(1.3, 4), kFields),
      unary("atanh", between(-0.8, 0.8), kFields),
      unary("sinc", wide, kReal | kComplex, kZeros),  // integers are its zeros
      binary("atan2", off_axis(), off_axis(), kLine, kFunction),
      binary("hypot", off_axis(), off_axis(), kLine, kFunction),
      unary("angle", off_axis(), kFields),
      unary("deg2rad", between(-180, 180), kLine),
      unary("rad2deg", between(-4, 4), kLine),
      unary("erfc", between(-2, 3), kLine),
      unary("erfinv", between(-0.9, 0.9), kLine),
      unary("ndtr", between(-3, 3), kLine,
            {32, false, 1, "erfc is steep: 9 ulp for one of x / sqrt 2"}),
      unary("lgamma", between(0.3, 5), kLine, kZeros),
      unary("digamma", between(0.3, 5), kLine, kZeros),
      also(unary("polygamma", between(0.3, 5), kLine, kFunction, {{"n", 1.0}}), {{"n", 4.0}}),
      binary("logaddexp", wide, wide, kLine, kZeros),
      binary("logaddexp2", wide, wide, kLine, kZeros),
      binary("xlogy", wide, between(0.3, 4), kLine, kFunction),
      binary("xlog1py", wide, between(-0.6, 3), kLine, kFunction),
      also(unary("logit", away_from({0.2, 0.8}, 0.1, 0.9), kReal, kZeros), {{"eps", 0.2}}),
  };
}

std::vector<Row> step_rows() {
  constexpr unsigned kLine = kReal | kInteger;
  const Domain wide = between(-2, 2), off_zero = away_from({0});
  const NamedAttrs halfway{{"lambd", 0.5}};
  return {
      unary("floor", off_integers(), kLine, kArithmetic),
      unary("ceil", off_integers(), kLine, kArithmetic),
      unary("round", off_integers(0.5), kLine, kArithmetic),
      unary("trunc", off_integers(), kLine, kArithmetic),
      unary("frac", off_integers(), kReal, kArithmetic),
      division("fmod"),
      division("remainder"),
      division("floor_divide"),
      binary("copysign", off_zero, off_zero, kLine, kArithmetic),
      binary("heaviside", off_zero, wide, kLine | kBool, kArithmetic),
      binary("fmax", lattice(), lattice(), kLine | kBool, kArithmetic),
      binary("fmin", lattice(), lattice(), kLine | kBool, kArithmetic),
      unary("nan_to_num", wide, kLine, kArithmetic),
      unary("softsign", off_zero, kLine),
      unary("celu", off_zero, kLine, kFunction, {{"alpha", 1.5}}),
      unary("selu", off_zero, kLine),
      unary("mish", between(-4, 4), kLine, {16, false, 1, "four functions one after another"}),
      unary("hardtanh", away_from({-1, 0.5}), kReal, kArithmetic,
            {{"min_val", -1.0}, {"max_val", 0.5}}),
      unary("relu6", away_from({0, 6}, -2, 8), kLine, kArithmetic),
      unary("hardsigmoid", away_from({-3, 3}, -5, 5), kLine),
      unary("hardswish", away_from({-3, 3}, -5, 5), kLine),
      unary("softshrink", away_from({-0.5, 0.5}), kLine, kArithmetic, halfway),
      unary("hardshrink", away_from({-0.5, 0.5}), kLine, kArithmetic, halfway),
      unary("tanhshrink", wide, kReal | kComplex, kZeros),
      unary("threshold", away_from({0.5}), kReal, kArithmetic,
            {{"threshold", 0.5}, {"value", -1.0}}),
      unary("isnan", wide, kAny, kArithmetic),
      unary("isinf", wide, kAny, kArithmetic),
      unary("isfinite", wide, kAny, kArithmetic),
      unary("signbit", wide, kLine | kBool, kArithmetic),
      unary("logical_not", between(-1, 1), kAny, kArithmetic),
      comparison("logical_and", kAny),
      comparison("logical_or", kAny),
      comparison("logical_xor", kAny),
      binary("bitwise_and", between(-100, 100), between(-100, 100), kInteger | kBool, kArithmetic),
      binary("bitwise_or", between(-100, 100), between(-100, 100), kInteger | kBool, kArithmetic),
      binary("bitwise_xor", between(-100, 100), between(-100, 100), kInteger | kBool, kArithmetic),
      unary("bitwise_not", between(-100, 100), kInteger | kBool, kArithmetic),
      binary("bitwise_left_shift", between(-100, 100), between(-2, 10), kInteger, kArithmetic),
      binary("bitwise_right_shift", between(-100, 100), between(-2, 10), kInteger, kArithmetic),
  };
}

std::vector<Row> composition_rows() {
  const Domain wide = between(-2, 2);
  Row rsub = binary("rsub", wide, wide, kNumbers, kCancels);
  rsub.cases.push_back({{{3, 5}, {5}}, {{"alpha", -0.5}}, 0, true, kReal | kComplex});
  Row addcmul = ternary("addcmul", wide, kNumbers, kCancels);
  addcmul.cases.push_back({{{3, 5}, {5}, {3, 1}}, {{"value", 0.5}}, 0, true, kReal | kComplex});
  Row addcdiv = ternary("addcdiv", wide, kReal | kComplex, kCancels);
  addcdiv.operands = {wide, wide, away_from({0}, 0.4, 2.5)};
  addcdiv.cases.push_back({{{3, 5}, {5}, {3, 1}}, {{"value", 0.5}}});
  Row bounds = ternary("clamp_tensor", lattice(), kReal | kInteger, kArithmetic);
  bounds.cases.push_back({{{3, 5}, {5}}});
  Row isclose = binary("isclose", lattice(), lattice(), kNumbers, kArithmetic);
  for (Case& c : isclose.cases) c.attrs = {{"rtol", 0.0}, {"atol", 0.5}};
  return {unary("sgn", away_from({0}), kNumbers | kBool),
          rsub,
          ternary("lerp", wide, kReal | kComplex, kCancels),
          addcmul,
          addcdiv,
          bounds,
          isclose};
}

std::vector<Row> first_rows() {
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
      unary("bounded_log", between(0.3, 4), kReal | kInteger),
      unary("sin", between(-4, 4), kReal | kComplex | kInteger),
      unary("cos", between(-4, 4), kReal | kComplex | kInteger),
      unary("tanh", between(-2, 2), kReal | kComplex | kInteger),
      unary("sigmoid", between(-4, 4), kReal | kComplex | kInteger),
      unary("erf", between(-2, 2), kReal | kInteger),
      // of z and its conjugate
      unary("abs", away_from({0}), kNumbers),
      unary("sign", away_from({0}), kNumbers | kBool),
      unary("conj", between(-2, 2), kNumbers | kBool, kArithmetic),
      unary("real", between(-2, 2), kNumbers | kBool, kArithmetic),
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

}  // namespace

std::vector<Row> pointwise_rows() {
  std::vector<Row> all = first_rows();
  for (auto more : {function_rows, step_rows, composition_rows})
    for (Row& row : more()) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
