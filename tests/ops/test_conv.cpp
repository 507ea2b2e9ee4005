// Windows, convolution and pooling, as people write them: published numbers, ties, padding that
// never wins, what the graph keeps, views that overlap themselves.
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/not_finite.hpp"

#include <limits>

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor counting(const Shape& sizes) {
  std::vector<double> v(static_cast<size_t>(numel_of(sizes)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = double(i);
  return Tensor::from(v, sizes);
}

}  // namespace

TEST_CASE("window: a view, which fold undoes up to how often an element is seen") {
  const Tensor x = counting({5});
  const Tensor w = window(x, 0, 3);
  CHECK(&w.storage() == &x.storage());
  CHECK(values(w) == std::vector<double>{0, 1, 2, 1, 2, 3, 2, 3, 4});
  CHECK(values(fold(w, 0, 5)) == std::vector<double>{0, 2, 6, 6, 4});
  CHECK(values(window(x, 0, 2, 2, 2)) == std::vector<double>{0, 2, 2, 4});
}

TEST_CASE("window: a view that overlaps itself is not written, and its clone is its own") {
  const Tensor w = window(counting({4}), 0, 2);
  CHECK(error_of([&] {
          copy_(w, f64({0}, {1}));
        }).find("copy_: the tensor written to overlaps itself") == 0);
  const Tensor own = clone(w);
  copy_(select(own, 0, 0), f64({7}, {1}));
  CHECK(values(own) == std::vector<double>{7, 7, 1, 2, 2, 3});
  CHECK(values(w) == std::vector<double>{0, 1, 1, 2, 2, 3});
  // Windows that do not meet may be written.
  const Tensor apart = counting({4});
  copy_(window(apart, 0, 2, 2), f64({9}, {1}));
  CHECK(values(apart) == std::vector<double>(4, 9));
}

TEST_CASE("conv2d: a difference of neighbours; unbatched as batched") {
  const Tensor x = counting({1, 1, 3, 3}), w = f64({-1, 1}, {1, 1, 1, 2});
  CHECK(values(conv2d(x, w)) == std::vector<double>(6, 1));
  CHECK(values(conv2d(x, w, f64({10}, {1}))) == std::vector<double>(6, 11));
  CHECK(conv2d(reshape(x, {1, 3, 3}), w).sizes() == Shape{1, 3, 2});
  CHECK(values(conv2d(x, f64({1}, {1, 1, 1, 1}), {}, {2})) == std::vector<double>{0, 2, 6, 8});
  CHECK(values(conv1d(f64({1, 2}, {1, 1, 2}), f64({1, 1}, {1, 1, 2}), {}, {1}, {1})) ==
        std::vector<double>{1, 3, 2});
}

TEST_CASE("conv_transpose2d is the transpose of conv2d") {
  const Tensor x = counting({2, 3, 9, 7}), w = counting({4, 3, 3, 2});
  const Tensor y = conv2d(x, w, {}, {2, 3}, {1, 0}), v = counting(y.sizes());
  const Tensor back = conv_transpose2d(v, w, {}, {2, 3}, {1, 0}, {0, 2});
  REQUIRE(back.sizes() == x.sizes());
  CHECK(sum(mul(y, v)).item() == sum(mul(x, back)).item());  // integers: exact
}

TEST_CASE("conv: no buffer of unrolled windows, forward or backward") {
  const int64_t n = 40;
  const Tensor x = leaf(Tensor::full({1, 8, n, n}, 1.0, DType::f32)),
               w = leaf(Tensor::full({8, 8, 5, 5}, 1.0, DType::f32));
  const PoolStats before = x.device().pool().stats();
  x.device().pool().reset_peak();
  backward(sum(conv2d(x, w)));
  const int64_t used = int64_t(x.device().pool().stats().peak) - int64_t(before.live);
  CHECK(used < 10 * int64_t(x.bytes()));  // the windows would take 20 times x
  CHECK(values(x.grad())[0] == 8);
  CHECK(values(w.grad())[0] == 36 * 36);
}

TEST_CASE("max_pool: the first of equal maxima has the gradient, padding never wins") {
  const Tensor ties = leaf(Tensor::full({1, 1, 2, 2}, 3.0, DType::f64));
  backward(sum(max_pool2d(ties, {2})));
  CHECK(values(ties.grad()) == std::vector<double>{1, 0, 0, 0});
  // Row-major order: the row counts before the column.
  const Tensor x = leaf(f64({0, 5, 5, 0}, {1, 1, 2, 2}));
  backward(sum(max_pool2d(x, {2})));
  CHECK(values(x.grad()) == std::vector<double>{0, 1, 0, 0});
  const Tensor low = leaf(f64({-kInf, -kInf, -kInf}, {1, 1, 3}));
  const Tensor y = max_pool1d(low, {3}, {2}, {1});
  CHECK(values(y) == std::vector<double>{-kInf, -kInf});
  backward(sum(y));
  CHECK(values(low.grad()) == std::vector<double>{1, 1, 0});
  CHECK(max_pool1d(i64({INT64_MIN, INT64_MIN}, {1, 1, 2}), {2}, {1}, {1}).sizes() ==
        Shape{1, 1, 3});
  CHECK(std::isnan(max_pool1d(f64({1, NAN, 2}, {1, 1, 3}), {3}).item()));
}

TEST_CASE("avg_pool: what padding counts, and what ceil_mode does not count") {
  const Tensor x = f64({2, 4, 6}, {1, 1, 3});
  CHECK(values(avg_pool1d(x, {2}, {2}, {1})) == std::vector<double>{1, 5});
  CHECK(values(avg_pool1d(x, {2}, {2}, {1}, false, false)) == std::vector<double>{2, 5});
  CHECK(values(avg_pool1d(x, {2}, {2}, {0}, true)) == std::vector<double>{3, 6});
  CHECK(values(adaptive_avg_pool1d(x, {2})) == std::vector<double>{3, 5});
  CHECK(values(adaptive_max_pool1d(x, {2})) == std::vector<double>{4, 6});
}
