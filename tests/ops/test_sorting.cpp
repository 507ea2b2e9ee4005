// Order, scans and indexing where the op table cannot look: NaN, ties, negative indices, gradients
// by convention, the slot on long lines, and modules from before the slot.
#include "engine/graph.hpp"
#include "engine/random.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/not_finite.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>

using namespace gradus;
using gradus::testing::kInf;
using gradus::testing::kNaN;
using gradus::testing::on_each_device;

namespace {

using Doubles = std::vector<double>;
using Places = std::vector<int64_t>;

Tensor line(const Doubles& v) { return Tensor::from(v, {int64_t(v.size())}); }
Tensor places(const Places& v) { return Tensor::from(v, {int64_t(v.size())}); }
Doubles numbers(const Tensor& t) { return t.to_vector<double>(); }
Places whole(const Tensor& t) { return t.to_vector<int64_t>(); }
Doubles slope(const Tensor& y, const Tensor& x) {
  return numbers(grad({sum(y)}, {x}, {}, {.retain_graph = true})[0]);
}

}  // namespace

TEST_CASE("sorting: stable both ways, NaN the largest, -0 equal to 0") {
  on_each_device([] {
    const Tensor x = line({1, kNaN, -0.0, 1, 0, kInf, kNaN, -kInf});
    CHECK(whole(argsort(x)) == Places{7, 2, 4, 0, 3, 5, 1, 6});
    CHECK(whole(argsort(x, 0, true)) == Places{1, 6, 5, 0, 3, 2, 4, 7});
    CHECK(whole(argsort(cast(x, DType::f16))) == Places{7, 2, 4, 0, 3, 5, 1, 6});
    CHECK(std::isnan(median(x).item()));
    CHECK(whole(median(x, 0)[1]) == Places{1});
    CHECK(whole(cummax(line({1, 3, 3, kNaN, 5, kNaN}), 0)[1]) == Places{0, 1, 2, 3, 3, 5});
    CHECK(whole(cummin(line({2, 2, 1, 4, 1}), 0)[1]) == Places{0, 1, 2, 2, 4});
  });
}

TEST_CASE("sorting: the extreme integers, and long lines of every dtype, as std::stable_sort") {
  on_each_device([] {
    constexpr int64_t low = INT64_MIN, high = INT64_MAX;
    CHECK(whole(sort(places({0, high, low, -1}))[0]) == Places{low, -1, 0, high});
    manual_seed(7);
    const int64_t n = 40000;
    const Tensor drawn = mul(uniform({3, n}, -1, 1, DType::f32), 1000.0);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64}) {
      CAPTURE(dtype_name(dtype));
      const Tensor x = cast(drawn, dtype);
      const Doubles host = numbers(cast(x, DType::f64));
      for (const bool descending : {false, true}) {
        Places expected;
        for (int64_t row = 0; row < 3; ++row) {
          Places order(size_t(n), 0);
          std::iota(order.begin(), order.end(), 0);
          const double* v = host.data() + row * n;
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return descending ? v[a] > v[b] : v[a] < v[b];
          });
          expected.insert(expected.end(), order.begin(), order.end());
        }
        CHECK(whole(argsort(x, 1, descending)) == expected);
        CHECK(whole(transpose(argsort(contiguous(transpose(x, 0, 1)), 0, descending), 0, 1)) ==
              expected);
      }
    }
  });
}

TEST_CASE("sorting: searches in sequences of several numbers") {
  on_each_device([] {
    const Tensor s = line({-1, 0, 0, 2, 5}), v = line({-2, -1, 0, 1, 5, 6, kNaN});
    CHECK(whole(searchsorted(s, v)) == Places{0, 0, 1, 3, 4, 5, 5});
    CHECK(whole(searchsorted(s, v, true)) == Places{0, 1, 3, 3, 5, 5, 5});
    const Tensor two = Tensor::from(Doubles{1, 2, 3, 10, 20, 30}, {2, 3});
    CHECK(whole(searchsorted(two, Tensor::from(Doubles{2, 4, 20, 5}, {2, 2}))) ==
          Places{1, 3, 1, 0});
    CHECK(whole(bucketize(line({0.5, 7}), s)) == Places{3, 5});
  });
}

TEST_CASE("sorting: unique counts what occurs; each NaN is its own") {
  on_each_device([] {
    const Tensors u = unique(line({3, 1, 3, -0.0, 0, kNaN, kNaN}));
    CHECK(u[0].numel() == 5);
    CHECK(numbers(slice(u[0], 0, 0, 3)) == Doubles{0, 1, 3});
    CHECK(whole(u[1]) == Places{2, 1, 2, 0, 0, 3, 4});
    CHECK(whole(u[2]) == Places{2, 1, 2, 1, 1});
    const Tensors runs = unique_consecutive(places({2, 2, 1, 2}));
    CHECK(whole(runs[0]) == Places{2, 1, 2});
    CHECK(whole(runs[2]) == Places{2, 1, 1});
  });
}

TEST_CASE("sorting: ties: max() shares the gradient, max(dim) gives it to the first") {
  const Tensor x = line({2, 5, 5, 1}).set_requires_grad();
  CHECK(slope(max(x), x) == Doubles{0, 0.5, 0.5, 0});
  CHECK(slope(max(x, 0)[0], x) == Doubles{0, 1, 0, 0});
  CHECK(slope(cummax(x, 0)[0], x) == Doubles{1, 1, 2, 0});
}

TEST_CASE("scans: cumprod through zeros is exact, to the second order") {
  const Tensor x = line({2, 0, 3, 0}).set_requires_grad();
  const Tensor first = grad({sum(cumprod(x, 0))}, {x}, {}, {.create_graph = true})[0];
  CHECK(numbers(first) == Doubles{1, 8, 0, 0});
  // d2/dx0dx1 = 1 + x2 + x2 x3, d2/dx1dx2 = x0 + x0 x3, d2/dx1dx3 = x0 x2
  CHECK(slope(select(first, 0, 1), x) == Doubles{4, 0, 2, 6});
}

TEST_CASE("scans: logcumsumexp at infinities and ties") {
  on_each_device([] {
    const Doubles y = numbers(logcumsumexp(line({-kInf, -kInf, 0, 0, 1000}), 0));
    CHECK(y[0] == -kInf);
    CHECK(y[1] == -kInf);
    CHECK(y[2] == 0);
    CHECK(y[3] == doctest::Approx(std::log(2)));
    CHECK(y[4] == 1000);
    CHECK(numbers(logcumsumexp(line({1, kInf, 2}), 0))[2] == kInf);
  });
  // log(exp(a) + exp(b)) at a = b: slopes 1/2, second derivative 1/4.
  const Tensor x = line({0, 0}).set_requires_grad();
  const Tensor y = select(logcumsumexp(x, 0), 0, 1);
  const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
  CHECK(numbers(first) == Doubles{0.5, 0.5});
  CHECK(slope(select(first, 0, 0), x) == Doubles{0.25, -0.25});
  const Tensor far = line({-kInf, 1}).set_requires_grad();
  CHECK(slope(select(logcumsumexp(far, 0), 0, 1), far) == Doubles{0, 1});
}

TEST_CASE("indexing: the last of several writers stays, and has the gradient") {
  on_each_device([] {
    const Tensor x = line({1, 2, 3}).set_requires_grad();
    const Tensor src = line({10, kNaN, 30, 40}).set_requires_grad();
    const Tensor y = scatter(x, 0, places({0, 2, 0, 2}), src);
    CHECK(numbers(y) == Doubles{30, 2, 40});
    CHECK(slope(y, src) == Doubles{0, 0, 1, 1});
    CHECK(slope(y, x) == Doubles{0, 1, 0});
  });
}

TEST_CASE("indexing: negative indices count from the end in index, take, index_put alone") {
  on_each_device([] {
    const Tensor x = line({1, 2, 3}), last = places({-1, 0});
    CHECK(numbers(index(x, {last})) == Doubles{3, 1});
    CHECK(numbers(take(x, last)) == Doubles{3, 1});
    CHECK(numbers(index_put(x, {last}, line({8, 9}))) == Doubles{9, 2, 8});
    CHECK_THROWS_WITH(gather(x, 0, last), doctest::Contains("index -1 is outside [0, 3)"));
    CHECK_THROWS_WITH(index_select(x, 0, last), doctest::Contains("index -1 is outside [0, 3)"));
    CHECK_THROWS_AS(index(x, {places({-4})}), Error);
    // Each index is held against its own axis, not against the whole tensor.
    const Tensor square = reshape(line({1, 2, 3, 4}), {2, 2});
    CHECK_THROWS_WITH(index(square, {places({0}), places({2})}),
                      doctest::Contains("index 2 is outside [0, 2)"));
    const Tensor mask = gt(square, 2.0);
    CHECK(numbers(index(square, {mask})) == Doubles{3, 4});
    CHECK(numbers(index_put(square, {mask}, Tensor::full({}, 0, DType::f64))) ==
          Doubles{1, 2, 0, 0});
  });
}

TEST_CASE("indexing: the padding row of embedding has no gradient") {
  const Tensor w = reshape(line({1, 2, 3, 4}), {2, 2}).clone_data().set_requires_grad();
  const Tensor y = embedding(w, places({1, 0, 1}), 1);
  CHECK(numbers(y) == Doubles{3, 4, 1, 2, 3, 4});
  CHECK(slope(y, w) == Doubles{1, 1, 0, 0});
}

TEST_CASE("sorting: a module without the slot says so, and does the rest") {
  static gd_table old = *reference::table();
  old.slot[GD_SORT] = nullptr;
  gd_device* handle = nullptr;
  gd_error error{};
  REQUIRE(old.open(0, "{}", &handle, &error) == GD_OK);
  static Device& device = *new Device(&old, 0, handle, "oldref");  // devices live for ever
  const DeviceScope scope(device);
  const Tensor x = line({2, 1});
  CHECK(numbers(add(x, x)) == Doubles{4, 2});
  CHECK_THROWS_WITH(sort(x), "argsort: device oldref has no kernel for slot sort");
}
