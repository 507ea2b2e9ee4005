// What a contraction of the cpu device does to its finished sums, against calls of their own: a
// bias has the bits of an addition, on every path that f32 and f64 take and every instruction set.
#include "ops/def/fingerprint.hpp"
#include "tests/cpu_device.hpp"

using namespace cpu_test;

namespace {

// out[b, m, n] = sum_k x[b, m, k] y[b, n, k] + bias.
struct Product {
  int64_t b, m, n, k;
  int which_bias;  // over n, over m, one number, over b and n, dense
  bool y_across;   // y lies as (b, k, n), else as (b, n, k)
  bool batch_last;
};

template <class T>
void check_bias(const Product& p) {
  CAPTURE(p.b);
  CAPTURE(p.m);
  CAPTURE(p.n);
  CAPTURE(p.k);
  CAPTURE(p.which_bias);
  const Index joint = {p.b, p.m, p.n, p.k}, out_sizes = {p.b, p.m, p.n};
  const auto strides = [&](int64_t rows, int64_t columns) {
    return p.batch_last ? Index{1, columns * p.b, p.b} : Index{rows * columns, columns, 1};
  };
  const Index x = strides(p.m, p.k), out = strides(p.m, p.n),
              y = p.y_across ? strides(p.k, p.n) : strides(p.n, p.k);
  const Index joint_x = {x[0], x[1], 0, x[2]},
              joint_y = {y[0], 0, y[p.y_across ? 2 : 1], y[p.y_across ? 1 : 2]};
  const Index biases[] = {{0, 0, 1}, {0, 1, 0}, {0, 0, 0}, {p.n, 0, 1}, {p.n * p.m, 1, p.m}};
  const auto numbers = [](int64_t n, int64_t from) {
    std::vector<T> v(size_t(n) + 16);
    for (T& t : v) t = T(std::sin(double(from++)));
    return v;
  };
  std::vector<T> a = numbers(p.b * p.m * p.k, 1), b = numbers(p.b * p.n * p.k, 5000),
                 bias = numbers(p.b * p.m * p.n, 77), once(size_t(p.b * p.m * p.n)), twice(once);
  constexpr int32_t t = int32_t(dtype_of<T>);
  const gd_view va{1, a.data(), t, 4, 3, joint.data(), joint_x.data()},
      vb{2, b.data(), t, 4, 1, joint.data(), joint_y.data()},
      vbias{3, bias.data(), t, 3, 2, out_sizes.data(), biases[p.which_bias].data()},
      to{4, once.data(), t, 3, 0, out_sizes.data(), out.data()},
      other{5, twice.data(), t, 3, 0, out_sizes.data(), out.data()};
  for (const auto& dev : devices()) {
    CAPTURE(dev->name);
    call(*dev, GD_CONTRACT, 0, {va, vb, vbias}, {to}, {1, 0, 0, 0}, {3, GD_STANDARD, 0, 0});
    call(*dev, GD_CONTRACT, 0, {va, vb}, {other}, {1, 0, 0, 0}, {3, GD_STANDARD, 0, 0});
    call(*dev, GD_POINTWISE, def::statement_id("add"), {other, vbias}, {other});
    CHECK(same_bits(once, twice));
  }
}

}  // namespace

TEST_CASE("cpu: a contraction's bias has the bits of an addition after it") {
  const Product shapes[] = {{1, 8, 16, 4, 0, false, false},    {1, 32, 16, 8, 0, true, false},
                            {1, 7, 5, 0, 0, false, false},     {1, 1, 40, 300, 0, false, false},
                            {1, 40, 1, 3000, 0, false, false}, {1, 64, 10, 784, 0, false, false},
                            {1, 64, 128, 784, 0, true, false}, {1, 130, 66, 1000, 0, false, false},
                            {3, 9, 33, 20, 0, false, false},   {20, 5, 7, 600, 0, false, true},
                            {2, 40, 300, 50, 0, true, false}};
  for (Product p : shapes)
    for (p.which_bias = 0; p.which_bias < 5; ++p.which_bias) {
      check_bias<float>(p);
      check_bias<double>(p);
    }
}
