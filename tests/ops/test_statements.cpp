// The statements: slopes against dual numbers and central differences, known limits, Wirtinger
// derivatives, the printed text, what is saved, and that bare libm names do not compile.
#include "ops/def/expr.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/def/words_scalar.hpp"
#include "tests/oracles/statement_limits.hpp"

#include <complex>
#include <cstdint>

// ---- inside gradus::def a bare libm name names a struct.
namespace gradus::inline v1::def {
template <class T>
concept bare_exp = requires(T x) {
  exp(x) * x;
};
template <class T>
concept bare_abs = requires(T x) {
  abs(x) * x;
};
template <class T>
concept bare_cbrt = requires(T x) {
  cbrt(x) * x;
};
template <class T>
concept bare_fabs = requires(T x) {
  fabs(x) * x;
};
template <class T>
concept bare_expf = requires(T x) {
  expf(x) * x;
};
template <class T>
concept bare_atan2 = requires(T x) {
  atan2(x, x) * x;
};
template <class T>
concept bare_min = requires(T x) {
  min(x, x) * x;
};
template <class T>
concept word_exp = requires(T x) {
  w::exp(x) * x;
};
template <class T>
inline constexpr bool any_bare = bare_exp<T> || bare_abs<T> || bare_cbrt<T> || bare_fabs<T> ||
                                 bare_expf<T> || bare_atan2<T> || bare_min<T>;
static_assert(!any_bare<float> && !any_bare<double> && !any_bare<int> && word_exp<float>);
}  // namespace gradus::def

namespace {

using namespace gradus;
using namespace gradus::testing;
using def::Kind;

// The parameters to try a statement with; one empty set for those that have none.
std::vector<std::vector<double>> parameter_sets(const std::string& name) {
  if (name == "leaky_relu") return {{0.01}, {-0.5}};
  if (name == "elu") return {{1}, {0.3}};
  if (name == "softplus") return {{1, 20}, {2.5, 3}};
  if (name == "clamp") return {{-kInf, kInf}, {-1, 0.5}};
  if (name == "polygamma") return {{0}, {1}, {2}};
  if (name == "logit") return {{-1}, {0.2}};
  if (name == "nan_to_num") return {{0, 3, -3}};
  if (name == "celu") return {{1}, {2.5}};
  if (name == "hardtanh") return {{-1, 1}, {-0.1, 3}};
  if (name == "softshrink" || name == "hardshrink") return {{0.5}, {0}};
  if (name == "threshold") return {{0, 0}, {0.6, -2}};
  return {{0}};
}

double distance(c128 a, c128 b) {
  return std::hypot(a.re - b.re, a.im - b.im) / (1 + std::hypot(b.re, b.im));
}
double distance(double a, double b) { return std::fabs(a - b) / (1 + std::fabs(b)); }
double distance(float a, float b) { return distance(double(a), double(b)); }

// Points off every kink and tie of the statements and their parameters.
template <class T>
std::vector<T> grid() {
  std::vector<T> points;
  for (double x :
       {-5.3, -2.1, -1.37, -0.71, -0.013, 0.021, 0.13, 0.31, 0.52, 0.77, 1.21, 1.83, 2.6, 3.7, 4.4})
    if constexpr (is_complex_v<T>)
      for (double y : {-2.6, -0.4, 0.07, 1.9}) points.push_back(T(x, y));
    else
      points.push_back(T(x));
  return points;
}

bool usable(double x) { return std::isfinite(x); }
bool usable(c128 z) { return std::isfinite(z.re) && std::isfinite(z.im); }

// The derivative of f at x by central differences of sixth order.
template <class T, class F>
T difference(F f, T x) {
  const double h = 2e-4;
  const auto d = [&](double k) { return f(x + T(k * h)) - f(x - T(k * h)); };
  return (T(45) * d(1) - T(9) * d(2) + d(3)) / T(60 * h);
}

// One comparison of a slope. No template: a checking macro in each statement's own code would take
// the compiler longer than the tests.
void expect(const std::string& statement, const char* operand, double error, double tolerance) {
  INFO(statement, " by ", operand);
  CHECK(error <= tolerance);
}

// Compares one slope with the dual number's and, in double precision, with central differences.
template <class T, class S, class F, class G>
void check_slope(const char* operand, T slope, F value, G dual, T at, int& checked) {
  const std::string statement(S::meta.name);
  const T y = value(at);
  if (!usable(y)) return;
  const Dual<T> d = dual(Dual<T>(at, T(1)));
  expect(statement, operand, distance(d.v, y), 0);
  expect(statement, operand, distance(slope, d.d), sizeof(real_of<T>) == 4 ? 2e-5 : 1e-13);
  if constexpr (sizeof(real_of<T>) == 8) {
    const T numeric = difference(value, at);
    if (usable(numeric)) expect(statement, operand, distance(slope, numeric), 1e-8);
  }
  ++checked;
}

// A second operand as the type of the first: itself, or a dual number that does not move.
template <class T>
T lift(T, T other) {
  return other;
}
template <class T>
Dual<T> lift(Dual<T>, T other) {
  return Dual<T>(other, T(0));
}

// Do rests of a / b jump where differences are taken?
template <class S>
bool jumps(double a, double b) {
  const std::string name = S::meta.name;
  if (name != "fmod" && name != "remainder" && name != "floor_divide") return false;
  const double r = 1e-3, q = std::floor(a / b);
  for (double da : {-r, r})
    for (double db : {-r, r})
      if (std::floor((a + da) / (b + db)) != q) return true;
  return false;
}

template <class S, class T>
void check_statement() {
  int checked = 0;
  for (const auto& parameters : parameter_sets(S::meta.name)) {
    const S s = def::make<S>(parameters.data());
    for (T a : grid<T>()) {
      if constexpr (S::arity == 1) {
        const auto f = [&](auto x) { return s.value(x); };
        check_slope<T, S>("x", s.slope(a, f(a)), f, f, a, checked);
      } else {
        for (T b : grid<T>()) {
          if constexpr (!is_complex_v<T>) {
            b = b + T(0.0029);  // no ties
            if (jumps<S>(double(a), double(b))) continue;
          }
          const auto by_a = [&](auto x) { return s.value(x, decltype(x)(lift(x, b))); };
          const auto by_b = [&](auto x) { return s.value(decltype(x)(lift(x, a)), x); };
          const T y = s.value(a, b);
          check_slope<T, S>("a", s.slope_a(a, b, y), by_a, by_a, a, checked);
          if (!usable(s.slope_b(a, b, y))) continue;  // pow of a negative number
          check_slope<T, S>("b", s.slope_b(a, b, y), by_b, by_b, b, checked);
        }
      }
    }
  }
  CHECK_MESSAGE(checked >= 5, std::string(S::meta.name));
}

template <class T>
void check_all_slopes() {
  def::for_each(def::Statements{}, []<class S>(int) {
    constexpr bool real_or_holomorphic =
        S::kind == Kind::pointwise || (S::kind == Kind::non_holomorphic && !is_complex_v<T>);
    if constexpr (real_or_holomorphic && def::reads<S, T>()) check_statement<S, T>();
  });
}

}  // namespace

TEST_CASE("statements: slopes agree with dual numbers and central differences") {
  check_all_slopes<float>();
  check_all_slopes<double>();
  check_all_slopes<c128>();
}

TEST_CASE("statements: second order of pow where its pieces meet") {
  const def::pow s;
  using D = Dual<double>;
  // d2/da2 a^2 = 2 and d2/da2 a = 0 at a = 0.
  CHECK(s.slope_a(D(0, 1), D(2, 0), D(0, 0)).d == 2);
  CHECK(s.slope_a(D(0, 1), D(1, 0), D(0, 1)).d == 0);
  // d2/dadb a^b = a^(b-1) (1 + b log a), at b = 0 and from both sides.
  CHECK(s.slope_a(D(4, 0), D(0, 1), D(1, std::log(4.0))).d == doctest::Approx(0.25));
  CHECK(s.slope_b(D(4, 1), D(0, 0), D(1, 0)).d == doctest::Approx(0.25));
  // Where 1 / a is no number, a^0 is 1 and flat, by both orders of the second derivative.
  CHECK(s.slope_a(D(0, 0), D(0, 1), D(1, 0)).d == 0);
  CHECK(s.slope_b(D(0, 1), D(0, 0), D(1, 0)).d == 0);
  // d2/db2 0^b = 0 for b > 0.
  CHECK(s.slope_b(D(0, 0), D(2, 1), D(0, 0)).d == 0);
}

TEST_CASE("statements: Wirtinger derivatives agree with differences along both axes") {
  int checked = 0;
  def::for_each(def::Statements{}, [&]<class S>(int) {
    if constexpr (S::kind == Kind::non_holomorphic) {
      const S s{};
      const auto f = [&](c128 z) { return c128(s.cvalue(z)); };
      for (c128 z : grid<c128>()) {
        const auto along_x = [&](c128 t) { return f(z + t); };
        const auto along_y = [&](c128 t) { return f(z + c128(0, 1) * t); };
        const c128 fx = difference(along_x, c128(0.0)), fy = difference(along_y, c128(0.0));
        const c128 dz = c128(0.5) * (fx - c128(0, 1) * fy),
                   dzbar = c128(0.5) * (fx + c128(0, 1) * fy);
        INFO(std::string(S::meta.name), " at ", z.re, " + ", z.im, "i");
        CHECK(distance(s.dz(z), dz) < 1e-7);
        CHECK(distance(s.dzbar(z), dzbar) < 1e-7);
        ++checked;
      }
    }
  });
  CHECK(checked == 6 * 60);
  const c128 zero(0.0);
  CHECK(def::abs{}.cvalue(zero) == 0);
  CHECK(def::abs{}.dz(zero) == zero);
  CHECK(def::abs{}.dzbar(zero) == zero);
  CHECK(def::sign{}.cvalue(zero) == zero);
  CHECK(def::sign{}.dz(zero) == zero);
  CHECK(def::sign{}.dzbar(zero) == zero);
  CHECK(def::abs{}.cvalue(c64(3e38f, 1e38f)) < std::numeric_limits<float>::infinity());
}

TEST_CASE("statements: integers and bool") {
  const def::pow power;
  CHECK(power.value(int32_t(3), int32_t(4)) == 81);
  CHECK(power.value(int64_t(-2), int64_t(63)) == INT64_MIN);
  CHECK(power.value(int32_t(2), int32_t(-1)) == 0);
  CHECK(power.value(int32_t(-1), int32_t(-3)) == -1);
  CHECK(power.value(int32_t(0), int32_t(0)) == 1);
  CHECK(power.value(uint8_t(3), uint8_t(6)) == 729 % 256);
  const def::abs absolute;
  CHECK(absolute.value(int32_t(-7)) == 7);
  CHECK(absolute.value(uint8_t(200)) == 200);
  CHECK(absolute.value(INT64_MIN) == INT64_MIN);
  CHECK(def::sign{}.value(int32_t(-7)) == -1);
  CHECK(def::sign{}.value(uint8_t(200)) == 1);
  CHECK(def::clamp{}.value(INT32_MIN) == INT32_MIN);
  CHECK(def::clamp{}.value(INT64_MAX) == INT64_MAX);
  CHECK(def::clamp{{}, -1e30, 4}.value(uint8_t(9)) == 4);
  CHECK(def::relu{}.value(int32_t(-3)) == 0);
  CHECK(def::add{}.value(true, true) == true);
  CHECK(def::mul{}.value(true, false) == false);
  CHECK(def::maximum{}.value(false, true) == true);
  CHECK(def::lt{}.value(false, true) == true);
  CHECK(def::where{}.value(false, 1, 2) == 2);
}

TEST_CASE("statements: comparisons with NaN") {
  CHECK(def::lt{}.value(kNaN, 1.0) == false);
  CHECK(def::ge{}.value(kNaN, 1.0) == false);
  CHECK(def::eq{}.value(kNaN, kNaN) == false);
  CHECK(def::ne{}.value(kNaN, kNaN) == true);
  CHECK(def::gt{}.value(2.0, 1.0) == true);
  CHECK(def::ge{}.value(1.0, 1.0) == true);
  CHECK(def::eq{}.value(c64(1, 2), c64(1, 2)) == true);
  CHECK(def::ne{}.value(c64(1, 2), c64(1, 3)) == true);
}

TEST_CASE("statements: the printed formula computes what the statement computes") {
  const double tags[4] = {Expr::tag(0), Expr::tag(1), Expr::tag(2), Expr::tag(3)};
  def::for_each(def::Statements{}, [&]<class S>(int) {
    if constexpr (S::kind != Kind::select && def::reads<S, double>()) {
      const ParameterNames names(S::meta.params);
      const S symbolic = def::make<S>(tags);
      const Expr x = Expr::symbol("x"), b = Expr::symbol("b"), y = Expr::symbol("y");
      for (const auto& parameters : parameter_sets(S::meta.name)) {
        const S s = def::make<S>(parameters.data());
        for (double at : grid<double>()) {
          INFO(std::string(S::meta.name), " at ", at);
          double value = 0;
          const auto value_of = [&](std::string_view symbol) {
            for (int k = 0; k < S::meta.param_count(); ++k)
              if (symbol == S::meta.params[k]) return parameters[size_t(k)];
            return symbol == "x" ? at : symbol == "b" ? 1.25 : value;
          };
          const auto check = [&](const Expr& e, double want) {
            const double got = e.evaluate(value_of);
            const bool equal = got == want || (std::isnan(got) && std::isnan(want));
            CHECK_MESSAGE(equal, e.text(), ": ", got, " != ", want);
          };
          if constexpr (S::arity == 1) {
            value = s.value(at);
            check(symbolic.value(x), value);
            if constexpr (def::has_slopes<S>) check(symbolic.slope(x, y), s.slope(at, value));
          } else {
            value = s.value(at, 1.25);
            check(symbolic.value(x, b), value);
            if constexpr (def::has_slopes<S>) {
              check(symbolic.slope_a(x, b, y), s.slope_a(at, 1.25, value));
              check(symbolic.slope_b(x, b, y), s.slope_b(at, 1.25, value));
            }
          }
        }
      }
    }
  });
}

TEST_CASE("statements: text") {
  const auto text = [](const char* name) {
    return std::string(def::statement_text(def::statement_id(name)));
  };
  CHECK(text("sigmoid") == "sigmoid(x): y = 1 / (1 + exp(-x)); dy/dx = y * (1 - y)");
  CHECK(text("neg") == "neg(x): y = -x; dy/dx = -1");
  CHECK(text("sub") == "sub(a, b): y = a - b; dy/da = 1; dy/db = -1");
  CHECK(text("div") == "div(a, b): y = a / b; dy/da = 1 / b; dy/db = -(y / b)");
  CHECK(text("cos") == "cos(x): y = cos(x); dy/dx = -sin(x)");
  CHECK(text("tanh") == "tanh(x): y = tanh(x); dy/dx = 1 - y * y");
  CHECK(text("rsqrt") == "rsqrt(x): y = 1 / sqrt(x); dy/dx = -0.5 * y * y * y");
  CHECK(text("relu") == "relu(x): y = max(x, 0); dy/dx = y == y ? (y <= 0 ? 0 : 1) : y");
  CHECK(text("where") == "where(m, a, b): y = m ? a : b; dy/da = m ? 1 : 0; dy/db = m ? 0 : 1");
  CHECK(text("gt") == "gt(a, b): y = b < a");
  CHECK(text("leaky_relu") ==
        "leaky_relu(x; negative_slope=0.01): y = 0 < x ? x : negative_slope * x; "
        "dy/dx = x == x ? (0 < x ? 1 : negative_slope) : x");
  CHECK(text("clamp") ==
        "clamp(x; min=-inf, max=inf): y = min(max(x, min), max); "
        "dy/dx = y == y ? (min < x ? (x < max ? 1 : max < inf ? 0 : 1) : -inf < min ? 0 : 1) : y");
  CHECK(text("erf") ==
        "erf(x): y = erf(x); dy/dx = 1.1283791670955126 * exp(-(u * u)) where u = max(-40, min(x, "
        "40))");
  CHECK(text("real") ==
        "real(x): y = x; dy/dx = 1; on complex z: y = real(z); dy/dz = 0.5; dy/dz* = 0.5");
  CHECK(text("imag") == "imag(z): y = imag(z); dy/dz = -0.5 * i; dy/dz* = 0.5 * i");
  CHECK(std::string(def::statement_text(-1)) == "");
}

TEST_CASE("statements: parentheses of Expr") {
  const Expr x = Expr::symbol("x"), y = Expr::symbol("y"), m = Expr::symbol("m");
  using W = Words<Expr>;
  CHECK((x - (y - x)).text() == "x - (y - x)");
  CHECK((x - y - x).text() == "x - y - x");
  CHECK((x + (y + x)).text() == "x + (y + x)");
  CHECK((x / (y * x)).text() == "x / (y * x)");
  CHECK((-(x + y)).text() == "-(x + y)");
  CHECK((-x * y).text() == "-x * y");
  CHECK((-(-x)).text() == "x");
  CHECK((Expr(1) * x + 0).text() == "x");
  CHECK((Expr(2) * 3 - x / 1).text() == "6 - x");
  CHECK((W::select(m, x, y) + 1).text() == "(m ? x : y) + 1");
  CHECK(W::select(W::lt(x, 0), W::select(m, x, y), W::select(m, y, x)).text() ==
        "x < 0 ? (m ? x : y) : m ? y : x");
  const Expr shared = x * y + 1;
  CHECK((shared / (shared - 2)).text() == "u / (u - 2) where u = x * y + 1");
  CHECK(shared.uses("x"));
  CHECK_FALSE(shared.uses("u"));
  CHECK_THROWS(Expr(Expr::tag(0)));
}

TEST_CASE("statements: what is saved is what the slope reads") {
  const auto saves = [](const char* name) {
    return def::statement_info(def::statement_id(name)).saves;
  };
  using Saves = std::vector<unsigned>;
  CHECK(saves("add") == Saves{0, 0});
  CHECK(saves("mul") == Saves{2, 1});
  CHECK(saves("div") == Saves{2, 2 | def::kSavesY});
  CHECK(saves("sigmoid") == Saves{def::kSavesY});
  CHECK(saves("exp") == Saves{def::kSavesY});
  CHECK(saves("relu") == Saves{def::kSavesY});
  CHECK(saves("logsigmoid") == Saves{def::kSavesY});
  CHECK(saves("log") == Saves{1});
  CHECK(saves("where") == Saves{0, 1, 1});
  CHECK(saves("lt").empty());
  const auto info = [](const char* name) { return def::statement_info(def::statement_id(name)); };
  CHECK(info("add").slope_is_one[0]);
  CHECK_FALSE(info("sub").slope_is_one[1]);
  CHECK(info("sign").slope_is_zero[0]);
  CHECK(info("sign").wirtinger_saves == 1);
  CHECK(info("conj").wirtinger_saves == 0);
  CHECK(info("softplus").params == std::vector<std::string>{"beta", "threshold"});
  CHECK(info("softplus").defaults == std::vector<double>{1, 20});
}

TEST_CASE("statements: ids, names and the hash belong together") {
  uint64_t hash = 14695981039346656037u;
  int seen = 0;
  def::for_each(def::Statements{}, [&]<class S>(int id) {
    CHECK(def::id_of<S>() == id);
    CHECK(def::statement_id(S::meta.name) == id);
    for (const char* c = def::statement_text(id);; ++c) {
      hash = (hash ^ uint8_t(*c)) * 1099511628211u;
      if (*c == 0) break;
    }
    ++seen;
  });
  CHECK(seen == def::statement_count());
  CHECK(def::statements_hash() == hash);
  CHECK(def::statement_id("no such op") == -1);
  CHECK_THROWS(def::statement_info(seen));
}
