// Where hooks, packed tensors, checkpoints and forward mode meet each other: no silent wrong
// gradient, no lost state.
#include "engine/forward.hpp"
#include "engine/hooks.hpp"
#include "engine/random.hpp"
#include "ops/base/checkpoint.hpp"
#include "tests/helpers/helpers.hpp"

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

TEST_CASE("tangents: of another level, given after the op") {
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

TEST_CASE("hooks that hold their tensor die with the graph that backward frees") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor h = x * 3.0, y = sum(h + x);
    register_hook(h, [h](const Tensor& g) { return g * h; });
    register_hook(*y.grad_fn(), [y](Tensors&, const Tensors&) {});
    register_prehook(*y.grad_fn(), [h](Tensors&) {});
    backward(y, {.retain_graph = true});
    x.set_grad(Tensor());
    backward(y);
    CHECK(values(x.grad()) == std::vector<double>{10, 19});
    // What lost its hooks refuses to be walked without them.
    CHECK(error_of([&] { backward(y); }).find("a second time") != std::string::npos);
    CHECK(error_of([&] {
            backward({h}, {f64({1, 1}, {2})});
          }).find("a second time") != std::string::npos);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("a post-accumulate hook runs as soon as its leaf's gradient is whole") {
  // A chain of layers: each gradient is as large as all that is alive otherwise.
  const int64_t n = 1 << 16, layers = 8;
  const size_t bytes = size_t(n) * sizeof(double);
  Tensors leaves;
  for (int64_t i = 0; i < layers; ++i) leaves.push_back(leaf(Tensor::full({n}, 1.0, DType::f64)));
  std::vector<int64_t> order;
  for (int64_t i = 0; i < layers; ++i)
    register_post_accumulate_grad_hook(leaves[size_t(i)], [&, i](const Tensor& p) {
      order.push_back(i);
      // An optimiser's step: nothing that is left reads this leaf.
      const NoGrad off;
      sub_(p, p.grad() * 0.5);
      p.set_grad(Tensor());
    });
  const auto loss = [&] {
    Tensor h = Tensor::full({n}, 2.0, DType::f64);
    for (const Tensor& p : leaves) h = h * p + p * 0.0;
    return sum(h);
  };
  Pool& pool = default_device().pool();
  const Tensor y = loss();
  const size_t before = pool.stats().live;
  pool.reset_peak();
  backward(y, {.retain_graph = true});  // or what it frees would hide what it makes
  CHECK(order == std::vector<int64_t>{7, 6, 5, 4, 3, 2, 1, 0});
  // Without the hooks the gradients of all eight are alive at the end.
  CHECK(pool.stats().peak - before < 6 * bytes);
  for (const Tensor& p : leaves) {
    CHECK_FALSE(p.grad().defined());
    CHECK(p.to_vector<double>()[0] == 0);  // the others were ones when its gradient was taken
  }
}

TEST_CASE("a leaf used at both ends of a graph is whole at the end; one that is a root, too") {
  const Tensor w = leaf(f64({2}, {})), v = leaf(f64({3}, {}));
  std::string order;
  register_post_accumulate_grad_hook(w, [&](const Tensor&) { order += "w"; });
  register_post_accumulate_grad_hook(v, [&](const Tensor&) { order += "v"; });
  const Tensor unused = w * 5.0;  // another graph does not count
  Tensor h = exp(w * 0.0);
  for (int i = 0; i < 4; ++i) h = h * v;
  backward({h * w, w, w}, {});
  CHECK(order == "vw");
  CHECK(w.grad().item() == 83);
  CHECK(v.grad().item() == 216);
}

TEST_CASE("grad of one tensor asked for twice runs its hooks once") {
  const Tensor x = leaf(f64({1, 2}, {2})), h = x * 3.0;
  int of_leaf = 0, of_result = 0;
  register_hook(x, [&](const Tensor& g) { return ++of_leaf, g * 10.0; });
  register_hook(h, [&](const Tensor& g) { return ++of_result, g * 10.0; });
  const Tensors g = grad({sum(h)}, {x, h, x, h});
  CHECK(of_leaf == 1);
  CHECK(of_result == 1);
  CHECK(values(g[0]) == std::vector<double>{300, 300});
  CHECK(values(g[2]) == values(g[0]));
  CHECK(values(g[1]) == std::vector<double>{10, 10});
  CHECK(values(g[3]) == values(g[1]));
}

TEST_CASE("set_grad: of a number, of what sums in place would spoil, of another device") {
  const Tensor x = leaf(f64({2}, {}));
  x.set_grad(1.0);
  backward(3.0 * x);
  CHECK(x.grad().item() == 4);
  CHECK(x.grad().to_vector<double>() == std::vector<double>{4});
  CHECK_FALSE(x.grad().is_number());
  const Tensor v = leaf(f64({1, 2}, {2}));
  CHECK(error_of([&] { v.set_grad(1.0); }) ==
        "set_grad: the tensor is f64 (2,), its gradient can't be f64 ()");
  CHECK(error_of([&] {
          v.set_grad(f32({1, 2}, {2}));
        }) == "set_grad: the tensor is f64 (2,), its gradient can't be f32 (2,)");
  Device& other = open_device("reference");
  Device& here = &default_device() == &other ? open_device("cpu") : default_device();
  const Tensor placed = leaf(to_device(v.detach(), here));
  CHECK(error_of([&] { placed.set_grad(to_device(v.detach(), other)); })
            .starts_with("set_grad: the tensor is on " + here.name() +
                         ", its gradient can't be on " + other.name()));
  for (const Tensor& g : {v.detach(), v, expand(f64({1}, {1}), {2}), flip(v.detach(), {0})}) {
    v.set_grad(g);
    backward(sum(v * 10.0));
    CHECK(values(v) == std::vector<double>{1, 2});
    const std::vector<double> sum = values(v.grad());
    CHECK(sum[0] + sum[1] == values(g)[0] + values(g)[1] + 20);
    CHECK_FALSE(v.grad().requires_grad());
  }
  // Memory that is nobody else's is .grad itself.
  const Tensor own = f64({5, 5}, {2});
  v.set_grad(own);
  CHECK(v.grad().same_body(own));
}

TEST_CASE("detach_ keeps .grad, and what was recorded before adds to it no more") {
  Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = sum(x * 3.0);
  backward(y, {.retain_graph = true});
  x.detach_();
  CHECK_FALSE(x.requires_grad());
  CHECK(values(x.grad()) == std::vector<double>{3, 3});
  backward(y);
  CHECK(values(x.grad()) == std::vector<double>{3, 3});
  Tensor h = leaf(f64({1, 2}, {2})) * 2.0;
  h.retain_grad();
  backward(sum(h));
  h.detach_();
  CHECK(values(h.grad()) == std::vector<double>{1, 1});
}

TEST_CASE("a hook that wants its leaf is given it, and keeps nothing alive") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({3, 5}, {2}));
    register_hook(x, [](const Tensor& t, const Tensor& g) {
      CHECK(t.is_leaf());
      CHECK(t.requires_grad());
      return g * t;
    });
    backward(sum(x * 2.0));
    CHECK(values(x.grad()) == std::vector<double>{6, 10});
    const Tensor y = x * 4.0;  // and of a result, which it may hold
    register_hook(y, [](const Tensor& t, const Tensor& g) { return g * t; });
    x.set_grad(Tensor());
    backward(sum(y));
    CHECK(values(x.grad()) == std::vector<double>{144, 400});
  }
  CHECK(live_objects() == before);
}
