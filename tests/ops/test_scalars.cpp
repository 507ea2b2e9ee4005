// Users' number types as dtypes: integers modulo a prime and exact fractions through pointwise ops,
// views, reductions, contractions and indexing, with gradients; equality is ==, never near.
#include "kernels/reference/exact.hpp"
#include "engine/forward.hpp"
#include "engine/kernel_call.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/check/exact.hpp"
#include "tests/helpers/helpers.hpp"

#include <doctest/doctest.h>

using namespace gradus;
using gradus::testing::error_of;
using gradus::testing::i64;

namespace {

using Mod = ModInt<2147483647>;

// A type with + and * alone, larger than 16 bytes: pairs that add and multiply part by part.
struct Pair {
  int64_t a = 0, b = 0, c = 0;
  Pair() = default;
  explicit Pair(int64_t n) : a(n), b(n), c(n) {}
  friend Pair operator+(Pair x, Pair y) { return make(x.a + y.a, x.b + y.b, x.c + y.c); }
  friend Pair operator*(Pair x, Pair y) { return make(x.a * y.a, x.b * y.b, x.c * y.c); }
  static Pair make(int64_t a, int64_t b, int64_t c) {
    Pair p;
    p.a = a;
    p.b = b;
    p.c = c;
    return p;
  }
};
std::string pair_text(const void* element) {
  const Pair& p = *static_cast<const Pair*>(element);
  return join("<", p.a, " ", p.b, " ", p.c, ">");
}

struct Types {
  DType mod, rational, pair;
};
const Types& types() {
  static const Types all{register_scalar<Mod>("test_mod"), register_scalar<Rational>("test_q"),
                         register_scalar<Pair>("test_pair", pair_text)};
  return all;
}
Device& ref() { return open_device("reference"); }
Tensor fractions(std::initializer_list<Rational> v, const Shape& sizes) {
  return Tensor::from(std::vector<Rational>(v), sizes, ref());
}
std::vector<int64_t> parts(const Tensor& t) {
  std::vector<int64_t> out;
  for (const Rational& q : t.to_vector<Rational>()) {
    out.push_back(q.num);
    out.push_back(q.den);
  }
  return out;
}

}  // namespace

TEST_CASE("scalars: dtype code, size, name, values in and out, printing") {
  const DType q = types().rational;
  CHECK(int32_t(q) >= GD_USER_DTYPE);
  CHECK(itemsize(q) == 16);
  CHECK(itemsize(types().pair) == 24);
  CHECK(std::string(dtype_name(q)) == "test_q");
  CHECK(dtype_of<Rational> == q);
  CHECK(register_scalar<Rational>("again") == q);
  CHECK(is_differentiable(q));
  CHECK_FALSE(is_floating(q));
  const Tensor x = fractions({{1, 2}, {-3, 4}, {6, 3}}, {3});
  CHECK(x.to_string() == "[ 1/2, -3/4,    2]");
  CHECK(x.bytes() == 48);
  CHECK(select(x, 0, 1).item_as<Rational>() == Rational(-3, 4));
  CHECK(parts(Tensor::full({2}, 7.0, q, ref())) == std::vector<int64_t>{7, 1, 7, 1});
  CHECK(parts(Tensor::zeros({1}, q, ref())) == std::vector<int64_t>{0, 1});
  CHECK(error_of([&] { x.to_vector<double>(); }) ==
        "to_vector: the tensor is test_q, asked for f64");
  CHECK(error_of([&] { select(x, 0, 0).item(); }).find("use item_as<T>()") != std::string::npos);
  CHECK(parts(cast(Tensor::from(std::vector<int64_t>{-5}, {1}, ref()), q)) ==
        std::vector<int64_t>{-5, 1});
}

TEST_CASE("scalars: arithmetic, views, reductions, scans, indexing, contractions") {
  types();
  const DeviceScope here(ref());
  const Tensor x = fractions({{1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}}, {2, 3});
  CHECK(parts(select(sub(mul(x, x), div(x, 2)), 1, 0)) == std::vector<int64_t>{0, 1, -3, 50});
  CHECK(parts(sum(x, {1})) == std::vector<int64_t>{13, 12, 107, 210});
  CHECK(parts(prod(x, {0})) == std::vector<int64_t>{1, 10, 1, 18, 1, 28});
  CHECK(parts(cumsum(select(x, 0, 0), 0)) == std::vector<int64_t>{1, 2, 5, 6, 13, 12});
  CHECK(parts(select(flip(transpose(x, 0, 1), {0}), 1, 1)) ==
        std::vector<int64_t>{1, 7, 1, 6, 1, 5});
  const Tensor gram = matmul(x, transpose(x, 0, 1));
  CHECK(gram.to_vector<Rational>()[1] == Rational(1, 10) + Rational(1, 18) + Rational(1, 28));
  CHECK(parts(sub(gram, einsum("ij,kj->ik", {x, x}))) ==
        std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 1});
  const Tensor at = i64({2, 0, 0}, {1, 3});
  CHECK(parts(gather(x, 0, i64({1, 0, 1}, {1, 3}))) == std::vector<int64_t>{1, 5, 1, 3, 1, 7});
  CHECK(parts(select(scatter_add(x, 1, at, slice(x, 0, 1, 2)), 0, 0)) ==
        std::vector<int64_t>{17, 21, 1, 3, 9, 20});
  CHECK(lt(x, 1).dtype() == DType::bool_);
  CHECK(parts(where(lt(x, div(Tensor::full({}, 1.0, types().rational), 4)), 0, x)) ==
        std::vector<int64_t>{1, 2, 1, 3, 1, 4, 0, 1, 0, 1, 0, 1});
}

TEST_CASE("scalars: a type with + and * alone, of 24 bytes, has what these make") {
  types();
  const DeviceScope here(ref());
  std::vector<Pair> v;
  for (int64_t i = 0; i < 600; ++i) v.push_back(Pair::make(i, 2 * i, 1));
  const Tensor x = Tensor::from(v, {300, 2});
  const std::vector<Pair> y = contiguous(transpose(x, 0, 1)).to_vector<Pair>();
  CHECK(y[299].a == 598);
  CHECK(y[300].b == 2);
  CHECK(sum(x).item_as<Pair>().a == 179700);
  CHECK(sum(add(x, mul(x, x))).item_as<Pair>().c == 1200);
  CHECK(matmul(transpose(x, 0, 1), x).to_vector<Pair>()[3].c == 300);
  CHECK(slice(x, 0, 0, 1).to_string() == "[[<0 0 1>, <1 2 1>]]");
  CHECK(error_of([&] { sub(x, x); }).find("dtype test_pair has no difference a - b") !=
        std::string::npos);
  CHECK(error_of([&] { lt(x, x); }).find("test_pair has no order a < b") != std::string::npos);
  // d sum(x * x) needs no difference: 2 x
  Tensor leaf = slice(x, 0, 2, 3).detach();
  leaf.set_requires_grad();
  CHECK(grad({sum(mul(leaf, leaf))}, {leaf})[0].to_vector<Pair>()[1].b == 20);
}

TEST_CASE("scalars: what a type has not is refused by name, and types do not mix") {
  types();
  const DeviceScope here(ref());
  const Tensor x = fractions({{1, 2}, {1, 3}}, {2});
  CHECK(error_of([&] { exp(x); }).find("dtype test_q has no function exp") != std::string::npos);
  CHECK(error_of([&] { add(x, 0.5); }).find("test_q has no number 0.5: it is not whole") !=
        std::string::npos);
  CHECK(error_of([&] {
          add(x, testing::f64({1, 2}, {2}));
        }).find("dtypes f64 and test_q do not mix") != std::string::npos);
  CHECK(error_of([&] { cast(x, DType::f64); }).find("there is no cast from test_q to f64") !=
        std::string::npos);
  CHECK(error_of([&] { amax(x, {0}); }).find("test_q has sums and products alone") !=
        std::string::npos);
  CHECK(error_of([&] { argsort(x, 0); }).find("numbers of dtype test_q have no order") !=
        std::string::npos);
  CHECK(error_of([&] { div(x, 0); }).find("division by 0") != std::string::npos);
  const Tensor on_cpu = Tensor::from(std::vector<Rational>{{1, 2}}, {1}, open_device("cpu"));
  CHECK(error_of([&] { add(on_cpu, on_cpu); }) ==
        "add: dtype test_q has kernels on device reference alone, the operands are on cpu");
}

TEST_CASE(
    "scalars: the Jacobian by vjp is the transpose of the one by jvp, and the Hessian symmetric") {
  types();
  const DeviceScope here(ref());
  const auto unit = [](int64_t n, int64_t k) {
    std::vector<Mod> e(size_t(n), Mod(0));
    e[size_t(k)] = Mod(1);
    return e;
  };
  std::vector<Mod> start;
  for (int64_t i = 0; i < 6; ++i) start.push_back(Mod(123456789 * (i + 1)));
  // f(x) = x x^T x with one row scaled by a product: cubic and more, with six inputs and outputs
  const auto f = [](const Tensor& x) {
    const Tensor y = einsum("ij,kj,kl->il", {x, x, x});
    return reshape(mul(y, prod(x, {0}, true)), {6});
  };
  std::vector<std::vector<Mod>> by_vjp, by_jvp;
  for (int64_t k = 0; k < 6; ++k) {
    Tensor x = Tensor::from(start, {2, 3});
    x.set_requires_grad();
    by_vjp.push_back(grad({f(x)}, {x}, {Tensor::from(unit(6, k), {6})})[0].to_vector<Mod>());
    ForwardLevel level;
    const Tensor p = Tensor::from(start, {2, 3});
    level.set_tangent(p, Tensor::from(unit(6, k), {2, 3}));
    by_jvp.push_back(f(p).tangent().to_vector<Mod>());
  }
  bool all_zero = true;
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 6; ++j) {
      CHECK(by_vjp[i][j] == by_jvp[j][i]);
      all_zero &= by_vjp[i][j] == Mod(0);
    }
  CHECK_FALSE(all_zero);

  std::vector<std::vector<Mod>> hessian;
  for (int64_t k = 0; k < 6; ++k) {
    Tensor x = Tensor::from(start, {2, 3});
    x.set_requires_grad();
    const Tensor g = grad({sum(f(x))}, {x}, {}, {.create_graph = true})[0];
    hessian.push_back(
        grad({sum(mul(g, Tensor::from(unit(6, k), {2, 3})))}, {x})[0].to_vector<Mod>());
  }
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < i; ++j) CHECK(hessian[i][j] == hessian[j][i]);
  CHECK_FALSE(hessian[0][1] == Mod(0));
}

TEST_CASE("scalars: polynomial ops are proven exactly; a wrong derivative is found") {
  using Verdict = rows::ExactResult::Verdict;
  for (const char* name :
       {"add",      "sub",       "mul",         "neg",     "square", "sum",    "prod",
        "cumsum",   "matmul",    "bmm",         "dot",     "outer",  "einsum", "cat",
        "stack",    "gather",    "scatter_add", "permute", "slice",  "expand", "reshape",
        "diagonal", "embedding", "where",       "pad"}) {
    const OpInfo& op = get_op(name);
    for (const auto& field :
         {std::pair{types().mod, int64_t(1)}, std::pair{types().rational, int64_t(2)}}) {
      const rows::ExactResult r = rows::check_exact(op, field.first, ref(), field.second);
      CHECK_MESSAGE(r.verdict == Verdict::proven, name, " in ", dtype_name(field.first), ": ",
                    r.words);
    }
  }
  for (const char* name : {"exp", "relu", "uniform", "softmax"})
    CHECK(rows::check_exact(get_op(name), types().mod, ref()).verdict == Verdict::not_read);
  // some cases of dropout draw a mask, which no user's type has; the others drop nothing
  const rows::ExactResult dropout = rows::check_exact(get_op("dropout"), types().mod, ref());
  CHECK(dropout.refused > 0);
  CHECK(dropout.verdict == Verdict::proven);
  OpInfo wrong = get_op("square");
  static const OpInfo* const square_op = &get_op("square");
  static OpInfo kept = wrong;
  kept.vjp = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    return mul(square_op->vjp(node, k, g), 2);
  };
  kept.call = [](Operands in, const Attrs& attrs) {
    const Outputs y = apply(kept, in, attrs);
    return Tensors(y.begin(), y.end());
  };
  CHECK(rows::check_exact(kept, types().mod, ref()).verdict == Verdict::wrong);
  CHECK(rows::check_exact(kept, types().rational, ref(), 2).verdict == Verdict::wrong);
}

TEST_CASE("scalars: work on blocks of whole buffers") {
  types();
  const Tensor x = fractions({{1, 2}, {1, 3}, {-3, 4}, {2, 1}}, {4}),
               y = fractions({{9, 1}, {9, 1}, {9, 1}, {9, 1}}, {4});
  const auto run = [&](gd_grouped op, std::initializer_list<int64_t> ints) {
    KernelCall call(GD_GROUPED, op);
    call.in(x);
    if (op == GD_BLOCK_PRODUCTS) call.in(x);
    call.out(y);
    for (const int64_t i : ints) call.integer(i);
    call.run();
    return parts(y);
  };
  // The first two beside each other, turned; the third with its sign changed; a zero.
  CHECK(run(GD_BLOCK_COPIES,
            {0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, -1, 2, 2, 1, 1, 1, 0, 0, 3, 1, 1, 1}) ==
        std::vector<int64_t>{1, 3, 1, 2, 3, 4, 0, 1});
  // All four are taken from the second.
  CHECK(run(GD_BLOCK_COPIES, {1, 1, -1, 0, 1, 4, 1, 0}) ==
        std::vector<int64_t>{1, 3, -19, 12, 3, 4, 0, 1});
  // x0 x2 + x1 x3, less x0 x0.
  CHECK(run(GD_BLOCK_PRODUCTS, {0, 0, 1,  1, 1, 1, 1, 2, 0, 0, 0, 1, 2, 0, 1, 0, 3, 0, 0,
                                0, 0, -1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0}) ==
        std::vector<int64_t>{1, 3, -19, 12, 3, 4, 1, 24});
}
