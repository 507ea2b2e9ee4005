// The graph: what is recorded, walked, refused and freed. Behaviour and message.
#include "tests/helpers/helpers.hpp"

#include "engine/forward.hpp"
#include "engine/random.hpp"

#include <thread>

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("backward of a small expression") {
  const Tensor x = leaf(f64({1, 2, 3}, {3}));
  backward(sum(x * x * 2.0));
  CHECK(values(x.grad()) == std::vector<double>{4, 8, 12});
  backward(sum(x));  // adds
  CHECK(values(x.grad()) == std::vector<double>{5, 9, 13});
}

TEST_CASE("a scalar on either side, and a tensor used twice") {
  const Tensor x = leaf(f64({2, 4}, {2}));
  backward(sum(1.0 / x + x - 3.0 + 2.0 * x));
  CHECK(close(values(x.grad()), {3 - 0.25, 3 - 0.0625}));
}

TEST_CASE("broadcast operands receive summed cotangents") {
  const Tensor a = leaf(f64({1, 2, 3}, {3, 1})), b = leaf(f64({1, 10}, {2})),
               c = leaf(f64({5}, {}));
  backward(sum(a * b + c));
  CHECK(values(a.grad()) == std::vector<double>{11, 11, 11});
  CHECK(a.grad().sizes() == Shape{3, 1});
  CHECK(values(b.grad()) == std::vector<double>{6, 6});
  CHECK(values(c.grad()) == std::vector<double>{6});
  CHECK(c.grad().sizes() == Shape{});
}

TEST_CASE("derivatives of every order by create_graph") {
  // d^n/dx^n sin x at 0.3
  Tensor x = leaf(f64({0.3}, {}));
  Tensor y = sin(x);
  const double expect[] = {std::cos(0.3), -std::sin(0.3), -std::cos(0.3), std::sin(0.3),
                           std::cos(0.3)};
  for (double e : expect) {
    y = grad({y}, {x}, {}, {.create_graph = true})[0];
    CHECK(y.item() == doctest::Approx(e).epsilon(1e-13));
  }
}

TEST_CASE("saved outputs keep their history through second order and do not own themselves") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({0.5, -1}, {2}));
    const Tensor y = sigmoid(exp(x));
    const Tensor g = grad({sum(y)}, {x}, {}, {.create_graph = true})[0];
    backward(sum(g));
    // d2/dx2 s(e^x) = s'(e^x) e^x + s''(e^x) e^2x
    auto second = [](double v) {
      const double e = std::exp(v), s = 1 / (1 + std::exp(-e)), s1 = s * (1 - s),
                   s2 = s1 * (1 - 2 * s);
      return s1 * e + s2 * e * e;
    };
    CHECK(close(values(x.grad()), {second(0.5), second(-1)}));
  }
  CHECK(live_objects() == before);
}

TEST_CASE("grad: leaves, intermediates, unused inputs") {
  const Tensor x = leaf(f64({3}, {})), other = leaf(f64({1}, {}));
  const Tensor h = x * x;
  const Tensor y = exp(h * 0.1);
  const Tensors g = grad({y}, {h, x}, {}, {.retain_graph = true});
  CHECK(g[0].item() == doctest::Approx(0.1 * std::exp(0.9)));
  CHECK(g[1].item() == doctest::Approx(0.6 * std::exp(0.9)));
  CHECK_FALSE(x.grad().defined());
  CHECK(
      error_of([&] { grad({y}, {other}, {}, {.retain_graph = true}); }) ==
      "grad: input 0 of shape () was not used to compute the outputs; pass allow_unused to get an "
      "undefined gradient for it");
  CHECK_FALSE(grad({y}, {other}, {}, {.allow_unused = true})[0].defined());
  CHECK(error_of([&] { grad({y}, {}); }) == "grad: no inputs were given");
}

TEST_CASE("seeds") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = x * 3.0;
  CHECK(error_of([&] { backward(y); })
            .find("a seed can be left out for one-element tensors only, the "
                  "shape is (2,)") != std::string::npos);
  CHECK(error_of([&] {
          backward({y}, {f64({1, 2, 3}, {3})});
        }) == "backward: the seed has shape (3,), the tensor (2,)");
  CHECK(error_of([&] {
          backward({y}, {f32({1, 2}, {2})});
        }) == "backward: the seed is f32, the tensor f64");
  backward({y}, {f64({10, 20}, {2})});
  CHECK(values(x.grad()) == std::vector<double>{30, 60});
  CHECK(error_of([&] { backward(f64({1}, {})); }).find("has no history") != std::string::npos);
}

TEST_CASE("the gradient never aliases the seed or another leaf's gradient") {
  const Tensor x = leaf(f64({1, 2}, {2})), z = leaf(f64({1, 2}, {2}));
  const Tensor seed = f64({5, 7}, {2});
  backward({x + z}, {seed});
  copy_(seed, f64({0, 0}, {2}));
  CHECK(values(x.grad()) == std::vector<double>{5, 7});
  copy_(x.grad(), f64({1, 1}, {2}));
  CHECK(values(z.grad()) == std::vector<double>{5, 7});
}

TEST_CASE("a freed graph is an error that names the cure") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = sum(exp(x));
  backward(y, {.retain_graph = true});
  backward(y);
  const std::string message = error_of([&] { backward(y); });
  CHECK(message ==
        "exp: backward through this graph a second time: its saved tensors were freed by the "
        "first; pass retain_graph to the first call");
}

TEST_CASE("a saved tensor that was changed is an error with names and versions") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor h = x * 2.0;
  const Tensor y = sum(square(h));
  {
    NoGrad off;
    copy_(h.detach(), f64({0, 0}, {2}));
  }
  CHECK(error_of([&] { backward(y); }) ==
        "square: saved input 0 (2,) was changed by copy_ after it was saved (version 0 -> 1); "
        "clone() it "
        "before the write, or use an op that returns a new tensor");
}

TEST_CASE("writes in place: leaves, history, expanded views") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  CHECK(error_of([&] {
          copy_(x, f64({0, 0}, {2}));
        })
            .find("a leaf that requires a gradient is written in "
                  "place") != std::string::npos);
  const Tensor wide = expand(f64({1}, {1}), {3});
  CHECK(error_of([&] {
          copy_(wide, f64({1, 2, 3}, {3}));
        }).find("overlaps itself (an axis is expanded") != std::string::npos);
  NoGrad off;
  copy_(x, f64({5, 6}, {2}));
  CHECK(values(x) == std::vector<double>{5, 6});
}

TEST_CASE("clone shares memory until the first write") {
  const Tensor a = f64({1, 2, 3}, {3});
  const Tensor b = clone(a);
  CHECK(a.storage().data() == b.storage().data());
  copy_(b, f64({7, 8, 9}, {3}));
  CHECK(a.storage().data() != b.storage().data());
  CHECK(values(a) == std::vector<double>{1, 2, 3});
  CHECK(values(b) == std::vector<double>{7, 8, 9});
}

TEST_CASE("no_grad, detach and leaf rules") {
  Tensor x = leaf(f64({1, 2}, {2}));
  {
    NoGrad off;
    CHECK_FALSE((x * 2.0).requires_grad());
    {
      EnableGrad on;
      CHECK((x * 2.0).requires_grad());
    }
  }
  CHECK_FALSE(x.detach().requires_grad());
  CHECK(x.detach().storage().version() == x.version());
  Tensor y = x * 2.0;
  CHECK(error_of([&] {
          y.set_requires_grad(false);
        }).find("only leaves can change requires_grad") != std::string::npos);
  Tensor whole = i64({1}, {1});
  CHECK(error_of([&] { whole.set_requires_grad(); }).find("only floating tensors") !=
        std::string::npos);
}

TEST_CASE("forward mode: one level, tangents vanish") {
  const Tensor x = f64({0.5, 1}, {2});
  {
    ForwardLevel level;
    CHECK(error_of([] { ForwardLevel second; }).find("one at a time") != std::string::npos);
    level.set_tangent(x, f64({1, 2}, {2}));
    const Tensor y = sin(x * x);
    CHECK(close(values(y.tangent()), {std::cos(0.25), 4 * std::cos(1.0)}));
    CHECK(error_of([&] { level.set_tangent(x, f64({1}, {1})); }).find("its tangent is f64 (1,)") !=
          std::string::npos);
  }
  CHECK_FALSE(x.tangent().defined());
}

TEST_CASE("Hessian times vector: forward over reverse equals reverse over reverse") {
  const Tensor x = leaf(f64({0.3, -0.7, 1.1}, {3})), v = f64({1, -2, 0.5}, {3});
  auto f = [](const Tensor& t) { return sum(exp(t) * sin(t)) + prod(t); };
  const Tensor g = grad({f(x)}, {x}, {}, {.create_graph = true})[0];
  const std::vector<double> reverse = values(grad({sum(g * v)}, {x})[0]);
  const int64_t before = live_objects();
  {
    ForwardLevel level;
    level.set_tangent(x, v);
    const Tensor g2 = grad({f(x)}, {x})[0];
    CHECK(close(values(g2.tangent()), reverse));
  }
  CHECK(live_objects() == before);
}

TEST_CASE("complex: the gradient of a real loss is dL/dx + i dL/dy") {
  const std::vector<c128> z0 = {{1, 2}, {-0.5, 0.25}};
  const Tensor z = leaf(Tensor::from(z0, {2}));
  backward(sum(square(abs(z))));
  const auto g = z.grad().to_vector<c128>();
  for (size_t i = 0; i < 2; ++i) {
    CHECK(g[i].re == doctest::Approx(2 * z0[i].re));
    CHECK(g[i].im == doctest::Approx(2 * z0[i].im));
  }
}

TEST_CASE("random numbers: seed and position give the number") {
  manual_seed(7);
  const std::vector<float> first = uniform({10}).to_vector<float>();
  const std::vector<float> next = uniform({4}).to_vector<float>();
  manual_seed(7);
  std::vector<float> all = uniform({14}).to_vector<float>();
  CHECK(std::vector<float>(all.begin(), all.begin() + 10) == first);
  CHECK(std::vector<float>(all.begin() + 10, all.end()) == next);
  Generator g(7);
  CHECK(g.position() == 0);
  g.take(5, default_device());
  g.begin_step();
  CHECK(g.position() == 5);
}

TEST_CASE("random numbers of 16 bits are below 1, with the mean that they should have") {
  manual_seed(3);
  for (const DType t : {DType::f16, DType::bf16}) {
    const Tensor u = cast(uniform({100000}, 0, 1, t), DType::f64);
    CHECK(amax(u).item() < 1);
    CHECK(amin(u).item() == 0);
    CHECK(mean(u).item() == doctest::Approx(t == DType::f16 ? 0.4998 : 0.498).epsilon(0.005));
  }
}

TEST_CASE("a copy in place takes history and tangents along") {
  const Tensor x = leaf(f64({1, 2, 3}, {3}));
  const Tensor b = Tensor::zeros({3}, DType::f64);
  copy_(b, x * 2.0);
  backward(sum(b * b));
  CHECK(values(x.grad()) == std::vector<double>{8, 16, 24});
  const Tensor whole = Tensor::zeros({3}, DType::f64), part = Tensor::zeros({3}, DType::f64),
               number = Tensor::zeros({}, DType::f64), of = leaf(f64({5}, {}));
  copy_(whole, x);  // a leaf, with nothing done to it
  copy_(reshape(part, {3}), x);
  fill_(number, of);
  x.set_grad({});
  backward(sum(whole * x) + sum(part * x) + number * of);
  CHECK(values(x.grad()) == std::vector<double>{4, 8, 12});
  CHECK(of.grad().item() == 10);
  CHECK(values(whole) == values(x));
  ForwardLevel level;
  const Tensor y = f64({1, 2, 3}, {3}), c = Tensor::zeros({3}, DType::f64);
  level.set_tangent(y, f64({1, 1, 1}, {3}));
  copy_(c, y);
  CHECK(values(c.tangent()) == std::vector<double>{1, 1, 1});
  copy_(y, Tensor::zeros({3}, DType::f64));
  CHECK(values(y.tangent()) == std::vector<double>{0, 0, 0});
}

TEST_CASE("numbers can't be leaves") {
  Tensor w(3.0);
  CHECK(error_of([&] { w.set_requires_grad(); }).find("requires_grad: a number") == 0);
  ForwardLevel level;
  CHECK(error_of([&] { level.set_tangent(w, w); }).find("set_tangent: a number") == 0);
}

TEST_CASE("forward over reverse through backward keeps the tangents of .grad") {
  const Tensor z = leaf(f64({0.5, 1}, {2}));
  ForwardLevel level;
  level.set_tangent(z, f64({1, 1}, {2}));
  backward(sum(exp(z)));
  REQUIRE(z.grad().tangent().defined());
  CHECK(close(values(z.grad().tangent()), {std::exp(0.5), std::exp(1.0)}));
}

TEST_CASE("with create_graph too, .grad is nobody's alias") {
  const Tensor a = leaf(f64({1, 2}, {2})), b = leaf(f64({1, 2}, {2})), s = f64({3, 4}, {2});
  backward({a + b}, {s}, {.create_graph = true});
  {
    NoGrad off;
    copy_(a.grad(), f64({9, 9}, {2}));
  }
  CHECK(values(b.grad()) == std::vector<double>{3, 4});
  CHECK(values(s) == std::vector<double>{3, 4});
}

TEST_CASE("grad frees only the nodes that it walked") {
  const Tensor x = leaf(f64({0.5}, {}));
  const Tensor h = exp(x);
  const Tensor g = grad({h * h}, {h})[0];
  backward({h}, {g});
  CHECK(x.grad().item() == doctest::Approx(2 * std::exp(1.0)));
}

TEST_CASE("16-bit means count in f32") {
  const Tensor x = leaf(Tensor::full({70000}, 0.5, DType::f16));
  const Tensor y = mean(x);
  CHECK(y.dtype() == DType::f16);
  CHECK(y.item() == 0.5);
  backward(y * 8192.0);
  CHECK(values(x.grad())[0] == doctest::Approx(8192.0 / 70000).epsilon(1e-3));
  const Tensor z = leaf(Tensor::full({70000}, 0.0, DType::f16));
  backward(amax(z) * 8192.0);
  CHECK(values(z.grad())[5] == doctest::Approx(8192.0 / 70000).epsilon(1e-3));
}

TEST_CASE("std at variance 0 has gradient 0") {
  const Tensor x = leaf(f64({2, 2, 2}, {3}));
  backward(gradus::std(x));
  CHECK(values(x.grad()) == std::vector<double>{0, 0, 0});
}

TEST_CASE("the attributes that a node records are those of the op list") {
  const Tensor x =
      leaf(reshape(f64({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {12}), {3, 4}).detach());
  const Tensor results[] = {slice(x, 1, 1, 3),
                            slice(x, 1, 0, kEnd, -1),
                            slice(x, 0, -1, -4, -2),
                            slice(x, 1, 3, 1),
                            pad(x, {1, 0}),
                            pad(x, {0, -1, 2, 1}, 7),
                            gelu(x),
                            gelu(x, "tanh"),
                            sum(x, {1}),
                            amax(x),
                            select(x, 0, -1),
                            permute(x, {1, 0}),
                            flip(x, {0, 1}),
                            expand(x, {2, 3, 4}),
                            diagonal(x, 1),
                            cumsum(x, 0),
                            softmax(x, -1),
                            clamp(x, 2, 5),
                            cast(x, DType::f32),
                            leaky_relu(x, 0.3),
                            reshape(x, {2, -1})};
  for (const Tensor& y : results) {
    const GradFn& node = *y.grad_fn();
    CAPTURE(node.op().name);
    CHECK(node.attrs().size() == node.op().attrs.size());
    const Tensor again = node.op().call(Tensors{x}, node.attrs())[0];
    CHECK(again.sizes() == y.sizes());
    CHECK(values(again) == values(y));
  }
}

TEST_CASE("backward in another thread while this one has a forward level open") {
  const Tensor x = leaf(f64({0.5, 1}, {2}));
  ForwardLevel level;
  level.set_tangent(x, f64({1, 1}, {2}));
  const Tensor y = sum(exp(x));
  std::thread([&] { backward(y); }).join();
  CHECK(close(values(x.grad()), {std::exp(0.5), std::exp(1.0)}));
}

TEST_CASE("a product of nothing is one, and has a history") {
  const Tensor x = leaf(Tensor::zeros({2, 0}, DType::f64));
  const Tensor y = prod(x, {1}, false);
  CHECK(values(y) == std::vector<double>{1, 1});
  backward(sum(y));
  CHECK(x.grad().sizes() == Shape{2, 0});
  CHECK(prod(Tensor::zeros({0}, DType::i64)).item_integer() == 1);
  CHECK(prod(Tensor::zeros({0}, DType::bool_)).dtype() == DType::i64);
  CHECK(prod(leaf(Tensor::zeros({0, 3}, DType::f32)), {0}, true).requires_grad());
}
