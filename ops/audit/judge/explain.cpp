// Reads what the stepper kept, and asks the node one more question: its vjp of one element.
#include "ops/audit/judge/explain.hpp"

#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/run.hpp"
#include "ops/audit/watch/vjp_text.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/linalg/remarks.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::audit {

namespace {

// What the walk does to the cotangent of an operand that is smaller than the output; "" if nothing.
std::string broadcast_text(const std::string& name, const Shape& from, const Shape& to) {
  if (from == to || from.size() > to.size()) return "";
  const size_t lead = to.size() - from.size();
  Shape axes;
  int64_t terms = 1;
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t n = d < lead ? 1 : from[d - lead];
    if (n != to[d] && n != 1) return "";
    if (d >= lead && n == to[d]) continue;
    axes.push_back(int64_t(d));
    terms *= to[d];
  }
  if (terms == 1) return "";
  return join(name, " ", from, " is broadcast to ", to, ": each element of its cotangent is a sum ",
              "of ", terms, " terms, over ", axes.size() == 1 ? "axis " : "axes ", to_text(axes));
}

size_t largest(const Parts& p) {
  size_t at = 0;
  for (size_t i = 1; i < p.size(); ++i)
    if (std::isfinite(p[i]) && !(std::abs(p[i]) <= std::abs(p[at]))) at = i;
  return at;
}

bool real(const Tensor& t) { return t.defined() && is_real_float(t.dtype()) && t.numel() > 0; }

std::optional<ElementStory> example_of(const Stepper& s, int id, const Call* call) {
  const int turn = s.turn_of(id);
  if (turn < 0 || turn >= int(s.position())) return {};
  const Turn& t = s.turns()[size_t(turn)];
  GradFn& node = *s.nodes()[size_t(id)];
  ElementStory story;
  for (const Tensor& g : t.in) {
    if (real(g)) break;
    ++story.output;
  }
  if (size_t(story.output) == t.in.size()) return {};
  const Tensor& g = t.in[size_t(story.output)];
  Parts cotangent = parts_of(g);
  // Where most passes on, if that can be told by the place; else where most comes in.
  size_t at = largest(cotangent);
  for (const Tensor& out : t.out)
    if (real(out) && out.sizes() == g.sizes() && node.op().statement >= 0) {
      at = largest(parts_of(out));
      break;
    }
  story.element = index_of(g, at);
  story.cotangent = cotangent[at];
  if (call) story.value = parts_of(call->outputs[size_t(story.output)])[at];
  for (size_t i = 0; i < cotangent.size(); ++i) cotangent[i] = i == at;
  Tensors in(t.in.size());
  in[size_t(story.output)] = of_parts(cotangent, g.sizes(), g.dtype(), g.device());
  for (size_t k = 0; k < node.inputs().size(); ++k) {
    if (!s.target(id, int(k))) continue;
    const Tensor slope = pull(node, k, in);
    if (!real(slope)) continue;
    const Parts p = parts_of(slope);
    const size_t most = largest(p);
    ElementStory::Operand o{int(k), 0,       index_of(slope, most),
                            0,      p[most], story.cotangent * p[most]};
    o.reached = std::count_if(p.begin(), p.end(), [](double x) { return x != 0; });
    if (call) o.value = parts_of(call->inputs[k])[most];
    story.operands.push_back(std::move(o));
  }
  return story;
}

}  // namespace

NodeStory explain_node(const Stepper& s, int id, const Watch& watch) {
  const Unwatched quiet;
  const NoGrad off;
  GradFn& node = *s.nodes()[size_t(id)];
  NodeStory story{s.call_text(id),
                  std::string(node.trace()),
                  node.op().formula,
                  vjp_text(node).words(),
                  {},
                  {},
                  {}};
  if (node.output_metas().size() == 1 && node.op().statement >= 0)
    for (size_t k = 0; k < node.inputs().size(); ++k) {
      const std::string text = broadcast_text(
          operand_label(node.op(), k), node.input_metas()[k].sizes, node.output_metas()[0].sizes);
      if (!text.empty() && s.target(id, int(k))) story.broadcasts.push_back(text);
    }
  const Call* const call = watch.find(&node);
  if (call) story.remark = linalg::remark_on(node.op(), call->inputs, call->outputs);
  story.example = example_of(s, id, call);
  return story;
}

}  // namespace gradus::audit
