// Hooks on tensors, leaves and nodes, retain_grad, saved-tensor hooks, checkpointing, anomaly
// detection, and what backward and grad refuse.
#include "engine/forward.hpp"
#include "engine/hooks.hpp"
#include "engine/random.hpp"
#include "ops/base/checkpoint.hpp"
#include "tests/helpers/helpers.hpp"

#include <map>

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("tensor hooks see and replace gradients, in the order of registration") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor h = x * 3.0;
  std::vector<std::string> order;
  register_hook(h, [&](const Tensor& g) {
    order.push_back("first " + std::to_string(int(g.to_vector<double>()[0])));
    return g * 2.0;
  });
  HookHandle second = register_hook(h, [&](const Tensor& g) {
    order.push_back("second " + std::to_string(int(g.to_vector<double>()[0])));
    return Tensor();
  });
  const Tensor y = sum(h * 5.0);
  backward(y, {.retain_graph = true});
  CHECK(order == std::vector<std::string>{"first 5", "second 10"});
  CHECK(values(x.grad()) == std::vector<double>{30, 30});
  second.remove();
  second.remove();
  // grad() of a hooked tensor gives what the hooks made of it.
  CHECK(values(grad({y}, {h})[0]) == std::vector<double>{10, 10});
  CHECK(order.size() == 3);
}

TEST_CASE("hooks on leaves run once with the sum, then after accumulation") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  int calls = 0;
  register_hook(x, [&](const Tensor& g) {
    ++calls;
    return g * 10.0;
  });
  std::vector<double> seen;
  register_post_accumulate_grad_hook(x, [&](const Tensor& leaf) {
    seen = values(leaf.grad());
    leaf.set_grad(Tensor());
  });
  backward(sum(x * x + x));
  CHECK(calls == 1);
  CHECK(seen == std::vector<double>{30, 50});
  CHECK_FALSE(x.grad().defined());
  CHECK(values(grad({sum(x)}, {x})[0]) == std::vector<double>{10, 10});
}

TEST_CASE("hooks on nodes: before and after the derivative") {
  const Tensor a = leaf(f64({2}, {})), b = leaf(f64({5}, {}));
  const Tensor y = a * b;
  register_prehook(*y.grad_fn(), [](Tensors& g) { g[0] = g[0] * 2.0; });
  register_hook(*y.grad_fn(), [](Tensors& inputs, const Tensors& outputs) {
    CHECK(outputs[0].item() == 2);
    CHECK(inputs[0].item() == 10);
    inputs[1] = inputs[1] + 1.0;
  });
  backward(y);
  CHECK(a.grad().item() == 10);
  CHECK(b.grad().item() == 5);
}

TEST_CASE("hooks: refusals") {
  const Tensor plain = f64({1, 2}, {2}), x = leaf(f64({1, 2}, {2}));
  CHECK(error_of([&] { register_hook(plain, [](const Tensor& g) { return g; }); }) ==
        "register_hook: the tensor of shape (2,) requires no gradient, so none will pass here");
  CHECK(error_of([&] { plain.retain_grad(); }).find("retain_grad: the tensor of shape (2,)") == 0);
  const Tensor h = exp(x);
  CHECK(error_of([&] { register_post_accumulate_grad_hook(h, [](const Tensor&) {}); }) ==
        "register_post_accumulate_grad_hook: only leaves accumulate a gradient; this tensor is the "
        "result of exp");
  register_hook(h, [](const Tensor&) { return f64({1, 2, 3}, {3}); });
  CHECK(error_of([&] { backward(sum(h)); }) ==
        "exp: a hook returned a gradient f64 (3,), expected f64 (2,)");
}

TEST_CASE("retain_grad keeps the gradient of a non-leaf, and no cycle") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({1, 2}, {2}));
    const Tensor h = x * 3.0;
    h.retain_grad();
    const Tensor y = sum(h * h);
    backward(y, {.retain_graph = true});
    CHECK(values(h.grad()) == std::vector<double>{6, 12});
    backward(y);
    CHECK(values(h.grad()) == std::vector<double>{12, 24});
    CHECK_FALSE(y.grad().defined());
  }
  CHECK(live_objects() == before);
}

TEST_CASE("a hook may call backward itself") {
  const Tensor x = leaf(f64({3}, {})), z = leaf(f64({2}, {}));
  const Tensor inner = z * z;
  register_hook(x, [&](const Tensor&) {
    backward(inner);
    return Tensor();
  });
  backward(x * 2.0);
  CHECK(x.grad().item() == 2);
  CHECK(z.grad().item() == 4);
}

TEST_CASE("saved-tensor hooks: packed when saved, unpacked when read, to second order") {
  const Tensor x = leaf(f64({0.5, 2}, {2}));
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& t) {
          ++packed;
          return std::any(t.to_vector<double>());
        },
        [&](const std::any& kept) {
          ++unpacked;
          const auto& v = std::any_cast<const std::vector<double>&>(kept);
          return Tensor::from(v, {int64_t(v.size())});
        });
    y = sum(exp(x) * x);
  }
  CHECK(packed == 3);
  const Tensor g = grad({y}, {x}, {}, {.create_graph = true})[0];
  CHECK(unpacked >= 3);
  backward(sum(g));  // (x e^x)'' = (2 + x) e^x
  CHECK(close(values(x.grad()), {2.5 * std::exp(0.5), 4 * std::exp(2.0)}));
}

TEST_CASE("saved-tensor hooks: what comes back must fit") {
  const Tensor x = leaf(f64({0.5, 2}, {2}));
  const SavedTensorHooks hooks([](const Tensor&) { return std::any(); },
                               [](const std::any&) { return f64({1}, {1}); });
  const Tensor y = sum(square(x));
  CHECK(error_of([&] { backward(y); }) ==
        "square: saved input 0 was f64 (2,), the unpack hook gave f64 (1,)");
}

TEST_CASE("checkpoint: same gradients, nothing saved, random numbers repeated, any order") {
  manual_seed(5);
  const Tensor x = leaf(f64({0.3, -0.8, 1.1}, {3})), w = leaf(f64({2, 1, 0.5}, {3}));
  int runs = 0;
  const auto part = [&](const Tensors& in) {
    ++runs;
    const Tensor h = dropout(tanh(in[0] * w), 0.5);
    return Tensors{exp(h) * in[0]};
  };
  const uint64_t position = default_generator().position();
  const Tensor plain = sum(square(part({x})[0]));
  const Tensors expected = grad({plain}, {x, w}, {}, {.create_graph = true});
  const Tensor expected2 = grad({sum(expected[0] * expected[0])}, {x})[0];

  default_generator().set(5, position);
  runs = 0;
  const Tensor y = checkpoint(part, {x})[0];
  CHECK(runs == 1);
  for (const Saved& s : y.grad_fn()->saved()) CHECK_FALSE(s.tensor.defined());
  const Tensor loss = sum(square(y));
  const uint64_t after = default_generator().position();
  const Tensors g = grad({loss}, {x, w}, {}, {.create_graph = true});
  CHECK(runs == 2);
  CHECK(default_generator().position() == after);
  CHECK(values(g[0]) == values(expected[0]));
  CHECK(values(g[1]) == values(expected[1]));
  CHECK(values(grad({sum(g[0] * g[0])}, {x})[0]) == values(expected2));
  CHECK(runs == 2);
}

TEST_CASE("checkpoint: nested, freed, and inputs that were written since") {
  const int64_t before = live_objects();
  {
    const Tensor x = leaf(f64({0.3, -0.8}, {2}));
    const auto inner = [](const Tensors& in) { return Tensors{sin(exp(in[0]))}; };
    const auto outer = [&](const Tensors& in) {
      return Tensors{checkpoint(inner, {square(in[0])})[0] * in[0]};
    };
    const Tensor expected = grad({sum(outer({x})[0])}, {x})[0];
    const Tensor y = checkpoint(outer, {x})[0];
    CHECK(values(grad({sum(y)}, {x})[0]) == values(expected));

    const Tensor h = x * 2.0;
    const Tensor z = checkpoint(inner, {h})[0];
    add_(h, 1.0);
    CHECK(error_of([&] { backward(sum(z)); }) ==
          "checkpoint: input 0 (2,) was changed by add_ since the first run; clone() it before the "
          "write");
  }
  CHECK(live_objects() == before);
}

TEST_CASE("checkpoint: a function that does not do the same again is an error") {
  const Tensor x = leaf(f64({0.3, -0.8}, {2}));
  int run = 0;
  const auto more = [&](const Tensors& in) {
    return Tensors{run++ ? exp(exp(in[0])) : exp(in[0])};
  };
  CHECK(
      error_of([&] { backward(sum(checkpoint(more, {x})[0])); }) ==
      "checkpoint: the first run saved 1 tensors, the second 2; the function must do the same each "
      "time");
  run = 0;
  const auto other = [&](const Tensors& in) {
    return Tensors{sum(run++ ? exp(slice(in[0], 0, 0, 1)) : exp(in[0]))};
  };
  CHECK(error_of([&] { backward(checkpoint(other, {x})[0]); }) ==
        "checkpoint: saved tensor 0 was f64 (2,) in the first run, is f64 (1,) in the second; the "
        "function must do the same each time");
}

TEST_CASE("anomaly detection names the op and where it was recorded") {
  const Tensor x = leaf(f64({0, 1}, {2}));
  Tensor y;
  {
    const DetectAnomaly on;
    const Trace model("model"), layer("layer 2");
    y = sum(sqrt(x) * f64({0, 1}, {2}));
  }
  backward(y, {.retain_graph = true});  // 0 * inf, unseen
  CHECK(std::isnan(values(x.grad())[0]));
  const DetectAnomaly on;
  CHECK(error_of([&] { backward(y); }) ==
        "sqrt: the cotangent of operand 0 (2,) has a NaN, those of the outputs have none; recorded "
        "at: model, layer 2");
}

TEST_CASE("backward into chosen leaves; zeros for unused inputs; seeds of complex roots") {
  const Tensor a = leaf(f64({2}, {})), b = leaf(f64({5}, {})), c = leaf(f64({1, 1}, {2}));
  const Tensor y = a * b;
  const Tensors only{b};
  backward(y, {.retain_graph = true, .inputs = &only});
  CHECK_FALSE(a.grad().defined());
  CHECK(b.grad().item() == 2);
  const Tensors none, inner{y};
  CHECK(error_of([&] { backward(y, {.inputs = &none}); }) ==
        "backward: the list of inputs is empty");
  CHECK(error_of([&] { backward(y * 2.0, {.inputs = &inner}); }) ==
        "backward: an input is the result of mul; only leaves accumulate a gradient, use grad()");
  CHECK(values(grad({y}, {c}, {}, {.retain_graph = true, .materialize_grads = true})[0]) ==
        std::vector<double>{0, 0});
  CHECK(error_of([&] { grad({y}, {c}); }) ==
        "grad: input 0 of shape (2,) was not used to compute the outputs; pass allow_unused to get "
        "an "
        "undefined gradient for it");
  Tensor z = Tensor::full({}, {1, 2}, DType::c128);
  z.set_requires_grad();
  CHECK(
      error_of([&] { backward(z * z); }) ==
      "backward: a seed can be left out for real tensors only, this one is c128; give a cotangent, "
      "or take abs() or real() first");
}

TEST_CASE(".grad is summed in place unless a graph is wanted") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  backward(sum(x * 3.0));
  const Tensor held = x.grad();
  backward(sum(x * 3.0));
  CHECK(values(held) == std::vector<double>{6, 6});
  backward(sum(x * x), {.create_graph = true});
  CHECK(values(held) == std::vector<double>{6, 6});
  CHECK(x.grad().requires_grad());
  x.set_grad(Tensor());
}

namespace {
// An op of a test, as a user would write one.
const OpInfo& op_with(const char* name, Tensor (*vjp)(GradFn&, size_t, std::span<const Tensor>)) {
  static std::map<std::string, OpInfo> ops;
  OpInfo& o = ops[name];
  o.name = name;
  o.user = true;
  o.operands = {{"x"}};
  o.forward = [](OpContext& ctx) {
    NoGrad off;
    ctx.outputs.push_back(square(ctx.inputs[0]));
    ctx.save_input(0);
  };
  o.vjp = vjp;
  return o;
}
}  // namespace

TEST_CASE("derivatives that are missing, or of a wrong shape") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor a = apply1(op_with("no_vjp", nullptr), {x});
  CHECK(error_of([&] { backward(sum(a)); }) == "no_vjp: the derivative is not implemented");
  const Tensor b = apply1(op_with("wrong_shape",
                                  [](GradFn&, size_t, std::span<const Tensor>) {
                                    return f64({1, 2, 3}, {3});
                                  }),
                          {x});
  CHECK(error_of([&] { backward(sum(b)); }) ==
        "wrong_shape: its vjp gave a cotangent of shape (3,) for operand 0, whose shape is (2,)");
  {
    ForwardLevel level;
    const Tensor dual = f64({1, 2}, {2});
    level.set_tangent(dual, f64({1, 1}, {2}));
    CHECK(error_of([&] { apply1(op_with("no_vjp", nullptr), {dual}); }) ==
          "no_vjp: has no forward-mode rule");
  }
}

TEST_CASE("a view that a user's function returned can't be written in place") {
  OpInfo o;
  o.name = "user_view";
  o.user = true;
  o.operands = {{"x"}};
  o.forward = [](OpContext& ctx) { ctx.outputs.push_back(ctx.inputs[0]); };
  o.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0] * 7.0; };
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor h = x * 2.0, y = apply1(o, {h});
  CHECK_FALSE(y.same_body(h));
  CHECK(
      error_of([&] { add_(y, 1.0); }) ==
      "add_: a view that a user's function returned is written in place, which would override that "
      "function's derivative; clone() it first");
  backward(sum(y));
  CHECK(values(x.grad()) == std::vector<double>{14, 14});
}

TEST_CASE("inference mode") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  Tensor made, view;
  {
    const InferenceMode on;
    CHECK_FALSE(grad_enabled());
    made = x * 2.0;
    add_(made, 1.0);  // inside it is an ordinary tensor
    view = select(made, 0, 0);
    CHECK_FALSE(made.requires_grad());
  }
  CHECK_FALSE(inference_mode());
  CHECK(made.is_inference());
  CHECK(view.is_inference());
  CHECK(values(made + made) == std::vector<double>{6, 10});
  CHECK(error_of([&] { x* made; }) ==
        "mul: an inference tensor (2,) can't be saved for backward; clone() it to get a normal "
        "tensor");
  CHECK(error_of([&] { add_(view, 1.0); }) ==
        "add_: a tensor made in inference mode is written in place outside of it; clone() it to "
        "get a "
        "normal one");
  CHECK(error_of([&] { made.set_requires_grad(); }) ==
        "requires_grad: this tensor was made in inference mode; clone() it to get a normal one");
  backward(sum(x * clone(made)));
  CHECK(values(x.grad()) == std::vector<double>{3, 5});
}
