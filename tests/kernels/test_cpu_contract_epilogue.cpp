// What a contraction of the cpu device does to its finished sums, against calls of their own: a
// bias has the bits of an addition, a statement those of a pointwise call, on every path that f32
// and f64 take and every instruction set.
#include "ops/def/fingerprint.hpp"
#include "tests/helpers/cpu_device.hpp"
#include "tests/helpers/sizes.hpp"

using namespace cpu_test;

namespace {

// out[b, m, n] = sum_k x[b, m, k] y[b, n, k] + bias.
struct Product {
  int64_t b, m, n, k;
  bool y_across;       // y lies as (b, k, n), else as (b, n, k)
  bool batch_last;     // the batch axis is the innermost of all
  bool columns_apart;  // out has a gap after each element
  int which_bias = 0;  // over n, over m, one number, over b and n, dense
};

const Product kShapes[] = {
    {1, 8, 16, 4, false, false, false},    {1, 32, 16, 8, true, false, false},
    {1, 7, 5, 0, false, false, false},     {1, 1, 40, 300, false, false, false},
    {1, 40, 1, 3000, false, false, false}, {1, 64, 10, 784, false, false, false},
    {1, 64, 128, 784, true, false, false}, {1, 130, 66, 1000, false, false, false},
    {3, 9, 33, 20, false, false, false},   {20, 5, 7, 600, false, true, false},
    {2, 40, 300, 50, true, false, false},  {1, 70, 45, 500, false, false, true},
    {1, 0, 5, 3, false, false, false}};

template <class T>
std::vector<T> numbers(int64_t n, int64_t from) {
  std::vector<T> v(size_t(n) + 16);
  for (T& t : v) {
    if constexpr (std::is_integral_v<T>)
      t = T(++from * 7919 % 23);
    else
      t = T(float(std::sin(double(++from))));
  }
  return v;
}

// A product's memory and views. Two results: in one call, in several.
template <class T>
struct Views {
  const Product p;
  Index joint = {p.b, p.m, p.n, p.k}, out_sizes = {p.b, p.m, p.n}, joint_x, joint_y, out, over;
  std::vector<T> a = numbers<T>(p.b * p.m * p.k, 1), b = numbers<T>(p.b * p.n * p.k, 5000),
                 bias = numbers<T>(p.b * p.m * p.n, 77), once, twice;

  explicit Views(const Product& product) : p(product) {
    const auto strides = [&](int64_t rows, int64_t columns) {
      return p.batch_last ? Index{1, columns * p.b, p.b} : Index{rows * columns, columns, 1};
    };
    const Index x = strides(p.m, p.k), y = p.y_across ? strides(p.k, p.n) : strides(p.n, p.k);
    joint_x = {x[0], x[1], 0, x[2]};
    joint_y = {y[0], 0, y[p.y_across ? 2 : 1], y[p.y_across ? 1 : 2]};
    out = strides(p.m, p.n);
    if (p.columns_apart)
      for (int64_t& step : out) step *= 2;
    const Index biases[] = {{0, 0, 1}, {0, 1, 0}, {0, 0, 0}, {p.n, 0, 1}, {p.n * p.m, 1, p.m}};
    over = biases[p.which_bias];
    once.resize(size_t(2 * p.b * p.m * p.n + 1));
    twice = once;
  }
  gd_view view(std::vector<T>& v, int64_t offset, const Index& sizes, const Index& strides) const {
    return {1,      v.data(),     int32_t(dtype_of<T>), int32_t(sizes.size()),
            offset, sizes.data(), strides.data()};
  }
  std::vector<gd_view> in(bool with_bias) {
    std::vector<gd_view> views = {view(a, 3, joint, joint_x), view(b, 1, joint, joint_y)};
    if (with_bias) views.push_back(view(bias, 2, out_sizes, over));
    return views;
  }
  gd_view result(std::vector<T>& v) const { return view(v, 0, out_sizes, out); }
};

template <class T>
void check_bias(const Product& p) {
  Views<T> v(p);
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    call(*dev, GD_CONTRACT, 0, v.in(true), {v.result(v.once)}, {1, 0, 0, 0},
         {3, GD_STANDARD, 0, 0});
    call(*dev, GD_CONTRACT, 0, v.in(false), {v.result(v.twice)}, {1, 0, 0, 0},
         {3, GD_STANDARD, 0, 0});
    call(*dev, GD_POINTWISE, def::statement_id("add"), {v.result(v.twice), v.in(true)[2]},
         {v.result(v.twice)});
    CHECK(same_bits(v.once, v.twice));
  }
}

template <class T>
void check_statement(const Product& p, const char* name, const std::vector<double>& params = {},
                     double alpha = 1, double beta = 0) {
  CAPTURE(name);
  Views<T> v(p);
  const int statement = def::statement_id(name);
  std::vector<double> doubles = {alpha, 0, beta, 0};
  doubles.insert(doubles.end(), params.begin(), params.end());
  const Index ints = {3, GD_STANDARD, 0, 0, statement};
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    std::vector<T> planned;
    for (auto* r : {&v.once, &v.twice}) *r = numbers<T>(int64_t(r->size()), 9);
    planned = v.once;
    call(*dev, GD_CONTRACT, 0, v.in(true), {v.result(v.once)}, doubles, ints);
    call(*dev, GD_CONTRACT, 0, v.in(true), {v.result(v.twice)}, {alpha, 0, beta, 0},
         {3, GD_STANDARD, 0, 0});
    call(*dev, GD_POINTWISE, statement, {v.result(v.twice)}, {v.result(v.twice)}, params);
    CHECK(same_bits(v.once, v.twice));

    const std::vector<gd_view> in = v.in(true);
    const gd_view out = v.result(planned);
    gd_call c{sizeof(gd_call),
              GD_CONTRACT,
              0,
              3,
              1,
              int32_t(doubles.size()),
              5,
              in.data(),
              &out,
              doubles.data(),
              ints.data(),
              nullptr,
              nullptr,
              0,
              nullptr};
    gd_error e{};
    REQUIRE(cpu::table()->prepare(dev->d, &c, &c.plan, &e) == GD_OK);
    REQUIRE(cpu::table()->slot[GD_CONTRACT](dev->d, nullptr, &c, &e) == GD_OK);
    cpu::table()->unprepare(dev->d, c.plan);
    CHECK(same_bits(planned, v.twice));
  }
}

}  // namespace

TEST_CASE("cpu: a contraction's bias has the bits of an addition after it") {
  for (Product p : kShapes)
    for (p.which_bias = 0; p.which_bias < 5; ++p.which_bias) {
      check_bias<float>(p);
      if (!test::small_sizes()) check_bias<double>(p);
    }
}

TEST_CASE("cpu: a statement at the end of a contraction has the bits of a pointwise call") {
  for (const Product& p : kShapes) {
    CAPTURE(p.m);
    CAPTURE(p.n);
    CAPTURE(p.k);
    check_statement<float>(p, "gelu");
    if (test::small_sizes()) continue;
    for (const char* name : {"relu", "tanh", "sigmoid", "gelu", "sin", "erf"}) {
      check_statement<float>(p, name);
      check_statement<double>(p, name);
    }
    check_statement<float>(p, "leaky_relu", {0.125}, 0.5, -1);
    check_statement<double>(p, "leaky_relu", {0.125}, -2, 0.5);
  }
  const Product some = kShapes[3], large = kShapes[7];
  for (const Product& p : {some, large}) {  // and where it is a second pass over every dtype
    check_statement<Half>(p, "tanh");
    check_statement<BFloat16>(p, "relu");
    check_statement<c64>(p, "exp");
    check_statement<c128>(p, "square");
    check_statement<int32_t>(p, "square");
    check_statement<int64_t>(p, "neg");
    check_statement<uint8_t>(p, "square");
  }
}

TEST_CASE("cpu: a contraction refuses statements that are not of one operand and one dtype") {
  Views<float> v(kShapes[1]);
  const auto refused = [&](const char* name, int64_t algebra = GD_STANDARD) {
    return refusal(GD_CONTRACT, 0, v.in(false), {v.result(v.once)}, {1, 0, 0, 0},
                   {3, algebra, 0, 0, name ? def::statement_id(name) : -1});
  };
  CHECK(has(refused("add"), "add takes 2 operands"));
  CHECK(has(refused("isnan"), "the output is f32"));
  CHECK(has(refused("leaky_relu"), "parameters"));
  CHECK(has(refused(nullptr), "has no kernel"));
  CHECK(has(refused("relu", GD_MAX_PLUS), "no statement"));
}
