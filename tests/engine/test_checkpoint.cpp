// Checkpoints where they meet what runs inside of them: gradients, other checkpoints, the death of
// tensors, threads. The plain cases are in test_hooks.cpp and test_hook_edges.cpp.
#include "engine/random.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/transforms/vmap.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/lua_helpers.hpp"

#include <thread>

using namespace gradus;
using namespace gradus::testing;
using gradus::test::error_text;
using gradus::test::says;

TEST_CASE("checkpoint: what the first run recorded may die while the second runs") {
  const Tensor x = leaf(f64({0.3, -0.8}, {2}));
  Tensor held;  // the second run drops what the first one put here
  const auto f = [&](const Tensors& in) {
    held = exp(in[0]);
    return Tensors{sin(in[0])};
  };
  backward(sum(checkpoint(f, {x})[0]));
  CHECK(close(values(x.grad()), {std::cos(0.3), std::cos(-0.8)}));

  // In Lua its collector does it.
  CHECK(says("local runs = 0 local function f(x) runs = runs + 1 "
             "for i = 1, 20 do local t = x:exp() end if runs == 2 then collectgarbage() end "
             "return x * x end local x = gradus.tensor({1.0, 2.0}, {requires_grad = true}) "
             "gradus.checkpoint(f, x):sum():backward() print(runs, x.grad)") ==
        "2\t[2, 4]|f32 (2,)");
}

namespace {
// The norm of a function's gradient, as in a gradient penalty: it differentiates within.
Tensors penalty(const Tensors& in) {
  const Tensor x = in[0] * 1.0, y = sum(exp(sin(x)) * in[0]);
  return {sum(square(grad({y}, {x}, {}, {.create_graph = true})[0])) + y};
}
}  // namespace

TEST_CASE("checkpoint: gradients taken inside of the function, to second order") {
  const Tensor x = leaf(f64({0.3, -0.8, 1.1}, {3}));
  const Tensor plain = grad({penalty({x})[0]}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = grad({sum(plain * plain)}, {x})[0];
  int runs = 0;
  const auto f = [&](const Tensors& in) {
    ++runs;
    return penalty(in);
  };
  const Tensor y = checkpoint(f, {x})[0];
  CHECK(runs == 2);  // the gradient inside asked for what was not saved
  const Tensor g = grad({y}, {x}, {}, {.create_graph = true})[0];
  CHECK(runs == 3);
  CHECK(values(g) == values(plain));
  CHECK(values(grad({sum(g * g)}, {x})[0]) == values(second));
  CHECK(runs == 3);
  // Two levels: the inner function's gradient, its second run and the outer's.
  const auto outer = [&](const Tensors& in) { return Tensors{checkpoint(f, {in[0] * 2.0})[0]}; };
  const Tensor expected = grad({penalty({x * 2.0})[0]}, {x})[0];
  CHECK(values(grad({checkpoint(outer, {x})[0]}, {x})[0]) == values(expected));

  CHECK(says("local function f(x) local h = x * 1 local y = (h * h * h):sum() "
             "return (gradus.grad(y, h, {create_graph = true}) ^ 2):sum() end "
             "local x = gradus.tensor({1.0, 2.0}, {requires_grad = true}) "
             "gradus.checkpoint(f, x):backward() print(x.grad)") == "[ 36, 288]|f32 (2,)");
}

TEST_CASE("checkpoint: random numbers with a gradient taken inside") {
  const Tensor x = leaf(f64({0.3, -0.8, 1.1, 2}, {4}));
  const auto f = [](const Tensors& in) {
    const Tensor h = dropout(in[0] * 1.0, 0.5), y = sum(exp(h));
    return Tensors{sum(grad({y}, {in[0]}, {}, {.create_graph = true})[0] * dropout(in[0], 0.5))};
  };
  manual_seed(11);
  const Tensor expected = grad({f({x})[0]}, {x})[0];
  const uint64_t position = default_generator().position();
  manual_seed(11);
  const Tensor y = checkpoint(f, {x})[0];
  CHECK(default_generator().position() == position);
  CHECK(values(grad({y}, {x})[0]) == values(expected));
  CHECK(default_generator().position() == position);
}

TEST_CASE("checkpoint: the inputs of a checkpoint within are not kept") {
  const int64_t n = 1 << 16;
  const size_t bytes = size_t(n) * sizeof(double);
  const Tensor x = leaf(Tensor::full({n}, 0.5, DType::f64));
  const auto inner = [](const Tensors& in) { return Tensors{sin(exp(in[0]))}; };
  const auto chain = [&](const Tensors& in) {
    Tensor h = in[0];
    for (int i = 0; i < 8; ++i) h = checkpoint(inner, {h})[0];
    return Tensors{h};
  };
  Tensor plain = x;
  for (int i = 0; i < 8; ++i) plain = inner({plain})[0];
  const double expected = grad({sum(plain)}, {x})[0].to_vector<double>()[0];
  plain = Tensor();

  Pool& pool = default_device().pool();
  const size_t before = pool.stats().live;
  const Tensor y = checkpoint(chain, {x})[0];
  CHECK(pool.stats().live - before < 2 * bytes);  // y, and none of the eight inputs
  const Tensor loss = sum(y);
  CHECK(grad({loss}, {x}, {}, {.retain_graph = true})[0].to_vector<double>()[0] == expected);
  // Nothing of a second run stays once its owners are gone.
  CHECK(grad({loss}, {x})[0].to_vector<double>()[0] == expected);
  CHECK(pool.stats().live - before < 2 * bytes);
}

TEST_CASE("checkpoint: inputs are packed by the hooks around it; its own history never owns it") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({0.3, -0.8}, {2}));
    const auto f = [](const Tensors& in) { return Tensors{exp(in[0] * in[1])}; };
    int packed = 0;
    Tensor y;
    {
      const SavedTensorHooks hooks(
          [&](const Tensor& t) { return ++packed, std::any(t.to_vector<double>()); },
          [](const std::any& kept) {
            const auto& v = std::any_cast<const std::vector<double>&>(kept);
            return Tensor::from(v, {int64_t(v.size())});
          });
      y = checkpoint(f, {x, 2.0})[0];
    }
    CHECK(packed == 1);
    CHECK(close(values(grad({sum(y)}, {x})[0]), {2 * std::exp(0.6), 2 * std::exp(-1.6)}));
    const Tensor h = x * 1.0;
    mul_(h, checkpoint(f, {h, 1.0})[0]);
  }
  CHECK(live_objects() == before);
}

TEST_CASE("checkpoint: a second run that asks the first for its gradient is an error") {
  const Tensor x = leaf(f64({0.3, -0.8}, {2}));
  Tensor first;
  const auto f = [&](const Tensors& in) {
    const Tensor y = exp(in[0]);
    if (first.defined())
      grad({sum(first)}, {x}, {}, {.retain_graph = true});
    else
      first = y;
    return Tensors{y};
  };
  const Tensor y = checkpoint(f, {x})[0];
  CHECK(error_of([&] { backward(sum(y)); })
            .starts_with("checkpoint: the function's second run asks for the gradient of what its "
                         "first run computed"));
  first = Tensor();
  backward(sum(y));  // it was not left as if it still ran
  CHECK(close(values(x.grad()), {std::exp(0.3), std::exp(-0.8)}));
  first = Tensor();
}

TEST_CASE("checkpoint: walked by several threads at once") {
  const Tensor x = leaf(f64({0.3, -0.8}, {2}));
  std::atomic<int> runs = 0;
  const auto f = [&](const Tensors& in) {
    ++runs;
    return Tensors{sin(exp(in[0]))};
  };
  const Tensor y = sum(checkpoint(f, {x})[0]);
  const std::vector<double> expected = values(grad({sum(sin(exp(x)))}, {x})[0]);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        right += values(grad({y}, {x}, {}, {.retain_graph = true})[0]) == expected;
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 80);
  CHECK(runs == 2);
}

TEST_CASE("checkpoint: inside of a vmap it says what to do instead") {
  const Tensor x = leaf(f64({1, 2, 3, 4}, {2, 2}));
  const auto part = [](const Tensors& in) { return Tensors{in[0] * sin(in[0])}; };
  CHECK(error_text(
            ErrorKind::autograd,
            [&] { func::vmap([&](const Tensors& in) { return checkpoint(part, in); })({x}); }) ==
        "checkpoint: input 0 (2,) is one example of a vmap; checkpoint the function that calls "
        "vmap instead");
  const Tensors y = checkpoint([&](const Tensors& in) { return func::vmap(part)(in); }, {x});
  backward(sum(y[0]));
  CHECK(values(x.grad())[1] == doctest::Approx(std::sin(2) + 2 * std::cos(2)));
}
