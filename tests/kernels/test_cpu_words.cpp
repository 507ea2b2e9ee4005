// The accuracy of the words in batches: over all exponents of f32 and f64 (mantissas at the edges
// and sampled) and over the numbers that networks meet, against libm in more digits; f32 against
// double, f64 against long double. Prints the greatest error of each word and instruction set.
#include "tests/helpers/cpu_device.hpp"

#include "ops/def/statements.hpp"
#include "tests/helpers/sizes.hpp"

#include <cstdio>

using namespace cpu_test;

namespace {

constexpr double kMostUlps = 2;

template <class T>
using More = std::conditional_t<sizeof(T) == 4, double, long double>;
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

int statement_id(const std::string& name) {
  int found = -1;
  def::for_each(def::Statements{}, [&]<class S>(int id) {
    if (name == S::meta.name) found = id;
  });
  REQUIRE(found >= 0);
  return found;
}

// The error of `got` in units of the last place of `want`; infinite where one is a limit (a zero
// with its sign, an infinity, NaN) and the other is not.
template <class T>
double ulps(T got, More<T> want) {
  using L = std::numeric_limits<T>;
  const T near = T(want);
  const double wrong = std::numeric_limits<double>::infinity();
  if (near != near) return got != got ? 0 : wrong;
  if (got != got) return wrong;
  if (std::isinf(near) || std::isinf(got)) return near == got ? 0 : wrong;
  if (near == 0 && got == 0) return std::signbit(near) == std::signbit(got) ? 0 : wrong;
  if (want == 0) return wrong;
  int exponent = 0;
  std::frexp(want, &exponent);
  const int last = std::max(exponent, L::min_exponent) - L::digits;
  return double(std::fabs(std::ldexp(More<T>(got) - want, -last)));
}

template <class T>
T from_word(uint64_t sign, uint64_t exponent, uint64_t mantissa) {
  constexpr int m = std::numeric_limits<T>::digits - 1, all = int(sizeof(T)) * 8;
  const Word<T> w = Word<T>(sign << (all - 1) | exponent << m | (mantissa & ((1ull << m) - 1)));
  T x;
  std::memcpy(&x, &w, sizeof x);
  return x;
}

// `some` mantissas for each exponent and sign, and as many ordinary numbers.
template <class T>
std::vector<T> operands(int some) {
  constexpr uint64_t exponents = sizeof(T) == 4 ? 256 : 2048;
  std::vector<T> v;
  for (uint64_t sign : {0, 1})
    for (uint64_t e = 0; e < exponents; ++e) {
      for (uint64_t m : {0ull, 1ull, ~0ull}) v.push_back(from_word<T>(sign, e, m));
      for (int i = 3; i < some; ++i)
        v.push_back(from_word<T>(sign, e + 1 < exponents ? e : 0, std::mt19937_64(rng()())()));
    }
  std::normal_distribution<double> normal;
  for (double width : {0.1, 1.0, 10.0, 100.0, 700.0})
    for (int i = 0; i < some * 100; ++i) v.push_back(T(normal(rng()) * width));
  for (int i = 0; i < some * 100; ++i) v.push_back(T(1 + normal(rng()) * 0.1));
  return v;
}

// Pairs whose power is anywhere between 0 and inf, and all pairs of special numbers.
template <class T>
void power_operands(int some, std::vector<T>& a, std::vector<T>& b) {
  using L = std::numeric_limits<T>;
  const T special[] = {0,
                       T(1),
                       2,
                       3,
                       T(0.5),
                       T(1.5),
                       L::max(),
                       L::min(),
                       T(1e9),
                       L::denorm_min(),
                       T(16777215),
                       T(1e20),
                       1 + L::epsilon(),
                       1 - L::epsilon() / 2,
                       L::infinity(),
                       L::quiet_NaN()};
  for (T x : special)
    for (T y : special)
      for (int signs = 0; signs < 4; ++signs) {
        a.push_back(signs & 1 ? -x : x);
        b.push_back(signs & 2 ? -y : y);
      }
  const double reach = std::log(double(L::max())) * 1.05;
  std::uniform_real_distribution<double> even(-1, 1);
  for (int i = 0; i < some * 400; ++i) {
    const T x = T(std::exp(even(rng()) * (i % 2 ? 1 : reach)));
    const T y = T(even(rng()) * reach / std::log(double(x)));
    a.push_back(i % 3 ? x : -x);
    b.push_back(i % 3 ? y : std::nearbyint(y));
  }
}

template <class T>
using Libm = More<T> (*)(More<T>);

// Greatest errors of one word: a line of "isa error" pieces.
template <class T, class Want>
std::string errors(const std::string& name, const std::vector<std::vector<T>>& in, Want&& want) {
  const size_t n = in[0].size();
  std::vector<More<T>> wanted(n);
  for (size_t i = 0; i < n; ++i) wanted[i] = want(i);
  const int id = statement_id(name);
  std::string line;
  for (const auto& dev : devices()) {
    if (dev->name.back() != '1') continue;
    std::vector<gd_view> views;
    std::vector<Array<T>> arrays;
    for (const auto& v : in) {
      arrays.emplace_back(Index{int64_t(n)});
      for (size_t i = 0; i < n; ++i) arrays.back().at({int64_t(i)}) = v[i];
    }
    for (auto& a : arrays) views.push_back(a.view());
    Array<T> y({int64_t(n)});
    call(*dev, GD_POINTWISE, id, views, {y.view()});
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; ++i)
      if (const double u = ulps<T>(y.at({int64_t(i)}), wanted[i]); u > worst) worst = u, at = i;
    CAPTURE(name);
    CAPTURE(dev->name);
    CAPTURE(double(in[0][at]));
    CAPTURE(double(in.back()[at]));
    CAPTURE(double(y.at({int64_t(at)})));
    CHECK(worst <= kMostUlps);
    char piece[32];
    std::snprintf(piece, sizeof piece, " %5.2f", worst);
    line += piece;
  }
  return line;
}

template <class T>
std::vector<std::string> table(int some) {
  const std::pair<const char*, Libm<T>> words[] = {
      {"exp", std::exp},   {"exp2", std::exp2},   {"expm1", std::expm1}, {"log", std::log},
      {"log2", std::log2}, {"log10", std::log10}, {"log1p", std::log1p}, {"sqrt", std::sqrt},
      {"cbrt", std::cbrt}, {"sin", std::sin},     {"cos", std::cos},     {"tan", std::tan},
      {"tanh", std::tanh}, {"erf", std::erf},     {"erfc", std::erfc}};
  std::vector<std::string> lines;
  const std::vector<T> x = operands<T>(some);
  for (const auto& [name, libm] : words)
    lines.push_back(errors<T>(name, {x}, [&, f = libm](size_t i) { return f(More<T>(x[i])); }));
  std::vector<T> a, b;
  power_operands<T>(some, a, b);
  lines.push_back(
      errors<T>("pow", {a, b}, [&](size_t i) { return std::pow(More<T>(a[i]), More<T>(b[i])); }));
  return lines;
}

}  // namespace

TEST_CASE("cpu: words are right to 2 ulp over all exponents") {
  const bool small = gradus::test::small_sizes();
  const auto f32 = table<float>(small ? 4 : 300), f64 = table<double>(small ? 4 : 40);
  std::string text = "ulp at most, per instruction set:";
  for (const auto& dev : devices())
    if (dev->name.back() == '1') text += " " + dev->name.substr(0, dev->name.find('/'));
  const char* names[] = {"exp",  "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt",
                         "cbrt", "sin",  "cos",   "tan", "tanh", "erf",   "erfc",  "pow"};
  REQUIRE(f32.size() == std::size(names));
  for (size_t i = 0; i < f32.size(); ++i) {
    char line[160];
    std::snprintf(line, sizeof line, "\n%-6s f32%s   f64%s", names[i], f32[i].c_str(),
                  f64[i].c_str());
    text += line;
  }
  MESSAGE(text);
}
