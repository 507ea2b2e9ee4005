// Algebras of contractions: each against a loop over all assignments of the labels; what overflows
// elsewhere; users' own; refusals. And the winners of an einsum, which must give its value again.
#include "ops/contract/winners.hpp"
#include "ops/transforms/func.hpp"
#include "tests/contract/small_einsums.hpp"
#include "tests/helpers/texts.hpp"

using namespace gradus;
using namespace gradus::testing;
using gradus::test::check_has;

TEST_CASE("algebras: each is what a loop over all assignments gives") {
  on_each_device([] {
    unsigned seed = 1;
    for (const Network& n : networks()) {
      const std::string equation = n.equation;
      CAPTURE(equation);
      for (const Algebra algebra : kTropical) {
        INFO(algebra_name(algebra));
        const EinsumPlan plan = plan_of(n, algebra);
        const auto in = draw(n, seed++, sums_alone(algebra) ? -7 : 1);
        const Tensor y = einsum(plan, tensors(n, in, DType::f64), algebra);
        CHECK(values(y) == naive(plan, in, definition(algebra)));
        if (y.numel() > 0 && std::isfinite(values(y)[0])) {
          const Tensor whole = einsum(plan, tensors(n, in, DType::i32), algebra);
          CHECK(whole.dtype() == DType::i32);
          CHECK(values(whole) == values(y));
        }
      }
      const EinsumPlan plan = plan_of(n, Algebra::standard);
      {
        const auto in = draw(n, seed++, -7);
        const Tensor y = einsum(plan, tensors(n, in, DType::f64), Algebra::log_sum_exp);
        const auto want = naive(plan, in, definition(Algebra::log_sum_exp));
        for (size_t i = 0; i < want.size(); ++i)
          CHECK((values(y)[i] == want[i] || std::abs(values(y)[i] - want[i]) < 1e-13));
        CHECK(values(y).size() == want.size());
      }
      {
        auto in = draw(n, seed++, 0);
        for (auto& x : in)
          for (double& value : x) value = value > 4;
        const Tensor y = einsum(plan, tensors(n, in, DType::bool_), Algebra::boolean);
        CHECK(y.dtype() == DType::bool_);
        CHECK(values(y) == naive(plan, in, definition(Algebra::boolean)));
      }
      for (const DType dtype : {DType::i32, DType::i64}) {
        const auto in = draw(n, seed++, -7);
        const Tensor y = einsum(plan, tensors(n, in, dtype), modulo(5));
        CHECK(y.dtype() == dtype);
        auto want = naive(plan, in, definition(Algebra::standard));
        for (double& x : want) x -= 5 * std::floor(x / 5);
        CHECK(values(y) == want);
      }
    }
  });
}

TEST_CASE("algebras: contract() takes them as einsum() does") {
  const Tensor a = f64({1, 2, 3, 4}, {2, 2}), b = f64({0.5, 2}, {2});
  CHECK(values(contract(a, {0, 1}, b, {1}, {0}, Algebra::min_times)) ==
        std::vector<double>{0.5, 1.5});
  // Labels of one operand alone, a diagonal, 1 against n.
  CHECK(contract(a, {0, 1}, b, {2}, {}, Algebra::min_times).item() == 0.5);
  CHECK(close(values(contract(a, {0, 0}, b, {1}, {}, Algebra::log_sum_exp)),
              {std::log(std::exp(1) + std::exp(4)) + std::log(std::exp(0.5) + std::exp(2))}));
  CHECK(close(values(contract(a, {0, 1}, f64({7}, {1}), {1}, {0}, Algebra::log_sum_exp)),
              {7 + std::log(std::exp(1) + std::exp(2)), 7 + std::log(std::exp(3) + std::exp(4))}));
  CHECK(values(contract(i64({5, 6}, {2}), {0}, i64({5, -1}, {2}), {0}, {}, modulo(7))) ==
        std::vector<double>{5});
  CHECK(error_of([&] {
          contract(a, {0, 1}, b, {1}, {0}, Algebra::log_sum_exp, b);
        }) == "contract: a bias is added in the standard algebra, this one is log-sum-exp");
}

TEST_CASE("algebras: min-times chooses as it says, and its derivatives are exact") {
  on_each_device([] {
    // Where a negative factor turns min into max, all terms of the pair count.
    CHECK(einsum("i,j->", {f64({-3, 2}, {2}), f64({-5, 1}, {2})}, Algebra::min_times).item() ==
          -10);
    const Tensor a = leaf(f64({3, 2, 2, 5}, {2, 2})), b = leaf(f64({4, 6, 6, 1}, {2, 2}));
    const Tensor y = einsum("ij,jk->ik", {a, b}, Algebra::min_times);
    CHECK(values(y) == std::vector<double>{12, 2, 8, 5});
    const Tensors g = grad({y}, {a, b}, {f64({1, 10, 100, 1000}, {2, 2})});
    CHECK(values(g[0]) == std::vector<double>{4, 10, 400, 1000});
    CHECK(values(g[1]) == std::vector<double>{203, 0, 0, 5020});
    // A tie goes to the first, the zero to none.
    const Tensor x = leaf(f64({2, 1, 1}, {3})), z = leaf(f64({kInf, kInf}, {2}));
    CHECK(values(grad({einsum("i->", {x}, Algebra::min_times)}, {x})[0]) ==
          std::vector<double>{0, 1, 0});
    CHECK(values(grad({einsum("i->", {z}, Algebra::min_times)}, {z})[0]) ==
          std::vector<double>{0, 0});
  });
}

namespace {

// log SUM_k exp(a_k + b_k) and its weights, in long double.
struct Sum {
  long double value;
  std::vector<double> weights;
};
Sum log_sum(const std::vector<double>& a, const std::vector<double>& b) {
  long double most = -kInf, sum = 0;
  for (size_t k = 0; k < a.size(); ++k) most = std::max(most, (long double)(a[k]) + b[k]);
  for (size_t k = 0; k < a.size(); ++k) sum += std::exp((long double)(a[k]) + b[k] - most);
  Sum s{most + std::log(sum), {}};
  for (size_t k = 0; k < a.size(); ++k)
    s.weights.push_back(double(std::exp((long double)(a[k]) + b[k] - s.value)));
  return s;
}
// Exponents as far apart as `spread`, the maxima of rows and columns nowhere together.
double exponent(int64_t i, int64_t k, int64_t n, double spread) {
  const double far = std::abs(double((k * 7 + i * 3) % n) / double(n) - 0.5);
  return spread * (i % 2 ? far : -far) + std::sin(double(i * 31 + k));
}

// "ik,kj->ij" against long double, element by element, and the gradient of one element.
void check_log_sum_exp(int64_t n, int64_t terms, double spread, DType dtype) {
  std::vector<double> a, b;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < terms; ++k) a.push_back(exponent(i, k, terms, spread));
  for (int64_t k = 0; k < terms; ++k)
    for (int64_t j = 0; j < n; ++j) b.push_back(exponent(j + 1, k, terms, spread));
  const Tensor x = leaf(cast(Tensor::from(a, {n, terms}), dtype)),
               y = leaf(cast(Tensor::from(b, {terms, n}), dtype));
  a = values(x);
  b = values(y);
  const Tensor c = einsum("ik,kj->ij", {x, y}, Algebra::log_sum_exp);
  CHECK(c.dtype() == dtype);
  const double unit = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
  const auto got = values(c);
  const auto element = [&](int64_t i, int64_t j) {
    std::vector<double> column, row(a.begin() + i * terms, a.begin() + (i + 1) * terms);
    for (int64_t k = 0; k < terms; ++k) column.push_back(b[size_t(k * n + j)]);
    return log_sum(row, column);
  };
  double worst = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      worst = std::max(worst, std::abs(double(got[size_t(i * n + j)] - element(i, j).value)));
  // Of numbers of this size: that is how far apart they lie.
  CHECK(worst <= unit * (2 * spread + 64));
  const int64_t i = n / 2, j = n - 1;
  std::vector<double> only(size_t(n * n), 0);
  only[size_t(i * n + j)] = 1;
  const Tensors g = grad({c}, {x, y}, {cast(Tensor::from(only, {n, n}), dtype)});
  const Sum want = element(i, j);
  const auto ga = values(g[0]), gb = values(g[1]);
  double wrong = 0, elsewhere = 0;
  for (int64_t k = 0; k < terms; ++k) {
    wrong = std::max(wrong, std::abs(ga[size_t(i * terms + k)] - want.weights[size_t(k)]));
    wrong = std::max(wrong, std::abs(gb[size_t(k * n + j)] - want.weights[size_t(k)]));
    elsewhere = std::max(elsewhere, std::abs(ga[size_t((i + 1) % n * terms + k)]));
  }
  CHECK(wrong <= unit * (4 * spread + 64));
  CHECK(elsewhere == 0);
}

}  // namespace

TEST_CASE("log-sum-exp: exact where maxima lie apart by 10^4, and its gradient is the weights") {
  on_each_device([] {
    for (const DType dtype : {DType::f64, DType::f32})
      for (const double spread : {0.0, 30.0, 1e4}) {
        CAPTURE(spread);
        check_log_sum_exp(3, 50, spread, dtype);
      }
  });
}

TEST_CASE("log-sum-exp: more terms than stand in memory at once, in both ways of summing") {
  for (const double spread : {0.0, 1e4}) {
    CAPTURE(spread);
    check_log_sum_exp(24, 4000, spread, DType::f64);
    check_log_sum_exp(24, 4000, spread, DType::f32);
  }
  // Many elements, few terms: the output is cut, too.
  const int64_t n = 1200;
  const Tensor a = leaf(mul(cast(arange(0, n), DType::f64), 1e3)), b = leaf(neg(a.detach()));
  const Tensor c = einsum("i,j->ij", {a, b}, Algebra::log_sum_exp);
  CHECK(select(select(c, 0, 7), 0, 3).item() == 4000);
  const Tensors g = grad({sum(c)}, {a, b});
  CHECK(values(g[0]) == std::vector<double>(size_t(n), double(n)));
  CHECK(values(g[1]) == std::vector<double>(size_t(n), double(n)));
}

TEST_CASE("log-sum-exp: -inf is its zero, and has no share in a gradient") {
  on_each_device([] {
    const Tensor a = leaf(f64({-kInf, -kInf, 1, -kInf}, {2, 2})), b = leaf(f64({2, 3}, {2}));
    const Tensor y = einsum("ij,j->i", {a, b}, Algebra::log_sum_exp);
    CHECK(values(y) == std::vector<double>{-kInf, 3});
    const Tensors g = grad({y}, {a, b}, {f64({1, 1}, {2})}, {.create_graph = true});
    CHECK(values(g[0]) == std::vector<double>{0, 0, 1, 0});
    CHECK(values(g[1]) == std::vector<double>{1, 0});
    // Nothing overflows, in 16 bits neither.
    CHECK(einsum("i,i->", {f64({1e308}, {1}), f64({-1e308}, {1})}, Algebra::log_sum_exp).item() ==
          0);
    const Tensor half = cast(f64({-600, -600}, {2}), DType::f16);
    CHECK(values(einsum("i->", {half}, Algebra::log_sum_exp)) ==
          values(cast(f64({-600 + std::log(2.0)}, {}), DType::f16)));
  });
}

TEST_CASE("log-sum-exp: at temperature 0 it is max-plus, value and gradient") {
  const Network n{"ij,jk,kl->il", {{3, 4}, {4, 5}, {5, 3}}};
  auto in = draw(n, 5, -7);
  for (auto& x : in)
    for (size_t i = 0; i < x.size(); ++i) x[i] += std::sin(double(i) * 1.7 + double(x.size()));
  const double t = 1e-3;
  Tensors hot = tensors(n, in, DType::f64), cold;
  for (Tensor& x : hot) {
    x.set_requires_grad();
    cold.push_back(div(x, t));
  }
  const Tensor y = mul(einsum(n.equation, cold, Algebra::log_sum_exp), t),
               z = einsum(n.equation, hot, Algebra::max_plus);
  CHECK(close(values(y), values(z), t * std::log(20.0)));
  const Tensors gy = grad({sum(y)}, hot), gz = grad({sum(z)}, hot);
  for (size_t k = 0; k < hot.size(); ++k) CHECK(close(values(gy[k]), values(gz[k]), 1e-6));
}

TEST_CASE("boolean: powers of a graph's matrix say what can be reached") {
  on_each_device([] {
    const int64_t n = 12;
    std::vector<std::vector<bool>> reach(12, std::vector<bool>(12));
    std::vector<double> edges(size_t(n * n));
    for (int64_t i = 0; i < n; ++i)
      for (const int64_t j : {(i * 5 + 2) % n, i / 2}) {
        edges[size_t(i * n + j)] = 1;
        reach[size_t(i)][size_t(j)] = true;
      }
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          if (reach[size_t(i)][size_t(k)] && reach[size_t(k)][size_t(j)])
            reach[size_t(i)][size_t(j)] = true;
    const Tensor edge = cast(Tensor::from(edges, {n, n}), DType::bool_);
    Tensor walks = edge;
    for (int64_t length = 1; length < n; ++length)
      walks = logical_or(edge, einsum("ij,jk->ik", {walks, edge}, Algebra::boolean));
    std::vector<double> want;
    for (const auto& row : reach) want.insert(want.end(), row.begin(), row.end());
    CHECK(values(walks) == want);
  });
}

TEST_CASE("mod P: no sum overflows, whatever the modulus and its length") {
  on_each_device([] {
    const int64_t n = 70000;
    std::vector<int64_t> a, b;
    for (int64_t i = 0; i < n; ++i) {
      a.push_back(INT32_MAX - 1 - i % 3);
      b.push_back(i % 2 ? -1 - i % 5 : INT64_MAX - i);
    }
    const Tensor x = Tensor::from(a, {n}), y = Tensor::from(b, {n});
    for (const int64_t p : {int64_t(2), int64_t(65537), int64_t(INT32_MAX)}) {
      CAPTURE(p);
      __extension__ typedef __int128 Wide;
      Wide sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += Wide(a[i]) * b[i];
      const int64_t want = int64_t((sum % p + p) % p);
      CHECK(einsum("i,i->", {x, y}, modulo(p)).item_as<int64_t>() == want);
      CHECK(einsum("i,i,->", {x, y, Tensor(int64_t(1))}, parse_algebra(join("mod ", p)))
                .item_as<int64_t>() == want);
    }
    CHECK(einsum("i->", {i64({-1, -1}, {2})}, modulo(7)).item_as<int64_t>() == 5);
    const Tensor most = Tensor::full({3}, double(INT32_MAX), DType::i32);
    CHECK(einsum("i,i->", {most, most}, modulo(1000)).item_as<int32_t>() == 827);
  });
}

TEST_CASE("a user's algebra: two functions, known by name") {
  static const Algebra widest =
      add_algebra({"bottleneck", [](double x, double y) { return std::max(x, y); },
                   [](double x, double y) { return std::min(x, y); }, -kInf, kInf});
  CHECK(parse_algebra("bottleneck") == widest);
  CHECK(algebra_words().find("bottleneck or mod P") != std::string::npos);
  Definition d{-kInf, kInf, [](double x, double y) { return std::max(x, y); },
               [](double x, double y) { return std::min(x, y); }};
  on_each_device([&] {
    unsigned seed = 50;
    for (const Network& n : networks()) {
      const std::string equation = n.equation;
      CAPTURE(equation);
      const auto in = draw(n, seed++, -7);
      const EinsumPlan plan = plan_of(n, widest);
      CHECK(values(einsum(plan, tensors(n, in, DType::f64), widest)) == naive(plan, in, d));
    }
    const Tensor a = f32({1, 5, 3, 2}, {2, 2}), b = transpose(f32({4, 9, 0, 6}, {2, 2}), 0, 1);
    CHECK(values(contract(a, {0, 1}, b, {1, 2}, {0, 2}, widest)) ==
          std::vector<double>{5, 5, 3, 2});
    CHECK(contract(a, {0, 1}, b, {2, 3}, {}, widest).item() == 5);
    const Tensor y = get_op("einsum").call(Tensors{a, b}, {"ij,jk->ik", "bottleneck"})[0];
    CHECK(y.dtype() == DType::f32);
    CHECK(values(y) == std::vector<double>{5, 5, 3, 2});
  });
  CHECK(error_of([&] { einsum("i->", {leaf(f64({1}, {1}))}, widest); }) ==
        "einsum: bottleneck has no derivative, and operand 0 requires a gradient; detach() it");
  CHECK(error_of([&] { einsum("i->", {i64({1}, {1})}, widest); }) ==
        "einsum: is not defined for i64 (bottleneck of \"i->\" runs in f64); it takes real numbers "
        "and i32; cast to f64 first");
  const auto sum = [](double x, double y) { return x + y; };
  CHECK(error_of([&] {
          add_algebra({"bottleneck", sum, sum, 0, 0});
        }) == "add_algebra: an algebra named \"bottleneck\" is there already");
  CHECK(error_of([&] {
          add_algebra({"mod 7", sum, sum, 0, 0});
        }) == "add_algebra: needs a name that does not begin with \"mod \", a sum and a product");
  CHECK(error_of([&] {
          add_algebra({"wrong", sum, sum, 0, 1});
        }) == "add_algebra: wrong: product(1, 0) is 1, expected 0");
}

TEST_CASE("algebras: refusals say what to do") {
  const Tensor a = f32({1, 2}, {2}), whole = i64({1, 2}, {2});
  const auto refusal = [&](const Tensor& x, Algebra algebra) {
    return error_of([&] { einsum("i->", {x}, algebra); });
  };
  CHECK(refusal(a, Algebra::boolean) ==
        "einsum: is not defined for f32 (boolean of \"i->\"); it takes bool; compare them with 0 "
        "first, as ne(x, 0)");
  CHECK(refusal(leaf(f32({1}, {1})), Algebra::boolean) ==
        "einsum: boolean has no derivative, and operand 0 requires a gradient; detach() it");
  CHECK(refusal(a, modulo(7)) ==
        "einsum: is not defined for f32 (mod 7 of \"i->\"); it takes i32 and i64; cast to i64 "
        "first");
  CHECK(refusal(whole, Algebra::log_sum_exp) ==
        "einsum: is not defined for i64 (log-sum-exp of \"i->\"); it takes real numbers; cast to "
        "f32 first");
  CHECK(error_of([&] { contract(a, {0}, a, {0}, {}, modulo(2)); }) ==
        "contract: is not defined for f32 (mod 2); it takes i32 and i64; cast to i64 first");
  const std::string limits =
      ": mod P counts modulo a whole number P, 2 or more and below 2^31, as in \"mod 7\"";
  for (const char* name : {"mod 1", "mod -3", "mod x", "mod 7 ", "mod 2147483648", "mod "})
    CHECK(error_of([&] { parse_algebra(name); }) == join("einsum: algebra \"", name, "\"", limits));
  CHECK(error_of([&] { parse_algebra("boolaen"); }).find("did you mean \"boolean\"?") !=
        std::string::npos);
  CHECK(error_of([] { modulo(1); }) == "modulo: a modulus is 2 or more and below 2^31, got 1");
  CHECK(is_algebra(int32_t(modulo(INT32_MAX))));
  CHECK_FALSE(is_algebra(-1));
  CHECK_FALSE(is_algebra(int32_t(Algebra::boolean) + 1));
}

TEST_CASE("einsum_winners: the indices give the value again, and the first of equals") {
  on_each_device([] {
    unsigned seed = 90;
    for (const Network& n : networks())
      for (const Algebra algebra : kTropical) {
        const std::string equation = n.equation;
        CAPTURE(equation);
        INFO(algebra_name(algebra));
        const Definition d = definition(algebra);
        const auto in = draw(n, seed++, sums_alone(algebra) ? -7 : 1);
        const EinsumPlan plan = plan_of(n, algebra);
        const EinsumWinners w = einsum_winners(n.equation, tensors(n, in, DType::f64), algebra);
        CHECK(values(w.value) == naive(plan, in, d));
        Shape sizes = w.value.sizes();
        sizes.push_back(int64_t(w.labels.size()));
        CHECK(w.winners.sizes() == sizes);
        const auto won = w.winners.to_vector<int64_t>();
        const auto value = values(w.value);
        size_t found = 0;
        for_each_term(plan, in, d, [&](size_t place, const Assignment& at, double term) {
          for (size_t i = 0; i < w.labels.size(); ++i)
            if (at.at(w.labels[i]) != won[place * w.labels.size() + i]) return;
          ++found;
          CHECK(term == value[place]);
        });
        bool empty = value.empty();
        for (const auto& size : plan.sizes) empty = empty || size.second == 0;
        CHECK(found == (empty ? 0 : value.size()));
        if (empty) CHECK(won == std::vector<int64_t>(won.size(), -1));
      }
    const EinsumWinners ties = einsum_winners(
        "ij,jk->ik", {f64({1, 3, 2, 0, 0, 0}, {2, 3}), f64({4, 2, 3}, {3, 1})}, Algebra::max_plus);
    CHECK(ties.winners.to_vector<int64_t>() == std::vector<int64_t>{0, 0});
    CHECK(ties.labels == Labels{'j'});
    // Where nothing wins, all indices say so.
    const EinsumWinners none = einsum_winners(
        "ij,jk->i", {f64({-kInf, -kInf, 1, 2}, {2, 2}), f64({0, 5}, {2, 1})}, Algebra::max_plus);
    CHECK(none.winners.to_vector<int64_t>() == std::vector<int64_t>{-1, -1, 1, 0});
  });
  CHECK(
      error_of([] { einsum_winners("i->", {f64({1}, {1})}, Algebra::log_sum_exp); }) ==
      "einsum_winners: log-sum-exp chooses no winner; max-plus, min-plus, max-times and min-times "
      "do");
}

TEST_CASE("algebras: where a negative number turns max into min, a network of steps refuses it") {
  // In two steps it would be 4; of all terms together it is 6.
  const Tensor p = f64({-1, 2}, {1, 2}), q = f64({3, -4, 1, -5}, {2, 2}), r = f64({-2, 1}, {2, 1});
  const Tensors all{p, q, r};
  for (const Algebra algebra : {Algebra::max_times, Algebra::min_times}) {
    const std::string name = algebra_name(algebra);
    check_has(error_of([&] { einsum("ij,jk,kl->il", all, algebra); }),
              "einsum: " + name +
                  " of more than two operands takes no negative numbers (operand 0 has -1)");
    const auto mapped = func::vmap(
        [&](const Tensors& in) {
          return Tensors{einsum("ij,jk,kl->il", {p, in[0], r}, algebra)};
        },
        {0});
    check_has(error_of([&] { mapped({stack({q, q}, 0)}); }), "operand 0 has -1");
    const Tensor unknown = f64({-1, std::nan("")}, {1, 2});
    check_has(error_of([&] {
                einsum("ij,jk,kl->il", {unknown, q, r}, algebra);
              }),
              "operand 0 has -1");
  }
  CHECK(values(einsum("ij,jk->ik", {p, q}, Algebra::max_times)) == std::vector<double>{2, 4});
  CHECK(values(einsum("i,j,k->ijk", {reshape(p, {2}), reshape(r, {2}), reshape(p, {2})},
                      Algebra::max_times))[0] == -2);  // nothing is chosen
  CHECK(values(einsum("ij,jk,kl->il", {abs(p), abs(q), abs(r)}, Algebra::max_times)) ==
        std::vector<double>{10});
}
