// Keeping calls.
#include "ops/audit/watch/watch.hpp"

#include <unordered_set>

namespace gradus::inline v1::audit {

namespace {

Tensor value_of(const Tensor& t) { return !t.defined() || t.is_number() ? t : t.clone_data(); }

Call::Place place_of(const Tensor& t) {
  if (!t.defined() || t.is_number()) return {};
  return {Ref<Storage>(&t.storage()), t.requires_grad(), t.dtype()};
}

}  // namespace

std::string Call::shapes() const {
  std::string s;
  for (const Tensor& t : inputs)
    s += s.empty() ? "" : ", ", s += t.defined() ? join(t.dtype(), t.sizes()) : "none";
  return s;
}

void Watch::called(const OpContext& c, GradFn* node) {
  Observer::called(c, node);
  Call call{&c.op, Ref<GradFn>(node), {}, {}, trace_text(), gradus::grad_enabled(), {}, {}};
  for (const Tensor& t : c.inputs) call.read.push_back(place_of(t));
  for (const Tensor& t : c.outputs) call.made.push_back(place_of(t));
  if (node) {
    for (const Tensor& t : c.inputs) call.inputs.push_back(value_of(t));
    for (const Tensor& t : c.outputs) call.outputs.push_back(value_of(t));
  }
  calls_.push_back(std::move(call));
  if (node) by_node_[node] = &calls_.back();
}

const Call* Watch::find(const GradFn* node) const {
  const auto it = by_node_.find(node);
  return it == by_node_.end() ? nullptr : it->second;
}

std::vector<const Call*> Watch::below(const Tensors& roots) const {
  std::unordered_set<const GradFn*> seen;
  for (const Ref<GradFn>& node : nodes_behind(roots)) seen.insert(node.get());
  std::vector<const Call*> found;
  for (const Call& c : calls_)
    if (c.node && seen.contains(c.node.get())) found.push_back(&c);
  return found;
}

}  // namespace gradus::audit
