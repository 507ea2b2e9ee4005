// Functional transforms: values against formulas done by hand, nesting, strict, and every refusal.
#include "engine/device/device.hpp"
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/texts.hpp"

using namespace gradus;
using namespace gradus::testing;
using func::Function;
using gradus::test::check_has;

namespace {
const Function cubes = [](const Tensors& in) { return Tensors{sum(in[0] * in[0] * in[0])}; };
const Function products = [](const Tensors& in) { return Tensors{sum(in[0] * in[0] * in[1])}; };
}  // namespace

TEST_CASE("func: grad and value_and_grad, with argnums") {
  const Tensor x = f64({1, 2}, {2}), y = f64({3, 5}, {2});
  const auto r = func::value_and_grad(products, {x, y}, {.argnums = {1, 0}});
  CHECK(r.value.item() == 23);
  CHECK(values(r.grads[0]) == std::vector<double>{1, 4});
  CHECK(values(r.grads[1]) == std::vector<double>{6, 20});
  CHECK(values(func::grad(products, {x, y})[0]) == std::vector<double>{6, 20});
  CHECK_FALSE(r.value.requires_grad());
  CHECK_FALSE(r.grads[0].requires_grad());
  CHECK_FALSE(x.requires_grad());
  // An integer input is passed on, not differentiated.
  const Function pick = [](const Tensors& in) { return Tensors{sum(gather(in[0], 0, in[1]))}; };
  CHECK(values(func::grad(pick, {x, i64({1, 1}, {2})})[0]) == std::vector<double>{0, 2});
  check_has(error_of([&] {
              func::grad(pick, {x, i64({1}, {1})}, {.argnums = {1}});
            }),
            "input 1 is i64");
  check_has(error_of([&] { func::grad(pick, {x}, {.argnums = {1}}); }),
            "argnum 1 of a function of 1 inputs");
  check_has(error_of([&] {
              func::grad(products, {x, y}, {.argnums = {0, -2}});
            }),
            "argnum -2 is given twice");
  check_has(error_of([&] { func::grad(cubes, {Tensor(1.0)}); }), "input 0 is a number");
  check_has(error_of([&] { func::grad(cubes, {}); }), "got no inputs");
  check_has(error_of([&] { func::grad([](const Tensors& in) { return in; }, {x}); }),
            "must give one tensor of one real number, it gave f64 (2,)");
}

TEST_CASE("func: a captured tensor and an input are told apart; zeros, and strict") {
  const Tensor x = f64({1, 2}, {2});
  const Function f = [&](const Tensors& in) { return Tensors{sum(in[0] * x)}; };
  CHECK(values(func::grad(f, {x})[0]) == std::vector<double>{1, 2});
  const Function constant = [&](const Tensors&) { return Tensors{sum(x)}; };
  CHECK(values(func::grad(constant, {x})[0]) == std::vector<double>{0, 0});
  check_has(error_of([&] { func::grad(constant, {x}, {.strict = true}); }),
            "does not depend on any input");
  const Function first = [](const Tensors& in) { return Tensors{sum(in[0])}; };
  CHECK(values(func::vjp(first, {x, x}).pullback({})[1]) == std::vector<double>{0, 0});
  check_has(error_of([&] {
              func::vjp(first, {x, x}, {.strict = true}).pullback({});
            }),
            "does not depend on input 1 (2,)");
  check_has(error_of([&] { func::jvp(constant, {x}, {x}, {.strict = true}); }),
            "output 0 () does not depend on any input");
  CHECK(values(func::jvp(constant, {x}, {x}).tangents[0]) == std::vector<double>{0});
  check_has(error_of([&] {
              func::jacobian(first, {x, x}, {.strict = true});
            }),
            "does not depend on input 1");
  check_has(error_of([&] { func::hessian(first, {x}, {.strict = true}); }),
            "the gradient 0 (2,) does not depend on any input");
  check_has(error_of([&] { func::hvp(first, {x}, {x}, {.strict = true}); }),
            "the gradient does not depend on input 0");
  CHECK(values(func::hessian(first, {x})[0][0]) == std::vector<double>(4, 0));
}

TEST_CASE("func: derivatives go on to what is captured and requires a gradient") {
  const Tensor x = f64({3, 4}, {2}), one = f64({1, 1}, {2});
  const Tensor w = leaf(f64({1, 2}, {2})), scale = w * 1.0;
  const Function f = [&](const Tensors& in) { return Tensors{sum(scale * in[0] * in[0])}; };
  const auto slope_by_w = [&](const Tensor& y) {
    return values(grad({sum(y)}, {w}, {}, {.retain_graph = true})[0]);
  };
  CHECK(slope_by_w(func::grad(f, {x})[0]) == std::vector<double>{6, 8});
  CHECK(slope_by_w(func::value_and_grad(f, {x}).value) == std::vector<double>{9, 16});
  CHECK(slope_by_w(func::vjp(f, {x}).outputs[0]) == std::vector<double>{9, 16});
  CHECK(slope_by_w(func::vjp(f, {x}).pullback({})[0]) == std::vector<double>{6, 8});
  CHECK(slope_by_w(func::jvp(f, {x}, {one}).tangents[0]) == std::vector<double>{6, 8});
  CHECK(slope_by_w(func::jacobian(f, {x})[0][0]) == std::vector<double>{6, 8});
  CHECK(slope_by_w(func::hessian(f, {x})[0][0]) == std::vector<double>{2, 2});
  CHECK(slope_by_w(func::hvp(f, {x}, {one}).product[0]) == std::vector<double>{2, 2});
  CHECK(slope_by_w(func::vhp(f, {x}, {one}).product[0]) == std::vector<double>{2, 2});
  CHECK(slope_by_w(func::vhp(f, {x}, {one}).value) == std::vector<double>{9, 16});
  // Not where it is not on the way, nor where it is said or recording is off.
  const Function beside = [&](const Tensors& in) { return Tensors{sum(in[0] * in[0]) + sum(w)}; };
  CHECK_FALSE(func::grad(beside, {x})[0].requires_grad());
  const auto two = func::vjp(
      [&](const Tensors& in) {
        return Tensors{in[0] * in[0], w * 1.0};
      },
      {x});
  CHECK_FALSE(two.outputs[0].requires_grad());
  CHECK(two.outputs[1].requires_grad());
  CHECK_FALSE(func::grad(f, {x}, {.create_graph = false})[0].requires_grad());
  CHECK_FALSE(func::jvp(f, {x}, {one}, {.create_graph = false}).tangents[0].requires_grad());
  const NoGrad off;
  CHECK_FALSE(func::grad(f, {x})[0].requires_grad());
  CHECK_FALSE(func::jvp(f, {x}, {one}).tangents[0].requires_grad());
}

TEST_CASE("func: a jvp in a jvp") {
  const Tensor x = f64({0.5, 2}, {2}), one = f64({1, 1}, {2}), v = f64({3, -1}, {2});
  // f(a, b) = (a^3 b, 7, b): its third derivative along (1, 1) three times is d3/ds3 (a+s)^3 (b+s).
  const Function f = [](const Tensors& in) {
    const Tensor a = select(in[0], 0, 0), b = select(in[0], 0, 1);
    return Tensors{a * a * a * b, Tensor::full({}, 7.0, DType::f64), b, gt(a, b)};
  };
  const auto along = [](const Function& g, const Tensor& t) {
    return [g, t](const Tensors& in) { return func::jvp(g, in, {t}).tangents; };
  };
  const Function first = along(f, one), second = along(first, one), third = along(second, one);
  // a = 0.5, b = 2: 3 a^2 b + a^3; 6 a b + 6 a^2; 6 b + 18 a
  CHECK(first({x})[0].item() == 1.625);
  CHECK(second({x})[0].item() == 7.5);
  CHECK(third({x})[0].item() == 21);
  CHECK(second({x})[1].item() == 0);
  CHECK(second({x})[2].item() == 0);
  CHECK(first({x})[2].item() == 1);
  // Mixed directions, and both ways of each: d2f(u, v) = v . H u.
  const Function g = [&](const Tensors& in) { return Tensors{f(in)[0]}; };
  const double mixed = sum(func::hvp(g, {x}, {one}).product[0] * v).item();
  CHECK(along(along(g, one), v)({x})[0].item() == doctest::Approx(mixed));
  CHECK(along(along(g, v), one)({x})[0].item() == doctest::Approx(mixed));
  // Nothing has history where nobody asked for it; it goes on where x has some.
  CHECK_FALSE(second({x})[0].requires_grad());
  const Tensor leafed = leaf(f64({0.5, 2}, {2}));
  CHECK(values(grad({second({leafed})[0]}, {leafed})[0]) == std::vector<double>{18, 3});
  // hvp and Jacobians by columns are jvps too; vmap around and between.
  const Function h = [&](const Tensors& in) { return func::hvp(g, in, {one}).product; };
  CHECK(values(along(h, one)({x})[0]) == std::vector<double>{18, 3});
  const Function columns = [&](const Tensors& in) {
    return Tensors{func::jacobian(g, in, {.mode = func::Mode::forward})[0][0]};
  };
  const Tensor hessian = func::jacobian(columns, {x}, {.mode = func::Mode::forward})[0][0];
  CHECK(values(hessian) == std::vector<double>{6, 0.75, 0.75, 0});
  const Tensor many = stack(Tensors{x, x * 2.0}, 0);
  CHECK(func::vmap(second)({many})[0].to_vector<double>() == std::vector<double>{7.5, 30});
  const Function each = [&](const Tensors& in) { return func::vmap(along(g, one))(in); };
  const Tensor ones = stack(Tensors{one, one}, 0);
  CHECK(values(func::jvp(each, {many}, {ones}).tangents[0]) == std::vector<double>{7.5, 30});
  // Complex, and what does not fit.
  const Tensor z = Tensor::full({}, {0.5, 1}, DType::c128),
               i = Tensor::full({}, {0, 1}, DType::c128);
  const Function cube = [](const Tensors& in) { return Tensors{in[0] * in[0] * conj(in[0])}; };
  const auto once = [&](const Tensor& at) { return along(cube, i)({at})[0]; };
  const std::complex<double> change =
      (once(z + i * 1e-5) - once(z - i * 1e-5)).item_complex() / 2e-5;
  CHECK(std::abs(along(along(cube, i), i)({z})[0].item_complex() - change) < 1e-8);
  check_has(error_of([&] { along(along(f, f64({1}, {1})), one)({x}); }),
            "jvp: v[0] has shape (1,), input 0 has (2,)");
  check_has(error_of([&] {
              along(
                  [&](const Tensors& in) {
                    return func::jvp([&](const Tensors&) { return Tensors{x}; }, in, {one},
                                     {.strict = true})
                        .tangents;
                  },
                  one)({x});
            }),
            "strict: output 0 (2,) does not depend on any input");
}

TEST_CASE("func: vjp and jvp, and v that does not fit") {
  const Tensor x = f64({1, 2}, {2}), y = f64({3, 5}, {2});
  const Function f = [](const Tensors& in) { return Tensors{in[0] * in[1], sum(in[0])}; };
  const func::Vjp r = func::vjp(f, {x, y});
  CHECK(values(r.outputs[0]) == std::vector<double>{3, 10});
  CHECK_FALSE(r.outputs[0].requires_grad());
  for (int twice = 0; twice < 2; ++twice) {
    const Tensors g = r.pullback({f64({1, 10}, {2}), f64({100}, {})});
    CHECK(values(g[0]) == std::vector<double>{103, 150});
    CHECK(values(g[1]) == std::vector<double>{1, 20});
  }
  const func::Jvp p = func::jvp(f, {x, y}, {f64({1, 10}, {2}), f64({100, 1000}, {2})});
  CHECK(values(p.tangents[0]) == std::vector<double>{103, 2050});
  CHECK(values(p.tangents[1]) == std::vector<double>{11});
  check_has(error_of([&] { r.pullback({x}); }), "v has 1 tensors for 2 outputs");
  check_has(error_of([&] { r.pullback({}); }), "v can be left out only where");
  check_has(error_of([&] {
              r.pullback({f64({1}, {1}), f64({1}, {})});
            }),
            "v[0] has shape (1,), output 0 has (2,)");
  check_has(error_of([&] {
              r.pullback({f32({1, 1}, {2}), f64({1}, {})});
            }),
            "v[0] is f32, output 0 is f64");
  check_has(error_of([&] {
              func::jvp(f, {x, y}, {x, f64({1}, {1})});
            }),
            "v[1] has shape (1,), input 1 has (2,)");
}

TEST_CASE("func: hvp and vhp agree with the hessian; jacobian in both modes") {
  const Tensor x = f64({1, 2}, {2}), y = f64({3, 5}, {2}), v = f64({1, -1}, {2}),
               w = f64({2, 3}, {2});
  const func::Blocks h = func::hessian(products, {x, y});
  CHECK(values(h[0][0]) == std::vector<double>{6, 0, 0, 10});
  CHECK(values(h[0][1]) == std::vector<double>{2, 0, 0, 4});
  CHECK(values(h[1][0]) == std::vector<double>{2, 0, 0, 4});
  CHECK(values(h[1][1]) == std::vector<double>{0, 0, 0, 0});
  for (const auto& r : {func::hvp(products, {x, y}, {v, w}), func::vhp(products, {x, y}, {v, w})}) {
    CHECK(r.value.item() == 23);
    CHECK(values(r.product[0]) == std::vector<double>{10, 2});
    CHECK(values(r.product[1]) == std::vector<double>{2, -4});
  }
  const Function f = [](const Tensors& in) {
    return Tensors{matmul(in[0], in[1]), sum(in[1] * in[1])};
  };
  const Tensor a = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  func::Blocks first;
  for (const func::Mode mode : {func::Mode::automatic, func::Mode::forward, func::Mode::reverse})
    for (const bool vectorize : {true, false}) {
      const func::Blocks j = func::jacobian(f, {a, x}, {.vectorize = vectorize, .mode = mode});
      CHECK(j[0][1].sizes() == Shape{3, 2});
      CHECK(values(j[0][1]) == values(a));
      CHECK(j[0][0].sizes() == Shape{3, 3, 2});
      CHECK(values(select(select(j[0][0], 0, 1), 0, 1)) == std::vector<double>{1, 2});
      CHECK(values(sum(j[0][0])) == std::vector<double>{9});
      CHECK(values(j[1][0]) == std::vector<double>(6, 0));
      CHECK(values(j[1][1]) == std::vector<double>{2, 4});
    }
  for (const func::Mode mode : {func::Mode::forward, func::Mode::reverse})
    CHECK(values(func::hessian(products, {x, y}, {.mode = mode})[0][1]) ==
          std::vector<double>{2, 0, 0, 4});
  // Nothing in, nothing out.
  const Tensor none = Tensor::zeros({0}, DType::f64);
  const Function twice = [](const Tensors& in) { return Tensors{in[0] * 2.0}; };
  CHECK(func::jacobian(twice, {none})[0][0].sizes() == Shape{0, 0});
  CHECK(func::jacobian(twice, {none}, {.mode = func::Mode::forward})[0][0].sizes() == Shape{0, 0});
  check_has(error_of([&] {
              func::jacobian(f, {a, x}, {.strict = true, .mode = func::Mode::forward});
            }),
            "strict needs the graph");
}

TEST_CASE("func: complex Jacobians") {
  const Tensor z = Tensor::from(std::vector<c128>{{1, 2}, {3, -1}}, {2});
  const Function squares = [](const Tensors& in) { return Tensors{square(in[0])}; };
  for (const func::Mode mode : {func::Mode::forward, func::Mode::reverse}) {
    const Tensor j = func::jacobian(squares, {z}, {.holomorphic = true, .mode = mode})[0][0];
    CHECK(select(select(j, 0, 0), 0, 0).item_complex() == std::complex<double>(2, 4));
    CHECK(select(select(j, 0, 1), 0, 1).item_complex() == std::complex<double>(6, -2));
  }
  check_has(error_of([&] { func::jacobian(squares, {z}); }), "only where it is holomorphic");
  const Function turn = [&](const Tensors& in) { return Tensors{in[0] * z}; };
  const Tensor j = func::jacobian(turn, {f64({1, 1}, {2})})[0][0];
  CHECK(select(select(j, 0, 1), 0, 1).item_complex() == std::complex<double>(3, -1));
  check_has(error_of([&] {
              func::jacobian(turn, {f64({1, 1}, {2})}, {.mode = func::Mode::reverse});
            }),
            "need mode forward");
}

TEST_CASE("func: transforms nest") {
  const Tensor x = f64({2}, {});
  const Function fourth = [](const Tensors& in) { return Tensors{square(square(in[0]))}; };
  const Function first = [&](const Tensors& in) { return func::grad(fourth, in); };
  const Function second = [&](const Tensors& in) { return func::grad(first, in); };
  CHECK(func::grad(fourth, {x})[0].item() == 32);
  CHECK(func::grad(first, {x})[0].item() == 48);
  CHECK(func::grad(second, {x})[0].item() == 48);
  CHECK_FALSE(func::grad(second, {x})[0].requires_grad());
  CHECK(func::jacobian(second, {x})[0][0].item() == 48);
  CHECK(func::jvp(first, {x}, {f64({1}, {})}).tangents[0].item() == 48);
  // reverse over forward
  const Function pushed = [&](const Tensors& in) {
    return func::jvp(fourth, in, {Tensor::full({}, 1.0, DType::f64)}).tangents;
  };
  CHECK(func::grad(pushed, {x})[0].item() == 48);
  CHECK(func::hessian(fourth, {x})[0][0].item() == 48);
  // Perturbations are not confused: d/dx x * (d/dy (x + y)) = 1.
  const Function outer = [](const Tensors& in) {
    const Tensor x1 = in[0];
    const Function inner = [&](const Tensors& y) { return Tensors{x1 + y[0]}; };
    return Tensors{x1 * func::grad(inner, {Tensor::full({}, 1.0, DType::f64)})[0]};
  };
  CHECK(func::grad(outer, {x})[0].item() == 1);
  CHECK(func::jvp(outer, {x}, {f64({1}, {})}).tangents[0].item() == 1);
  // The same by hand-made graphs: an input with history keeps it.
  Tensor leafed = leaf(f64({2}, {}));
  CHECK(grad({func::grad(fourth, {leafed})[0]}, {leafed})[0].item() == 48);
  CHECK_FALSE(func::grad(fourth, {leafed}, {.create_graph = false})[0].requires_grad());
  // Forward over forward: the inner one is two vjps.
  CHECK(func::jvp(pushed, {x}, {f64({1}, {})}).tangents[0].item() == 48);
  const Function by_vjp_twice = [&](const Tensors& in) {
    const Function u = [&](const Tensors& c) { return func::vjp(fourth, in).pullback(c); };
    return func::vjp(u, {Tensor::full({}, 1.0, DType::f64)})
        .pullback({Tensor::full({}, 1.0, DType::f64)});
  };
  CHECK(func::jvp(by_vjp_twice, {x}, {f64({1}, {})}).tangents[0].item() == 48);
}
