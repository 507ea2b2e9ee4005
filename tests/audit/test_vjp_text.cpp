// Derivatives as formulas: read off what runs, for every op that is no statement, and computed as
// they are written.
#include "ops/audit/watch/vjp_text.hpp"

#include "cli/ops/op_example.hpp"
#include "engine/random.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/check/check.hpp"
#include "ops/random/sampling.hpp"
#include "tests/oracles/formula.hpp"
#include "tests/helpers/helpers.hpp"

using namespace gradus;
using Lines = std::vector<std::string>;
using gradus::test::Formula;

namespace {

Tensors tensors_of(const NamedTensors& named) {
  Tensors out;
  for (const auto& [name, t] : named) out.push_back(t);
  return out;
}
audit::VjpText text_of(const OpInfo& op, const cli::OpExample& e) {
  return audit::vjp_text(op, tensors_of(e.inputs), rows::attrs_of(op, e.attrs));
}
std::string lines_of(const char* name, const std::vector<Shape>& shapes,
                     const rows::NamedAttrs& attrs = {}) {
  Tensors operands;
  for (const Shape& s : shapes) operands.push_back(Tensor::full(s, 0.5, DType::f64));
  std::string text;
  for (const std::string& line :
       audit::vjp_text(get_op(name), operands, rows::attrs_of(get_op(name), attrs)).lines)
    text += (text.empty() ? "" : "; ") + line;
  return text;
}

bool all_near(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  const rows::Numbers x = rows::download(a), y = rows::download(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= 1e-11 * std::max(1.0, std::abs(y[i])))) return false;
  return true;
}

// Computes the lines as they are written, from the example's operands, results and cotangents, and
// holds them against its gradients.
void check_formulas(const Lines& lines, const cli::OpExample& e) {
  Formula::Values values;
  for (const NamedTensors* tensors : {&e.inputs, &e.outputs, &e.cotangents})
    for (const auto& [name, t] : *tensors) values[name] = {t};
  manual_seed(rows::kCheckSeed);
  size_t seen = 0;
  for (const std::string& line : lines) {
    CAPTURE(line);
    const size_t at = line.find(" = ");
    REQUIRE(at != std::string::npos);
    const std::string to = line.substr(0, at);
    std::string text = line.substr(at + 3);
    text = text.substr(0, text.find(", as the call drew"));
    CHECK(!values.contains(to));
    values[to] = Formula(text, values, DType::f64).value();
    for (const auto& each : e.gradients) {
      if (each.first != to) continue;
      const Tensor& gradient = each.second;
      ++seen;
      const Tensor got = values[to].at(0);
      CHECK_MESSAGE(all_near(text == "0" ? zeros_like(gradient) : got, gradient),
                    got.to_string() << " is not " << gradient.to_string());
    }
  }
  CHECK(seen == e.gradients.size());
}

}  // namespace

TEST_CASE("vjp text: every formula, computed as it is written, gives the example's gradients") {
  const DeviceScope scope(open_device("reference"));
  const NoGrad off;
  size_t computed = 0, too_long = 0;
  for (const OpInfo& op : all_ops()) {
    if (op.user) continue;
    CAPTURE(op.name);
    const cli::OpExample e = cli::example_of(op, default_device());
    const audit::VjpText text = text_of(op, e);
    if (!op.differentiable) CHECK(text.lines.empty());
    if (!op.differentiable || op.statement >= 0) continue;
    if (text.lines.empty()) {
      ++too_long;
      CHECK(text.ops.size() > 3);
      continue;
    }
    ++computed;
    check_formulas(text.lines, e);
  }
  CHECK(computed > 10 * too_long);
}

TEST_CASE("vjp text: the attributes, sizes and letters that it had") {
  CHECK(audit::slopes_of(get_op("sigmoid")) == Lines{"dy/dx = y * (1 - y)"});
  CHECK(lines_of("sigmoid", {{3}}) == "dy/dx = y * (1 - y)");
  CHECK(lines_of("argmax", {{3}}) == "");
  CHECK(lines_of("sgn", {{3}}) == "dx = 0");
  CHECK(lines_of("cumsum", {{3, 5}}, {{"dim", 1}}) == "dx = cumsum(g, dim=1, reverse=true)");
  CHECK(lines_of("matmul", {{2, 3}, {3, 4}}) ==
        "da = einsum(\"ik,jk->ij\", g, b); db = einsum(\"ij,ik->jk\", a, g)");
  CHECK(lines_of("softmax", {{2, 3}}, {{"dim", 1}}) ==
        "dx = y * (g - sum(g * y, dim=[1], keepdim=true))");
  CHECK(lines_of("permute", {{2, 3, 4}}, {{"dims", SmallVector<int64_t, 6>{2, 0, 1}}}) ==
        "dx = permute(g, dims=[1, 2, 0])");
  CHECK(lines_of("cat", {{2}, {3}}) ==
        "dtensors0 = slice(g, end=2); dtensors1 = slice(g, start=2, end=5)");
  CHECK(lines_of("addcmul", {{2}, {2}, {2}}, {{"value", 0.5}}) ==
        "dx = g; t1 = g * 0.5; da = t1 * b; db = t1 * a");
  CHECK(lines_of("mean", {{7}}) == "dx = expand(reshape(g * 1 / 7, shape=[1]), size=[7])");
  CHECK(lines_of("dropout", {{4}}, {{"p", 0.25}}) ==
        "mask = bernoulli(size=[4], p=0.75), as the call drew and saved it; "
        "dx = g * mask * 1.3333333333333333");
}

// The node of an op's call, which the text must read off what it saved.
TEST_CASE("vjp text: of a node, with its own sizes, and nothing of it is changed") {
  Tensor x = Tensor::full({4, 6}, 0.5, DType::f32).set_requires_grad();
  const auto text_of = [](const Tensor& y) {
    std::string text;
    for (const std::string& line : audit::vjp_text(*y.grad_fn()).lines)
      text += (text.empty() ? "" : "; ") + line;
    return text;
  };
  CHECK(text_of(exp(x)) == "dy/dx = y");
  CHECK(text_of(softmax(x, 1)) == "dx = y * (g - sum(g * y, dim=[1], keepdim=true))");
  CHECK(text_of(sum(x, {0})) == "dx = expand(reshape(g, shape=[1, 6]), size=[4, 6])");
  CHECK(text_of(cumsum(x, 1)) == "dx = cumsum(g, dim=1, reverse=true)");
  const Tensor w = Tensor::full({6, 2}, 0.5, DType::f32).set_requires_grad();
  const Tensor y = matmul(x, w);
  CHECK(text_of(y) == "da = einsum(\"ik,jk->ij\", g, b); db = einsum(\"ij,ik->jk\", a, g)");
  for (const Saved& s : y.grad_fn()->saved()) CHECK(!s.read);
  backward(sum(y));
  CHECK(text_of(y) == "");  // freed
}

TEST_CASE("vjp text: a longer derivative is told by its ops, and nobody notices") {
  manual_seed(5);
  const double first = uniform({1}).item();
  manual_seed(5);
  const audit::Watch watch;
  const Tensor x = Tensor::full({3}, 0.5, DType::f64);
  const audit::VjpText text = audit::vjp_text(get_op("logcumsumexp"), {x},
                                              rows::attrs_of(get_op("logcumsumexp"), {{"dim", 0}}));
  CHECK(text.lines.empty());
  CHECK(text.ops_text() == "54 ops: slice 4, add 12, div 2, mul 18, where 12, embed 6");
  CHECK(text.words() == Lines{"its vjp runs " + text.ops_text()});
  lines_of("dropout", {{4}});
  CHECK(!x.requires_grad());
  CHECK(watch.calls().empty());
  CHECK(uniform({1}).item() == first);
}
