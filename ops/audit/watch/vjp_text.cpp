// A vjp is made of ops, so to listen to it is to read it.
#include "ops/audit/watch/vjp_text.hpp"

#include "engine/arithmetic.hpp"
#include "engine/random.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/vjp_listener.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/check/rows.hpp"

#include <algorithm>

namespace gradus::inline v1::audit {

namespace {

VjpText told(const OpInfo& op, const Tensors& operands, const Attrs& attrs) {
  const Unwatched quiet;
  const EnableGrad on;
  // A device that nobody else looks at.
  Device& device = open_device("reference");
  const DeviceScope scope(device);
  std::vector<std::pair<std::string, Tensor>> leaves;
  Tensors moving;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor& x = operands[k];
    Tensor own = rows::upload(rows::download(x), x.sizes(), x.dtype(), device);
    if (is_floating(x.dtype())) moving.push_back(own.set_requires_grad());
    leaves.emplace_back(operand_variable(op, k, operands.size()), own);
  }
  Tensors inputs;
  for (const auto& [name, t] : leaves) inputs.push_back(t);
  VjpListener listener;
  const Tensors outputs = op.call(inputs, attrs);
  listener.begin_vjp();
  Tensors roots, seeds;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const Tensor& y = outputs[i]; y.requires_grad()) {
      roots.push_back(y);
      seeds.push_back(Tensor::full(y.sizes(), 1.0, y.dtype(), y.device()).set_requires_grad());
      listener.name(seeds.back(), numbered("g", i, outputs.size()));
    }
  for (const auto& [name, t] : leaves) listener.name(t, name);
  for (size_t i = 0; i < outputs.size(); ++i)
    listener.name(outputs[i], numbered("y", i, outputs.size()));
  Tensors g(moving.size());
  if (!roots.empty()) g = grad(roots, moving, seeds, {.create_graph = true, .allow_unused = true});
  std::vector<std::pair<std::string, Tensor>> results;
  for (size_t k = 0, m = 0; k < leaves.size(); ++k)
    if (leaves[k].second.requires_grad()) results.emplace_back("d" + leaves[k].first, g[m++]);
  return listener.text(results);
}

VjpText told(GradFn& node) {
  const Unwatched quiet;
  const EnableGrad on;  // so that no kernel does in one what ops can say
  const OpInfo& op = node.op();
  const size_t operands = node.inputs().size(), outputs = node.output_metas().size();
  const ReadNotes notes(node);
  VjpListener listener;
  listener.begin_vjp();
  Tensors g;
  for (size_t i = 0; i < outputs; ++i) {
    const TensorMeta& y = node.output_metas()[i];
    g.push_back(is_floating(y.dtype) ? Tensor::full(y.sizes, 1.0, y.dtype, *y.device) : Tensor());
    if (!g[i].defined()) continue;
    listener.name(g[i].set_requires_grad(), numbered("g", i, outputs));
  }
  int extras = 0;
  for (const Saved& s : node.saved())
    listener.name(s.tensor, s.role == Saved::Role::input ? operand_variable(op, s.index, operands)
                            : s.role == Saved::Role::output ? numbered("y", s.index, outputs)
                            : extras++                      ? join("saved", extras)
                                                            : "saved");
  std::vector<std::pair<std::string, Tensor>> results;
  for (size_t k = 0; k < operands; ++k) {
    if (!node.needs(k)) continue;
    const Shape& sizes = node.input_metas()[k].sizes;
    Tensor d = op.vjp(node, k, g);
    if (d.defined() && d.sizes() != sizes) d = arithmetic().sum_to(d, sizes);
    results.emplace_back("d" + operand_variable(op, k, operands), d);
  }
  return listener.text(results);
}

// Is there one, made of ops that may be run to be looked at?
bool has_vjp(const OpInfo& op) { return op.differentiable && !op.user && op.statement < 0; }

}  // namespace

std::vector<std::string> slopes_of(const OpInfo& op) {
  std::vector<std::string> out;
  if (op.statement < 0) return out;
  const def::StatementText& s = def::statement_info(op.statement);
  for (size_t k = 0; k < s.slopes.size(); ++k)
    if (!s.slopes[k].empty()) out.push_back("dy/d" + s.operands[k] + " = " + s.slopes[k]);
  return out;
}

VjpText vjp_text(const OpInfo& op, const Tensors& operands, const Attrs& attrs) {
  if (!has_vjp(op)) return {slopes_of(op), {}};
  struct Restore {
    Generator& random = default_generator();
    uint64_t seed = random.seed(), position = random.position();
    ~Restore() { random.set(seed, position); }
  } restore;
  return told(op, operands, attrs);
}

VjpText vjp_text(GradFn& node) {
  const auto packed = [](const Saved& s) { return s.packed != nullptr; };
  if (!has_vjp(node.op()) || !node.op().vjp || node.freed() ||
      std::any_of(node.saved().begin(), node.saved().end(), packed))
    return {slopes_of(node.op()), {}};
  try {
    return told(node);
  } catch (const Error&) {  // whoever walks there hears of it
    return {};
  }
}

int VjpText::calls() const {
  int n = 0;
  for (const auto& [name, times] : ops) n += times;
  return n;
}

std::string VjpText::ops_text() const {
  std::string out = join(calls(), calls() == 1 ? " op: " : " ops: ");
  for (const auto& op : ops)
    out +=
        (&op == &ops.front() ? "" : ", ") + op.first + (op.second > 1 ? join(" ", op.second) : "");
  return out;
}

std::vector<std::string> VjpText::words() const {
  return lines.empty() && !ops.empty() ? std::vector{"its vjp runs " + ops_text()} : lines;
}

}  // namespace gradus::audit
