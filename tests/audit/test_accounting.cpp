// The books of backward: right ones balance, on every kind of graph; what is planted is found, by
// its check, and nothing else.
#include "cli/look/one_step.hpp"
#include "engine/kernel_call.hpp"
#include "engine/hooks.hpp"
#include "ops/audit/step/accounting.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/random_graph.hpp"
#include "tests/helpers/sizes.hpp"

using namespace gradus;
using namespace gradus::testing;
using gradus::audit::Account;
using gradus::audit::Imbalance;
using gradus::audit::Stepper;

namespace {

Account account_of(const Tensors& roots,
                   const std::vector<std::pair<std::string, Tensor>>& leaves = {}) {
  Stepper s(roots, leaves);
  if (s.error().empty()) s.run({});
  return audit::account(s);
}
std::string told(const Account& a) {
  std::string text;
  for (const Imbalance& f : a.findings) text += f.check + ": " + f.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("accounting: right books balance") {
  for (unsigned seed = 0; seed < (test::small_sizes() ? 5u : 30u); ++seed) {
    CAPTURE(seed);
    std::vector<Ref<GradFn>> nodes;
    {
      const RandomGraph g(seed);
      nodes = audit::nodes_behind({g.root});
      backward(g.root, {.retain_graph = true});
      const Account a = account_of({g.root}, g.leaves);
      CHECK(told(a) == "");
      CHECK(a.nodes == nodes.size());
      CHECK(a.deliveries > a.nodes);
    }
    CHECK(audit::leaked(std::move(nodes)).empty());
  }
}

TEST_CASE("accounting: a .grad that is another's memory, a parameter's, or a saved tensor's") {
  const Tensor a = leaf(f64({1, 2}, {2})), b = leaf(f64({3, 4}, {2})), x = f64({5, 6}, {2});
  const Tensor first = a * x, y = sum(first + b * b);
  const auto books = [&] { return told(account_of({y}, {{"a", a}, {"b", b}})); };
  backward(y, {.retain_graph = true});
  CHECK(books() == "");
  const Tensor before = a.grad();
  a.set_grad(b.grad());
  CHECK(books() == "alias: the .grad of b is the memory of the .grad of a\n");
  a.set_grad(x);
  CHECK(books() == "alias: the .grad of a is the memory of what %0 mul saved\n");
  a.set_grad(b.detach());
  CHECK(books() == "alias: the .grad of a is the memory of b\n");
  a.set_grad(before.clone_data());  // shared until it is written: no alias
  CHECK(books() == "");
}

TEST_CASE("accounting: an extra accumulation, hooks, and what was set by hand") {
  const Tensor a = leaf(f64({1, 2}, {2}));
  const Tensor h = a * 3.0, y = sum(h * h);
  HookHandle twice = register_hook(h, [](const Tensor& g) { return g + g; });
  const Account hooked = account_of({y});
  CHECK(hooked.bad() == 0);
  CHECK(told(hooked) == "hook: a hook changed the cotangent of %0 mul\n");
  twice.remove();

  Stepper s({y});
  s.set(0, 0, f64({1, 1}, {2}));
  s.run({});
  CHECK(told(audit::account(s)) == "hook: the cotangent of %0 mul was set by hand\n");

  // A hook writes into a cotangent that was added up already.
  const Tensor square = h * h;
  Tensor sent;
  register_hook(*square.grad_fn(), [&](Tensors& in, const Tensors&) { sent = in[0]; });
  register_hook(*h.grad_fn(), [&](Tensors&, const Tensors&) {
    sent.storage().write("thief");
    fill_values(sent, 7, 0);
  });
  CHECK(told(account_of({sum(square)})) ==
        "sum: what %0 mul got is not the sum of the 2 cotangents that it was sent\n");
}

namespace {
// y = x, and y is kept as if it were not the node's own.
const OpInfo& owns_itself() {
  static const OpInfo op = [] {
    OpInfo o;
    o.name = "owns_itself";
    o.operands = {{"x"}};
    o.forward = [](OpContext& ctx) {
      ctx.outputs.push_back(ctx.inputs[0].clone_data());
      ctx.save(ctx.outputs[0]);
    };
    o.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };
    return o;
  }();
  return op;
}
}  // namespace

TEST_CASE("accounting: a node that owns itself, a node that is held, a node that fails") {
  const Tensor a = leaf(f64({1, 2}, {2}));
  std::vector<Ref<GradFn>> nodes;
  {
    const Tensor y = sum(apply1(owns_itself(), {a}));
    nodes = audit::nodes_behind({y});
    CHECK(told(account_of({y})) ==
          "cycle: %0 owns_itself saved a tensor that holds it, so neither is ever freed; save "
          "outputs by save_output()\n");
  }
  GradFn* const owner = nodes[0].get();
  std::vector<Imbalance> found = audit::leaked(std::move(nodes));
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "%0 owns_itself is still held by 1 other");
  owner->free_saved();  // or the test itself would leak

  Tensor kept;
  {
    const Tensor y = sum(kept = a * 2.0);
    nodes = audit::nodes_behind({y});
  }
  found = audit::leaked(std::move(nodes));
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == "%0 mul is still held by 1 other");

  const Tensor b = a * 3.0, y = sum(b * b);
  {
    const NoGrad off;
    add_(b, 1.0);
  }
  const Account failed = account_of({y});
  CHECK(failed.bad() == 1);
  CHECK(failed.findings[0].check == "walk");
}

TEST_CASE("accounting: the command, on networks of every kind") {
  const test::TempFolder folder;
  for (const char* config : {"mlp/digits.json", "lenet/digits.json", "transformer/copy.json"}) {
    CAPTURE(config);
    const test::ProgramRun r =
        test::run(folder, std::string("audit ") + GRADUS_SOURCE_DIR + "/configs/" + config +
                              " --accounting --set data.train=64 --set data.test=8");
    CHECK(r.code == 0);
    CHECK(r.err.empty());
    CHECK(r.out.find("sums, each once: the books balance\n") != std::string::npos);
  }
}
