// contract, as people write it: repeated labels, labels of one operand alone, algebras, extents 0
// and 1.
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/kinds.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("contract: diagonals, own labels, broadcasting extents") {
  const Tensor a = f64({1, 2, 3, 4}, {2, 2}), b = f64({10, 20}, {2});
  CHECK(values(contract(a, {0, 0}, b, {0}, {0})) == std::vector<double>{10, 80});
  CHECK(values(contract(a, {0, 1}, b, {2}, {0})) == std::vector<double>{90, 210});
  CHECK(values(contract(a, {0, 1}, b, {0}, {})) == std::vector<double>{170});
  CHECK(values(contract(a, {0, 1}, f64({3}, {1}), {0}, {1})) == std::vector<double>{12, 18});
  CHECK(error_of([&] {
          contract(a, {'a', 'b'}, f64({1, 2, 3}, {3}), {'b'}, {'a'});
        }) == "contract: label b is 2 in the first operand (2, 2) and 3 in the second (3,)");
  CHECK(error_of([&] {
          contract(a, {'a', 'b'}, b, {'b'}, {'c'});
        }) == "contract: output label c is in no operand");
  CHECK(error_of([&] {
          contract(a, {'a', 'b'}, b, {'b'}, {'a', 'a'});
        }) == "contract: output label a is repeated");
}

TEST_CASE("contract: a linear layer is one node, and its bias meets the unrounded sum") {
  const Tensor x = leaf(f32({1, 2, 3, 4}, {2, 2})), w = leaf(f32({1, 0, 0, 1, 1, 1}, {3, 2})),
               bias = leaf(f32({10, 20, 30}, {3}));
  const Tensor y = linear(x, w, bias);
  CHECK(values(y) == std::vector<double>{11, 22, 33, 13, 24, 37});
  const std::span<const Edge> edges = y.grad_fn()->inputs();
  REQUIRE(edges.size() == 3);
  for (const Edge& e : edges) CHECK(e.leaf);
  backward(sum(y));
  CHECK(values(bias.grad()) == std::vector<double>{2, 2, 2});
  // bf16 steps by 2 here: 257 + 2 is 260 if it is rounded once, 258 if the sum is rounded before.
  const Tensor row = cast(f32({16, 1}, {1, 2}), DType::bf16),
               two = Tensor::full({1}, 2.0, DType::bf16);
  CHECK(values(linear(row, row, two)) == std::vector<double>{260});
  CHECK(values(add(linear(row, row), two)) == std::vector<double>{258});
}

TEST_CASE("contract: max-times takes the maximum over all products, negative ones too") {
  const Tensor a = f64({-3, 2}, {2}), b = f64({-5, 1}, {2});
  CHECK(contract(a, {0}, b, {1}, {}, Algebra::max_times).item() == 15);
  const Tensor x = leaf(f64({-3, 2}, {2})), y = leaf(f64({-5, 1}, {2}));
  backward(contract(x, {0}, y, {1}, {}, Algebra::max_times));
  CHECK(values(x.grad()) == std::vector<double>{-5, 0});
  CHECK(values(y.grad()) == std::vector<double>{-3, 0});
}

TEST_CASE("contract: an empty sum is the algebra's zero, and nothing wins") {
  const Tensor a = leaf(Tensor::zeros({2, 0}, DType::f64)),
               b = leaf(Tensor::zeros({0, 3}, DType::f64));
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    Algebra algebra;
    double zero;
  } rows[] = {{Algebra::standard, 0},  {Algebra::max_plus, -inf}, {Algebra::min_plus, inf},
              {Algebra::max_times, 0}, {Algebra::min_times, inf}, {Algebra::log_sum_exp, -inf}};
  for (const auto& row : rows) {
    const Tensor c = contract(a, {0, 1}, b, {1, 2}, {0, 2}, row.algebra);
    CHECK(values(c) == std::vector<double>(6, row.zero));
    const Tensors g = grad({sum(c)}, {a, b}, {}, {.allow_unused = true});
    if (g[0].defined()) CHECK(g[0].sizes() == Shape{2, 0});
  }
}

TEST_CASE("contract: hundreds of columns that lie apart in the result") {
  const int64_t m = 24, k = 24, n = 7;
  std::vector<double> a(size_t(m * k)), b(size_t(n * n * n * k));
  for (size_t i = 0; i < a.size(); ++i) a[i] = double(i % 13) - 6;
  for (size_t i = 0; i < b.size(); ++i) b[i] = double(i % 17) - 8;
  const Tensor y = contract(Tensor::from(a, {m, k}), {'m', 'k'}, Tensor::from(b, {n, n, n, k}),
                            {'p', 'q', 'r', 'k'}, {'r', 'm', 'q', 'p'});
  std::vector<double> expected;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t q = 0; q < n; ++q)
        for (int64_t p = 0; p < n; ++p) {
          double sum = 0;
          for (int64_t j = 0; j < k; ++j)
            sum += a[size_t(i * k + j)] * b[size_t(((p * n + q) * n + r) * k + j)];
          expected.push_back(sum);
        }
  CHECK(values(y) == expected);
}

TEST_CASE("matmul: ranks and batches as numpy") {
  const Tensor a =
      reshape(cast(cumsum(Tensor::full({24}, 1.0, DType::f64), 0), DType::f64), {2, 3, 4});
  const Tensor v = f64({1, 0, 0, 1}, {4});
  CHECK(values(matmul(a, v)) == std::vector<double>{5, 13, 21, 29, 37, 45});
  CHECK(matmul(v, transpose(a, 1, 2)).sizes() == Shape{2, 3});
  CHECK(matmul(unsqueeze(a, 1), expand(transpose(select(a, 0, 0), 0, 1), {5, 4, 3})).sizes() ==
        Shape{2, 5, 3, 3});
  CHECK(error_of([&] { matmul(a, reshape(a, {2, 4, 3})); }).empty());
  CHECK(error_of([&] {
          matmul(a, Tensor::zeros({3, 4, 2}, DType::f64));
        }).find("do not broadcast") != std::string::npos);
}

TEST_CASE("einsum: a large einsum whose axes alternate lies as the product is made") {
  const auto drawn = [](const Shape& sizes) {
    std::vector<double> x(size_t(numel_of(sizes)));
    for (size_t i = 0; i < x.size(); ++i) x[i] = double(i % 11) - 5;
    return x;
  };
  const auto results = [&](Device& d, bool* apart) {
    const Shape of_a{7, 2, 6, 7}, of_b{6, 7, 1, 6, 2};  // aged, cbxfg
    Tensor a = Tensor::from(drawn(of_a), of_a, d), b = Tensor::from(drawn(of_b), of_b, d);
    const auto product = [&] { return einsum("aged,cbxfg->fexdcba", {a, b}); };
    const Tensor x = product();
    *apart = x.strides() != contiguous_strides(x.sizes());
    a.set_requires_grad();
    const Tensor y = product();  // views of it may be written
    CHECK(y.strides() == contiguous_strides(y.sizes()));
    return Tensors{x, y.detach(), grad({sum(y * y)}, {a})[0], contiguous(transpose(x, 0, 3))};
  };
  bool apart = false;
  const Tensors wanted = results(open_device("cpu"), &apart);
  for (Device* d : one_of_each_kind()) {
    CAPTURE(d->name());
    const Tensors got = results(*d, &apart);
    CHECK(apart == !d->host_memory());
    for (size_t k = 0; k < got.size(); ++k)
      CHECK(got[k].to_vector<double>() == wanted[k].to_vector<double>());
  }
}
