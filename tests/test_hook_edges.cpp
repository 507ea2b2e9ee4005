// Where hooks, packed tensors, checkpoints and forward mode meet each other: no silent wrong
// gradient, no lost state.
#include "engine/hooks.hpp"
#include "engine/random.hpp"
#include "ops/checkpoint.hpp"
#include "tests/helpers.hpp"

#include <thread>

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("node hooks: what they leave must fit, and goes only where a gradient is wanted") {
  const Tensor a = leaf(f64({2, 3}, {2})), b = f64({5, 7}, {2});
  const Tensor y = sum(a * b);
  const Ref<GradFn> product = y.grad_fn()->inputs()[0].fn;
  register_hook(*product, [](Tensors& in, const Tensors&) { in[1] = in[0]; });
  backward(y, {.retain_graph = true});  // operand b wants none
  CHECK(values(a.grad()) == std::vector<double>{5, 7});
  HookHandle after = register_hook(
      *product, [](Tensors& in, const Tensors&) { in[0] = Tensor::full({}, 1.0, DType::f64); });
  CHECK(error_of([&] { backward(y, {.retain_graph = true}); }) ==
        "mul: a hook left a gradient f64 (), expected f64 (2,)");
  after.remove();
  register_prehook(*product, [](Tensors& g) { g[0] = cast(g[0], DType::f32); });
  CHECK(error_of([&] { backward(y); }) ==
        "mul: a hook left a gradient f32 (2,), expected f64 (2,)");
}

TEST_CASE("a hook may take the root's history away while it is walked") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  Tensor y = sum(square(x * 3.0));
  register_hook(y, [&](const Tensor&) {
    y.detach_();
    return Tensor();
  });
  backward(y);
  CHECK(values(x.grad()) == std::vector<double>{18, 36});
}

TEST_CASE(".grad that is a seed, kept by a hook, or set to something that does not fit") {
  const Tensor x = leaf(f64({1, 1}, {2})), a = leaf(f64({1, 1}, {2}));
  x.set_grad(f64({1, 2}, {2}));
  backward({x + a}, {x.grad()});
  CHECK(values(x.grad()) == std::vector<double>{2, 4});
  CHECK(values(a.grad()) == std::vector<double>{1, 2});
  const Tensor h = x + a;
  register_hook(h, [&](const Tensor&) { return x.grad(); });
  backward(sum(h));
  CHECK(values(x.grad()) == std::vector<double>{4, 8});
  CHECK(values(a.grad()) == std::vector<double>{3, 6});
  Tensors kept;
  const Tensor z = leaf(f64({1, 1}, {2}));
  register_hook(z, [&](const Tensor& g) {
    kept.push_back(g);
    return Tensor();
  });
  for (int i = 0; i < 2; ++i) backward(sum(z * 2.0 + z));
  CHECK(values(kept[0]) == std::vector<double>{3, 3});
  CHECK(values(z.grad()) == std::vector<double>{6, 6});
  CHECK(error_of([&] { z.set_grad(f64({1}, {1})); }) ==
        "set_grad: the tensor is f64 (2,), its gradient can't be f64 (1,)");
}

namespace {
std::any keep(const Tensor& t) { return t; }
Tensor kept(const std::any& t) { return std::any_cast<const Tensor&>(t); }
}  // namespace

TEST_CASE("what hooks or a checkpoint packed is not reached by a later write in place") {
  const auto part = [](const Tensors& in) {
    const Tensor h = in[0] * 2.0, y = square(h);
    add_(h, 10.0);
    return Tensors{y + h * 0.0};
  };
  const Tensor x = leaf(f64({1, 2}, {2}));
  backward(sum(checkpoint(part, {x})[0]));
  CHECK(values(x.grad()) == std::vector<double>{8, 16});
  const SavedTensorHooks hooks(keep, kept);
  backward(sum(part({x})[0]));
  CHECK(values(x.grad()) == std::vector<double>{16, 32});
}

TEST_CASE("saved-tensor hooks: after one threw, with hooks on a leaf, in forward mode") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  int packed = 0, called = 0;
  register_post_accumulate_grad_hook(x, [&](const Tensor&) { ++called; });
  const SavedTensorHooks hooks(
      [&](const Tensor& t) {
        if (packed++ == 0) fail(ErrorKind::value, "pack", "no room");
        return keep(t);
      },
      kept);
  CHECK(error_of([&] { exp(x); }) == "pack: no room");
  grad({sum(square(x))}, {x}, {}, {.create_graph = true});
  CHECK(packed > 1);
  backward(sum(x));
  CHECK(called == 1);
  ForwardLevel level;
  level.set_tangent(x, f64({1, 1}, {2}));
  CHECK(error_of([&] { square(x); }) ==
        "square: a tensor (2,) with a tangent is saved, and saved-tensor hooks and checkpoints "
        "would lose the tangent; use them outside of forward mode");
}

TEST_CASE("checkpoint: numbers stay numbers, and a second run that throws leaves no trace") {
  const Tensor x = leaf(f32({2}, {}));
  const auto product = [](const Tensors& in) { return Tensors{exp(in[0] * in[1])}; };
  backward(checkpoint(product, {x, 0.5})[0]);
  CHECK(x.grad().item() == doctest::Approx(0.5 * std::exp(1.0)));
  int run = 0;
  const auto random = [&](const Tensors& in) {
    const Tensor y = dropout(exp(in[0]), 0.5);
    if (run++ == 1) fail(ErrorKind::value, "part", "once");
    return Tensors{y};
  };
  const Tensor y = checkpoint(random, {leaf(f64({1, 2}, {2}))})[0];
  dropout(f64({1, 2, 3}, {3}), 0.5);
  const uint64_t position = default_generator().position();
  CHECK(error_of([&] { backward(sum(y)); }) == "part: once");
  CHECK(default_generator().position() == position);
  backward(sum(y));
}

TEST_CASE("a tensor written in place by what was computed from it dies with its graph") {
  const int64_t before = live_objects();
  {
    const Tensor h = leaf(f64({1, 2}, {2})) * 3.0;
    mul_(h, sin(h));
    CHECK(error_of([&] { backward(sum(h)); }).find("was changed by mul_") != std::string::npos);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("tangents: given to an intermediate tensor after the op that saved it") {
  const Tensor x = leaf(f64({1, 2}, {2})), h = x * 2.0, y = sum(h * h);
  ForwardLevel level;
  level.set_tangent(h, f64({1, 1}, {2}));
  CHECK(error_of([&] { grad({y}, {x}); }).find("has got a tangent since") != std::string::npos);
  CHECK(values(grad({sum(h * h)}, {h})[0].tangent()) == std::vector<double>{2, 2});
}

TEST_CASE("tangents: of another level, given after the op, of an op once differentiable") {
  const Tensor x = leaf(f64({1, 2}, {2})), ones = f64({1, 1}, {2});
  const Tensor before = sum(x * x * x);
  Tensor y;
  {
    ForwardLevel level;
    level.set_tangent(x, ones);
    const Tensor h = x * 1.0;
    sin_(h);
    y = sum(h);
  }
  ForwardLevel level;
  CHECK_FALSE(grad({y}, {x})[0].tangent().defined());
  level.set_tangent(x, ones);
  CHECK(error_of([&] { grad({before}, {x}); }).find("has got a tangent since") !=
        std::string::npos);
  OpInfo once;
  once.name = "once_forward";
  once.user = once.once_differentiable = true;
  once.operands = {{"x"}};
  once.forward = [](OpContext& ctx) {
    NoGrad off;
    ctx.outputs.push_back(square(ctx.inputs[0].detach()));
    ctx.save_input(0);
  };
  once.vjp = [](GradFn& n, size_t, std::span<const Tensor> g) {
    return n.input(0).detach() * g[0] * 2.0;
  };
  once.jvp = [](GradFn& n, size_t, std::span<const Tensor> t) { return n.input(0) * t[0] * 2.0; };
  CHECK(error_of([&] { grad({sum(apply1(once, {x}) * x)}, {x}); }) ==
        "once_forward: its derivative is differentiated, but the op is marked once differentiable");
}

TEST_CASE("threads that share a graph add to one retained gradient") {
  const Tensor x = leaf(f64({1, 2}, {2})), h = x * 2.0;
  h.retain_grad();
  const Tensor y = sum(h);
  std::vector<std::thread> pool;
  for (int t = 0; t < 4; ++t)
    pool.emplace_back([&] {
      for (int i = 0; i < 500; ++i) backward(y, {.retain_graph = true});
    });
  for (std::thread& t : pool) t.join();
  CHECK(values(h.grad()) == std::vector<double>{2000, 2000});
}
