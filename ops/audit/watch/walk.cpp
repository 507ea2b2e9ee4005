// Looking on while the engine walks.
#include "ops/audit/watch/walk.hpp"

#include <algorithm>
#include <unordered_set>

namespace gradus::inline v1::audit {

std::vector<Ref<GradFn>> nodes_behind(const Tensors& roots,
                                      const std::function<bool(const GradFn*)>& known) {
  std::vector<Ref<GradFn>> nodes;
  std::unordered_set<const GradFn*> seen;
  const auto visit = [&](GradFn* fn) {
    if (fn && !(known && known(fn)) && seen.insert(fn).second) nodes.emplace_back(fn);
  };
  for (const Tensor& r : roots)
    if (r.defined()) visit(r.grad_fn());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& e : nodes[i].get()->inputs()) visit(e.fn.get());
  std::sort(nodes.begin(), nodes.end(), [](const Ref<GradFn>& a, const Ref<GradFn>& b) {
    return a->sequence() < b->sequence();
  });
  return nodes;
}

Tensors seeds_or_ones(const Tensors& roots, const Tensors& seeds) {
  Tensors out = seeds;
  out.resize(roots.size());
  for (size_t i = 0; i < roots.size(); ++i)
    if (!out[i].defined())
      out[i] = Tensor::full(roots[i].sizes(), 1.0, roots[i].dtype(), roots[i].device());
  return out;
}

Tensor handle_of(const Ref<Autograd>& leaf, const TensorMeta& meta) {
  Tensor t = Tensor::zeros(meta.sizes, meta.dtype, *meta.device);
  t.body()->autograd = leaf;
  return t;
}

Hooked::Hooked(const std::vector<Ref<GradFn>>& nodes, const Before& before, const After& after) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int id = int(i);
    if (before)
      handles_.push_back(register_prehook(*nodes[i], [=](Tensors& came) { before(id, came); }));
    if (after)
      handles_.push_back(register_hook(
          *nodes[i], [=](Tensors& sent, const Tensors& came) { after(id, sent, came); }));
  }
}
Hooked::~Hooked() {
  for (HookHandle& h : handles_) h.remove();
}

RetainedAsBefore::RetainedAsBefore(const std::vector<Ref<GradFn>>& nodes) {
  for (const Ref<GradFn>& node : nodes)
    if (const NodeHooks* hooks = node->hooks_if_any())
      for (const NodeHooks::Output& o : hooks->outputs)
        if (o.retained) before_.emplace_back(o.retained, o.retained->grad);
}
RetainedAsBefore::~RetainedAsBefore() {
  for (const auto& [slot, g] : before_) slot->grad = g;
}

ReadNotes::ReadNotes(const GradFn& node) : node_(node) {
  for (const Saved& s : node.saved()) read_.push_back(s.read);
}
ReadNotes::~ReadNotes() {
  for (size_t i = 0; i < read_.size(); ++i) node_.saved()[i].read = read_[i];
}

}  // namespace gradus::audit
