// Limits, kinks and specials of the statements in statements_functions.hpp and
// statements_steps.hpp; functions of our own against numbers of mpmath; rests and tests on every
// dtype, through the ops.
#include "engine/device/device.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/oracles/statement_limits.hpp"

#include <complex>
#include <cstdint>

using namespace gradus;
using namespace gradus::testing;

namespace {
constexpr double kPi = 3.141592653589793, kLn2 = 0.6931471805599453;
const double kAny = kAnyNumber;
}  // namespace

TEST_CASE("statements: the two branches of sinc's slope meet") {
  const def::sinc s;
  for (double x : {0.25, -0.25}) {
    const double below = std::nextafter(x, 0.0);
    CHECK(s.slope(below, 0.0) == doctest::Approx(s.slope(x, 0.0)).epsilon(4e-15));
    const auto second = [&](double at) { return s.slope(Dual<double>(at, 1), {}).d; };
    CHECK(second(below) == doctest::Approx(second(x)).epsilon(1e-13));
  }
}

TEST_CASE("statements: limits of the error function and gamma") {
  const double c = 2 / std::sqrt(kPi);
  check_limits<def::erfc>({{0, 1, -c, 0},
                           {kInf, 0, 0, 0},
                           {-kInf, 2, 0, 0},
                           {kHuge, 0, 0, 0},
                           {kNaN, kNaN, kNaN, kNaN}});
  CHECK(def::erfc{}.value(20.0) == doctest::Approx(5.3958656116079e-176));
  check_limits<def::erfinv>({{0, 0, 1 / c, 0},
                             {1, kInf, kInf},
                             {-1, -kInf, kInf},
                             {1.5, kNaN, kNaN},
                             {kTiny, kTiny / c, 1 / c},
                             {kNaN, kNaN, kNaN}});
  check_limits<def::ndtr>({{0, 0.5, 1 / std::sqrt(2 * kPi), 0},
                           {kInf, 1, 0, 0},
                           {-kInf, 0, 0, 0},
                           {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::lgamma>({{1, 0, -0.5772156649015329, kPi * kPi / 6},
                             {2, 0, 1 - 0.5772156649015329},
                             {0, kInf, kAny},
                             {-3, kInf, kNaN},
                             {-2.5, -0.056243716497674054, 1.1031566406452432},
                             {kInf, kInf, kInf},
                             {kNaN, kNaN, kNaN}});
  check_limits<def::digamma>({{0, -kInf, kInf},
                              {-0.0, kInf, kInf},
                              {-1, kNaN, kInf},
                              {kInf, kInf, 0},
                              {-kInf, kNaN, kNaN},
                              {kNaN, kNaN, kNaN}});
  check_limits<def::polygamma>({{0, kInf, -kInf},
                                {-4, kInf, -kInf},
                                {1, kPi * kPi / 6, -2.4041138063191886},
                                {kInf, 0, 0},
                                {-kInf, kNaN, kNaN},
                                {kNaN, kNaN, kNaN}});
  check_limits<def::polygamma>({{1, -0.5772156649015329, kPi * kPi / 6}}, def::polygamma{{}, 0});
}

// Numbers of mpmath 1.3 with 40 digits.
TEST_CASE("statements: functions of our own to a few units in the last place") {
  using W = Words<double>;
  const auto close = [](double got, double want) {
    CHECK(std::fabs(got - want) <= 8 * 0x1p-52 * std::fabs(want));
  };
  for (const auto& [x, y] : std::vector<std::pair<double, double>>{{1e-5, -100000.57719921568},
                                                                   {0.1, -10.423754940411076},
                                                                   {1, -0.57721566490153287},
                                                                   {1.5, 0.036489973978576521},
                                                                   {3.7, 1.1671535393615114},
                                                                   {50, 3.9019896734278922},
                                                                   {-0.3, 2.1133097796353989},
                                                                   {-2.5, 1.1031566406452432},
                                                                   {-7.9, -7.5400072244194785}})
    close(W::digamma(x), y);
  // Near its root nothing cancels.
  close(W::digamma(1.4616321449683622), -9.2412655217294275e-17);
  struct Order {
    double n, x, y;
  };
  for (const Order& o : std::vector<Order>{{1, 1e-3, 1000001.6425331958},
                                           {1, 2.5, 0.49035775610023486},
                                           {1, -0.3, 13.945160267805722},
                                           {2, 0.7, -6.4349928741909237},
                                           {2, -1.2, 246.72729169898594},
                                           {3, 40, 3.2441400151563500e-5},
                                           {5, -3.6, 31893.155070171849},
                                           {1, -1000.25, 19.738209551699785}})
    close(W::polygamma(o.n, o.x), o.y);
  for (const auto& [x, y] :
       std::vector<std::pair<double, double>>{{1e-9, 8.8622692545275807e-10},
                                              {0.3, 0.27246271472675435},
                                              {-0.77, -0.84878188837096075},
                                              {0.999, 2.3267537655135245},
                                              {1 - 0x1p-40, 5.0512540852493900}})
    close(W::erfinv(x), y);
  for (double x : {1e-12, 0.03, 0.4999, 0.5, 0.51, 0.97, 0.9999999})
    for (double sign : {1.0, -1.0}) close(std::erf(W::erfinv(sign * x)), sign * x);
}

TEST_CASE("statements: limits of rests, signs and choices of two") {
  check_limits2<def::atan2>({{0, 0, 0, 0, 0},
                             {0, -1, kPi, -1, 0},
                             {1, 0, kPi / 2, 0, -1},
                             {kHuge, kHuge, kPi / 4, kAny, kAny},
                             {kInf, 1, kPi / 2, kAny, kAny},
                             {kNaN, 1, kNaN, kNaN, kNaN}});
  check_limits2<def::hypot>({{0, 0, 0, 0, 0},
                             {3, -4, 5, 0.6, -0.8},
                             {kTiny, 0, kTiny, 1, 0},
                             {kInf, kNaN, kInf, kNaN, kNaN}});
  check_limits2<def::logaddexp>({{0, 0, kLn2, 0.5, 0.5},
                                 {-kInf, 3, 3, 0, 1},
                                 {-kInf, -kInf, -kInf, 0.5, 0.5},
                                 {kInf, kInf, kInf, 0.5, 0.5},
                                 {kInf, -kInf, kInf, 1, 0},
                                 {1000, -1000, 1000, 1, 0},
                                 {kNaN, 0, kNaN, kNaN, kNaN}});
  check_limits2<def::logaddexp2>({{3, 3, 4, 0.5, 0.5},
                                  {-kInf, 3, 3, 0, 1},
                                  {-kInf, -kInf, -kInf, 0.5, 0.5},
                                  {kInf, kInf, kInf, 0.5, 0.5},
                                  {kNaN, 0, kNaN, kNaN, kNaN}});
  check_limits2<def::xlogy>({{0, 0, 0, 0, 0},
                             {0, -1, 0, 0, 0},
                             {0, 2, 0, kLn2, 0},
                             {0, kInf, 0, kInf, 0},
                             {2, 0, -kInf, -kInf, kInf},
                             {2, -1, kNaN, kNaN, -2},
                             {0, kNaN, kNaN, kNaN, kNaN},
                             {kNaN, 0, kNaN, -kInf, kNaN}});
  check_limits2<def::xlog1py>({{0, -1, 0, 0, 0},
                               {0, -2, 0, 0, 0},
                               {0, 1, 0, kLn2, 0},
                               {2, -1, -kInf, -kInf, kInf},
                               {0, kNaN, kNaN, kNaN, kNaN}});
  check_limits2<def::fmod>({{5.5, 2, 1.5, 1, -2},
                            {-5.5, 2, -1.5, 1, 2},
                            {5.5, -2, 1.5, 1, 2},
                            {7, 0.1, kAny, 1, -69},
                            {-7, 0.1, kAny, 1, 69},
                            {1, 0, kNaN, 1, kNaN},
                            {1, kInf, 1, 1, 0},
                            {kInf, 2, kNaN, 1, kNaN},
                            {kNaN, 2, kNaN, 1, kNaN}});
  check_limits2<def::remainder>({{5.5, 2, 1.5, 1, -2},
                                 {-5.5, 2, 0.5, 1, 3},
                                 {5.5, -2, -0.5, 1, 3},
                                 {-5.5, -2, -1.5, 1, -2},
                                 {6, -2, 0, 1, 3},
                                 {-1, kInf, kInf, 1, 1},
                                 {1, 0, kNaN, 1, -kInf}});
  check_limits2<def::floor_divide>({{5.5, 2, 2, 0, 0},
                                    {-5.5, 2, -3, 0, 0},
                                    {1, 0, kInf, 0, 0},
                                    {0, 0, kNaN, 0, 0},
                                    {-1, kInf, -1, 0, 0},
                                    {1, kInf, 0, 0, 0},
                                    {kInf, 2, kNaN, 0, 0}});
  CHECK(def::floor_divide{}.value(1.0, 0.1) == 9);  // 0.1 is a little more than a tenth
  check_limits2<def::copysign>(
      {{3, -0.0, -3, -1, 0}, {-3, -1, -3, 1, 0}, {0, 1, 0, 0, 0}, {-kInf, 2, kInf, -1, 0}});
  check_limits2<def::heaviside>(
      {{-1, 7, 0, 0, 0}, {0, 7, 7, 0, 1}, {kTiny, 7, 1, 0, 0}, {kInf, 7, 1, 0, 0}});
  check_limits2<def::fmax>({{2, 2, 2, 0.5, 0.5},
                            {1, 2, 2, 0, 1},
                            {kNaN, 2, 2, 0, 1},
                            {2, kNaN, 2, 1, 0},
                            {kNaN, kNaN, kNaN, kNaN, kNaN},
                            {-kInf, kInf, kInf, 0, 1}});
  check_limits2<def::fmin>({{2, 2, 2, 0.5, 0.5},
                            {1, 2, 1, 1, 0},
                            {kNaN, 2, 2, 0, 1},
                            {2, kNaN, 2, 1, 0},
                            {kNaN, kNaN, kNaN, kNaN, kNaN}});
}

// 0.1 in either precision is a little off a tenth, so 7 is no multiple of it: the rest and the
// slope tell of one quotient.
TEST_CASE("statements: the slopes of rests are the quotients of their values") {
  const auto check = []<class T>(T) {
    for (const T a : {T(7), T(-7), T(1), T(0.3), T(5.5)})
      for (const T b : {T(0.1), T(-0.1), T(0.3), T(2)}) {
        CAPTURE(a);
        CAPTURE(b);
        const def::fmod f;
        const T rest = f.value(a, b), turns = -f.slope_b(a, b, rest);
        CHECK(std::fma(-turns, b, a) == doctest::Approx(rest).epsilon(1e-6));
        const def::remainder r;
        const T whole = r.value(a, b), down = -r.slope_b(a, b, whole);
        CHECK(std::fma(-down, b, a) == doctest::Approx(whole).epsilon(1e-6));
      }
  };
  check(1.0);
  check(1.0f);
}

TEST_CASE("statements: limits of rounding and activations") {
  const auto steps = [](double x, double down, double up, double near, double toward) {
    check_limits<def::floor>({{x, down, 0, 0}});
    check_limits<def::ceil>({{x, up, 0, 0}});
    check_limits<def::round>({{x, near, 0, 0}});
    check_limits<def::trunc>({{x, toward, 0, 0}});
  };
  steps(2.5, 2, 3, 2, 2);
  steps(-3.5, -4, -3, -4, -3);
  steps(-0.25, -1, 0, 0, 0);
  steps(kInf, kInf, kInf, kInf, kInf);
  steps(kHuge, kHuge, kHuge, kHuge, kHuge);
  steps(kTiny, 0, 1, 0, 0);
  steps(kNaN, kNaN, kNaN, kNaN, kNaN);
  check_limits<def::frac>({{-1.25, -0.25, 1, 0}, {kInf, kNaN, 1}, {kHuge, 0, 1}, {kNaN, kNaN, 1}});
  check_limits<def::celu>({{0, 0, 1, 0.5}, {-kInf, -2, 0}, {kInf, kInf, 1, 0}, {kNaN, kNaN, kNaN}},
                          def::celu{{}, 2});
  check_limits<def::selu>({{0, 0, 1.7580993408473766},
                           {-kInf, -1.7580993408473766, 0, 0},
                           {kInf, kInf, 1.0507009873554805, 0},
                           {kNaN, kNaN, kNaN}});
  check_limits<def::mish>({{0, 0, 0.6},
                           {-kInf, 0, 0, 0},
                           {-1000, 0, 0, 0},
                           {-kHuge, 0, 0, 0},
                           {kHuge, kHuge, 1, 0},
                           {kInf, kInf, 1, 0},
                           {kNaN, kNaN, kNaN, kNaN}});
  check_limits<def::hardtanh>({{-1, -1, 0},
                               {1, 1, 0},
                               {0, 0, 1},
                               {kTiny, kTiny, 1},
                               {-kInf, -1, 0},
                               {kInf, 1, 0},
                               {kNaN, kNaN, kNaN}});
  check_limits<def::relu6>({{0, 0, 0}, {3, 3, 1}, {6, 6, 0}, {kInf, 6, 0}, {kNaN, kNaN, kNaN}});
  check_limits<def::hardsigmoid>(
      {{-3, 0, 0}, {0, 0.5, 1.0 / 6}, {3, 1, 0}, {-kInf, 0, 0}, {kHuge, 1, 0}, {kNaN, kNaN, kNaN}});
  check_limits<def::hardswish>({{-3, 0, 0},
                                {0, 0, 0.5},
                                {3, 3, 1},
                                {-kInf, 0, 0},
                                {kHuge, kHuge, 1},
                                {kInf, kInf, 1},
                                {kNaN, kNaN, kNaN}});
  check_limits<def::softshrink>({{0.5, 0, 0},
                                 {-0.5, 0, 0},
                                 {2, 1.5, 1},
                                 {-kInf, -kInf, 1},
                                 {kHuge, kHuge, 1},
                                 {kNaN, kNaN, kNaN}});
  check_limits<def::hardshrink>(
      {{0.5, 0, 0}, {-0.5, 0, 0}, {-2, -2, 1}, {kInf, kInf, 1}, {kNaN, kNaN, kNaN}});
  check_limits<def::tanhshrink>(
      {{0, 0, 0, 0}, {kInf, kInf, 1, 0}, {-kHuge, -kHuge, 1, 0}, {kNaN, kNaN, kNaN}});
  check_limits<def::threshold>({{1, 7, 0}, {2, 2, 1}, {-kInf, 7, 0}, {kNaN, kNaN, kNaN}},
                               def::threshold{{}, 1, 7});
  check_limits<def::nan_to_num>(
      {{kNaN, 5, 0}, {kInf, 9, 0}, {-kInf, -8, 0}, {2, 2, 1}, {kHuge, kHuge, 1}},
      def::nan_to_num{{}, 5, 9, -8});
  check_limits<def::logit>(
      {{0, -kInf, kInf}, {1, kInf, kInf}, {0.5, 0, 4, 0}, {2, kNaN, -0.5}, {kNaN, kNaN, kNaN}});
  const double at = std::log(0.25);
  check_limits<def::logit>({{0, at, 0, 0},
                            {1, -at, 0, 0},
                            {kInf, -at, 0, 0},
                            {0.2, at, 6.25},
                            {0.5, 0, 4, 0},
                            {kNaN, kNaN, kNaN}},
                           def::logit{{}, 0.2});
  // The lower bound is the higher one: it is PyTorch's two steps.
  const double up = std::log(0.7 / 0.3);
  check_limits<def::logit>({{0.1, up, 0}, {0.5, up, 0}, {0.8, -up, 0}, {kNaN, kNaN, kNaN}},
                           def::logit{{}, 0.7});
}

TEST_CASE("statements: second order where a select hides a pole") {
  using D = Dual<double>;
  // d2/dadb of a log b is 1 / b, at a = 0 too; nothing is NaN at (0, 0).
  const def::xlogy s;
  CHECK(s.slope_b(D(0, 1), D(4, 0), D(0, 0)).d == 0.25);
  CHECK(s.slope_a(D(0, 0), D(4, 1), D(0, 0)).d == 0.25);
  // Beyond the logarithm both orders agree on 0.
  for (double b : {0.0, -1.0}) {
    CHECK(s.slope_b(D(0, 1), D(b, 0), D(0, 0)).d == 0);
    CHECK(s.slope_a(D(0, 0), D(b, 1), D(0, 0)).d == 0);
    CHECK(def::xlog1py{}.slope_b(D(0, 1), D(b - 1, 0), D(0, 0)).d == 0);
    CHECK(def::xlog1py{}.slope_a(D(0, 0), D(b - 1, 1), D(0, 0)).d == 0);
  }
  // logaddexp at a tie: 1/4 and -1/4.
  const def::logaddexp l;
  CHECK(l.slope_a(D(1, 1), D(1, 0), D(0, 0)).d == 0.25);
  CHECK(l.slope_a(D(1, 0), D(1, 1), D(0, 0)).d == -0.25);
  const def::atan2 angle;
  CHECK(angle.slope_a(D(0, 1), D(0, 0), D(0, 0)).d == 0);
  CHECK(angle.slope_a(D(0, 0), D(0, 1), D(0, 0)).d == 0);
  CHECK(angle.slope_b(D(0, 1), D(0, 0), D(0, 0)).d == 0);
  const def::hypot h;
  CHECK(h.slope_a(D(0, 1), D(0, 0), D(0, 0)).d == 0);
  CHECK(h.slope_b(D(0, 0), D(0, 1), D(0, 0)).d == 0);
}

// ---- through the ops, on both devices

namespace {

template <class T>
Tensor row(const std::vector<T>& x) {
  return Tensor::from(x, {int64_t(x.size())});
}
template <class T>
std::vector<T> list(const Tensor& t) {
  REQUIRE(t.dtype() == dtype_of<T>);
  return t.to_vector<T>();
}

// Division as Python says it: one less where the rest and the divisor differ in sign.
int64_t floor_of(int64_t a, int64_t b) {
  return int64_t(std::floor(static_cast<long double>(a) / static_cast<long double>(b)));
}

template <class T>
void check_integer_rests(std::vector<T> values) {
  std::vector<T> a, b;
  for (T x : values)
    for (T y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  const auto rest = list<T>(fmod(row(a), row(b))), modulo = list<T>(remainder(row(a), row(b))),
             quotient = list<T>(floor_divide(row(a), row(b)));
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(int64_t(a[i]));
    CAPTURE(int64_t(b[i]));
    if (b[i] == T(0)) {
      CHECK(rest[i] == T(0));
      CHECK(modulo[i] == T(0));
      CHECK(quotient[i] == T(0));
    } else if (int64_t(b[i]) == -1) {  // the least integer by -1 wraps
      CHECK(rest[i] == T(0));
      CHECK(modulo[i] == T(0));
      CHECK(uint64_t(int64_t(quotient[i])) + uint64_t(int64_t(a[i])) ==
            (a[i] == std::numeric_limits<T>::lowest() ? uint64_t(int64_t(a[i])) * 2 : 0));
    } else {
      const int64_t q = floor_of(a[i], b[i]);
      CHECK(quotient[i] == T(q));
      CHECK(modulo[i] ==
            T(uint64_t(int64_t(a[i])) - uint64_t(q) * uint64_t(int64_t(b[i]))));  // q b may wrap
      CHECK(rest[i] == T(a[i] % b[i]));
    }
  }
}

}  // namespace

TEST_CASE("statements: rests of integers never trap") {
  on_each_device([] {
    check_integer_rests<int32_t>({0, 1, -1, 2, -2, 3, -7, 100, INT32_MIN, INT32_MAX});
    check_integer_rests<int64_t>({0, 1, -1, 2, -2, 3, -7, 100, INT64_MIN, INT64_MAX});
    check_integer_rests<uint8_t>({0, 1, 2, 3, 7, 100, 200, 255});
  });
}

TEST_CASE("statements: isnan, isinf, isfinite, signbit on every dtype") {
  using Bools = std::vector<bool>;
  const auto truth = [](const Tensor& t) {
    REQUIRE(t.dtype() == DType::bool_);
    const auto x = list<uint8_t>(cast(t, DType::u8));
    return Bools(x.begin(), x.end());
  };
  on_each_device([&] {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor x = cast(row(std::vector<double>{0, -0.0, -2, kNaN, kInf, -kInf}), dtype);
      CHECK(truth(isnan(x)) == Bools{0, 0, 0, 1, 0, 0});
      CHECK(truth(isinf(x)) == Bools{0, 0, 0, 0, 1, 1});
      CHECK(truth(isfinite(x)) == Bools{1, 1, 1, 0, 0, 0});
      const Bools minus = truth(signbit(x));
      CHECK(Bools{minus[0], minus[1], minus[2], minus[4], minus[5]} == Bools{0, 1, 1, 0, 1});
      CHECK(truth(logical_not(x)) == Bools{1, 1, 0, 0, 0, 0});
    }
    const Tensor z = row(std::vector<c64>{
        {1, 2}, {float(kInf), float(kNaN)}, {0, float(kNaN)}, {3, float(-kInf)}, {3e38f, 3e38f}});
    CHECK(truth(isnan(z)) == Bools{0, 1, 1, 0, 0});
    CHECK(truth(isinf(z)) == Bools{0, 1, 0, 1, 0});
    CHECK(truth(isfinite(z)) == Bools{1, 0, 0, 0, 1});
    const Tensor i = row(std::vector<int64_t>{0, INT64_MIN, INT64_MAX, -1});
    CHECK(truth(isnan(i)) == Bools{0, 0, 0, 0});
    CHECK(truth(isinf(i)) == Bools{0, 0, 0, 0});
    CHECK(truth(isfinite(i)) == Bools{1, 1, 1, 1});
    CHECK(truth(signbit(i)) == Bools{0, 1, 0, 1});
    const Tensor u = row(std::vector<uint8_t>{0, 255});
    CHECK(truth(isinf(u)) == Bools{0, 0});
    CHECK(truth(signbit(u)) == Bools{0, 0});
    const Tensor a = row(std::vector<double>{0, 0, kNaN, 2}),
                 b = row(std::vector<double>{0, 3, 0, -1});
    CHECK(truth(logical_and(a, b)) == Bools{0, 0, 0, 1});
    CHECK(truth(logical_or(a, b)) == Bools{0, 1, 1, 1});
    CHECK(truth(logical_xor(a, b)) == Bools{0, 1, 1, 0});
    CHECK(truth(isclose(row(std::vector<double>{1, kInf, kInf, kNaN, 1}),
                        row(std::vector<double>{1 + 1e-6, kInf, -kInf, kNaN, kInf}))) ==
          Bools{1, 1, 0, 0, 0});
    CHECK(truth(isclose(Tensor(kNaN), row(std::vector<double>{kNaN}), 1e-5, 1e-8, true)) ==
          Bools{1});
    CHECK(truth(isclose(row(std::vector<uint8_t>{200}), row(std::vector<uint8_t>{201}), 0, 1)) ==
          Bools{1});
  });
}

TEST_CASE("statements: what nan_to_num puts in, by dtype; integers pass") {
  on_each_device([] {
    for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const Tensor x = cast(row(std::vector<double>{kNaN, kInf, -kInf, 1.5}), dtype);
      const Tensor y = nan_to_num(x);
      CHECK(y.dtype() == dtype);
      const auto v = list<double>(cast(y, DType::f64));
      const double most = dtype == DType::f16    ? 65504.0
                          : dtype == DType::bf16 ? 3.3895313892515355e38
                          : dtype == DType::f32  ? 3.4028234663852886e38
                                                 : std::numeric_limits<double>::max();
      CHECK(v == std::vector<double>{0, most, -most, 1.5});
      CHECK(list<double>(cast(nan_to_num(x, 7, 8.0, -9.0), DType::f64)) ==
            std::vector<double>{7, 8, -9, 1.5});
    }
    CHECK(list<int32_t>(nan_to_num(row(std::vector<int32_t>{3}))) == std::vector<int32_t>{3});
  });
}

TEST_CASE("statements: derivatives of lgamma never end") {
  Tensor x = row(std::vector<double>{0.7, 3.5, -1.3});
  x.set_requires_grad();
  Tensor y = lgamma(x);
  for (double n : {0.0, 1.0, 2.0, 3.0}) {
    y = grad({sum(y)}, {x}, {}, {.create_graph = true})[0];
    const auto got = list<double>(y), want = list<double>(polygamma(n, x));
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
  }
}

TEST_CASE("statements: a shift by as many bits as there are, by more, by less than none") {
  constexpr int64_t kLeast = INT64_MIN;
  const Tensor by = row(std::vector<int64_t>{0, 1, 62, 63, 64, -1, kLeast});
  const auto left = [&](int64_t a) { return list<int64_t>(bitwise_left_shift(a, by)); };
  const auto right = [&](int64_t a) { return list<int64_t>(bitwise_right_shift(a, by)); };
  CHECK(left(3) == std::vector<int64_t>{3, 6, kLeast / 2, kLeast, 0, 0, 0});
  CHECK(left(-1) == std::vector<int64_t>{-1, -2, kLeast / 2, kLeast, 0, 0, 0});
  CHECK(right(kLeast) == std::vector<int64_t>{kLeast, kLeast / 2, -2, -1, -1, -1, -1});
  CHECK(right(INT64_MAX) == std::vector<int64_t>{INT64_MAX, INT64_MAX / 2, 1, 0, 0, 0, 0});
  const Tensor small = row(std::vector<uint8_t>{200, 255}),
               places = row(std::vector<uint8_t>{1, 8});
  CHECK(list<uint8_t>(bitwise_left_shift(small, places)) == std::vector<uint8_t>{144, 0});
  CHECK(list<uint8_t>(bitwise_right_shift(small, places)) == std::vector<uint8_t>{100, 0});
  const Tensor half = row(std::vector<int32_t>{-8, 1}), most = row(std::vector<int32_t>{1, 31});
  CHECK(list<int32_t>(bitwise_right_shift(half, most)) == std::vector<int32_t>{-4, 0});
  CHECK(list<int32_t>(bitwise_left_shift(half, most)) == std::vector<int32_t>{-16, INT32_MIN});
}

TEST_CASE("statements: attributes that are refused") {
  const Tensor x = row(std::vector<double>{1, 2});
  CHECK(error_of([&] { polygamma(-1.0, x); }) == "polygamma: n is -1; expected 0, 1, 2, ...");
  CHECK(error_of([&] { polygamma(0.5, x); }) == "polygamma: n is 0.5; expected 0, 1, 2, ...");
  CHECK(error_of([&] { polygamma(x, x); }) == "polygamma: n is a number, not a tensor");
  CHECK(error_of([&] { clamp(x, Tensor(), Tensor()); }) ==
        "clamp_tensor: neither min nor max is given");
  CHECK(error_of([&] { bitwise_and(x, x); }) ==
        "bitwise_and: is not defined for f64; it takes bool and integers; cast to i64 first, which "
        "cuts "
        "fractions off");
  CHECK(error_of([&] { floor(cast(x, DType::c64)); }) ==
        "floor: is not defined for c64; it takes integers and real numbers; take abs(), real() or "
        "imag() "
        "first");
  CHECK(error_of([&] { softshrink(x, -0.5); }) == "softshrink: lambd is -0.5, expected 0 or more");
  CHECK(error_of([&] { hardtanh(x, 1, -1); }) ==
        "hardtanh: min_val is 1, max_val -1; expected min_val <= max_val");
  CHECK(error_of([&] { celu(x, 0); }) == "celu: alpha is 0, by which x is divided");
}
