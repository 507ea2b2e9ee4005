// From a watch to a recorded step, and from there to a live graph.
#include "ops/audit/step/trace.hpp"

#include "engine/hooks.hpp"
#include "ops/audit/watch/run.hpp"
#include "ops/shape/memory.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace gradus::inline v1::audit {

namespace {

// Are these the same elements of the same memory? Copies on write share it until one is written.
bool same_memory(const Tensor& a, const Tensor& b) {
  return a.storage().buffer() == b.storage().buffer() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.offset() == b.offset();
}

bool same_attrs(const Attrs& a, const Attrs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AttrValue& x, const AttrValue& y) {
                      return x.type == y.type && x.integer == y.integer && x.number == y.number &&
                             x.integers == y.integers && std::string_view(x.text) == y.text;
                    });
}

class Recorder {
 public:
  Recorder(const Watch& watch, const Tensors& roots, const Names& leaves, const Tensors& seeds,
           bool views)
      : watch_(watch), roots_(roots), views_(views) {
    for (const auto& [name, t] : leaves)
      if (t.defined() && t.is_leaf() && t.requires_grad()) add_leaf(name, t);
    step_.seeds = seeds;
    step_.seeds.resize(roots.size());
  }

  RecordedStep record() {
    for (const Tensor& r : roots_)
      if (!r.defined() || !r.grad_fn())
        fail(ErrorKind::autograd, "record", "a root has no history");
    calls_ = watch_.below(roots_);
    for (size_t i = 0; i < calls_.size(); ++i) ids_[calls_[i]->node.get()] = int(i);
    for (const Call* c : calls_) add_node(*c);
    for (const Tensor& r : roots_)
      step_.roots.push_back({Source::Kind::node, id_of(r.grad_fn()), int(r.output_index())});
    walk();
    Device& device = roots_[0].device();
    step_.device = device.name();
    step_.arch = device.info().arch;
    step_.build = device.table().build;
    return std::move(step_);
  }

 private:
  int id_of(const GradFn* node) const {
    const auto at = ids_.find(node);
    if (at == ids_.end())
      fail(ErrorKind::autograd, "record", node->op().name, " ran before the watch began");
    return at->second;
  }

  int add_leaf(std::string name, const Tensor& t) {
    const auto [at, fresh] = leaf_ids_.try_emplace(t.body()->autograd.get(), step_.leaves.size());
    if (!fresh) return int(at->second);
    if (name.empty()) name = join("leaf", int64_t(step_.leaves.size()));
    while (!names_.insert(name).second) name += "'";
    if (const auto& hooks = t.body()->autograd->hooks; hooks && !hooks->grad.functions().empty())
      fail(ErrorKind::autograd, "record", "leaf ", name, " has a hook, which no file can hold");
    step_.leaves.push_back({name, t.clone_data(), {}});
    leaf_tensors_.push_back(t);
    return int(at->second);
  }

  int add_constant(const Tensor& t) {
    if (!t.is_number()) {
      // By sizes as well: the buffer alone may be shared by many views.
      std::vector<int>& alike = constants_[t.storage().buffer().get()];
      for (const int k : alike)
        if (same_memory(step_.constants[size_t(k)], t)) return k;
      alike.push_back(int(step_.constants.size()));
    }
    step_.constants.push_back(t);
    return int(step_.constants.size()) - 1;
  }

  Source source_of(const Call& c, size_t k) {
    const Edge& edge = c.node->inputs()[k];
    const Tensor& seen = c.inputs[k];
    if (edge.fn) return {Source::Kind::node, id_of(edge.fn.get()), int(edge.index)};
    if (!seen.defined()) return {};
    if (!edge.leaf) return {Source::Kind::constant, add_constant(seen), 0};
    Tensor handle = seen.detach();  // the program's own may be gone
    handle.body()->autograd = edge.leaf;
    const int id = add_leaf("", handle);
    RecordedLeaf& leaf = step_.leaves[size_t(id)];
    // As its first use saw it; an optimiser may have written it since, but not between two uses.
    if (used_leaves_.insert(id).second)
      leaf.value = seen;
    else if (!same_memory(leaf.value, seen))
      fail(ErrorKind::autograd, "record", "leaf ", leaf.name,
           " was written between two of its uses; clone() it first");
    return {Source::Kind::leaf, id, 0};
  }

  void add_node(const Call& c) {
    if (find_op(c.op->name) != c.op)
      fail(ErrorKind::autograd, "record", c.op->name, " is not in the op list, so nobody could ",
           "run it again; register it");
    if (c.node->freed())
      fail(ErrorKind::autograd, "record", "the graph was freed by a backward pass; record before, ",
           "or pass retain_graph");
    if (const NodeHooks* hooks = c.node->hooks_if_any()) {
      bool any = !hooks->before.functions().empty() || !hooks->after.functions().empty();
      for (const NodeHooks::Output& o : hooks->outputs) any |= !o.grad.functions().empty();
      if (any)
        fail(ErrorKind::autograd, "record", c.op->name, " has a hook, which no file can hold");
    }
    RecordedNode node;
    node.op = c.op;
    node.attrs = c.node->attrs();
    node.where = c.where;
    for (size_t k = 0; k < c.inputs.size(); ++k) node.inputs.push_back(source_of(c, k));
    for (const Tensor& y : c.outputs) {
      RecordedOutput out{y.sizes(), y.dtype(), {}, {}};
      // A view repeats what its operand holds. A write in place is told of before it is done: its
      // output is still its operand, and what it gave is seen by those that read it.
      const bool repeats =
          c.op->is_view || std::any_of(c.inputs.begin(), c.inputs.end(), [&](const Tensor& x) {
            return x.defined() && !x.is_number() && same_memory(x, y);
          });
      if (views_ || !repeats) out.value = y;
      node.outputs.push_back(std::move(out));
    }
    step_.nodes.push_back(std::move(node));
  }

  void walk() {
    const Unwatched quiet;
    std::vector<Ref<GradFn>> nodes;
    for (const Call* c : calls_) nodes.push_back(c->node);
    const RetainedAsBefore retained(nodes);
    const Hooked hooked(nodes, [this](int id, Tensors& g) {
      RecordedNode& node = step_.nodes[size_t(id)];
      for (size_t k = 0; k < g.size() && k < node.outputs.size(); ++k)
        if (g[k].defined() && (views_ || !node.op->is_view))
          node.outputs[k].cotangent = g[k].detach();
    });
    const Tensors g = grad(roots_, leaf_tensors_, seeds_or_ones(roots_, step_.seeds),
                           {.retain_graph = true, .allow_unused = true});
    for (size_t i = 0; i < g.size(); ++i)
      if (g[i].defined()) step_.leaves[i].gradient = g[i].detach();
  }

  const Watch& watch_;
  const Tensors& roots_;
  const bool views_;
  RecordedStep step_;
  std::vector<const Call*> calls_;
  std::map<const GradFn*, int> ids_;
  std::map<const Autograd*, size_t> leaf_ids_;
  std::map<const Buffer*, std::vector<int>> constants_;
  std::set<int> used_leaves_;
  std::set<std::string> names_;
  Tensors leaf_tensors_;
};

Tensor on(const Tensor& t, Device& device) {
  return !t.defined() || t.is_number() ? t
         : &t.device() == &device      ? t.clone_data()
                                       : to_device(t, device);
}

// The attributes of the node that the door made, if it is this one but for them; else null.
const Attrs* attrs_of_node(const Tensors& out, const OpInfo& op, const Tensors& in) {
  const auto made = std::find_if(out.begin(), out.end(),
                                 [](const Tensor& y) { return y.defined() && y.grad_fn(); });
  if (made == out.end()) return nullptr;
  const GradFn& node = *made->grad_fn();
  if (&node.op() != &op) return nullptr;
  if (node.inputs().size() != in.size() || node.output_metas().size() != out.size()) return nullptr;
  for (size_t k = 0; k < in.size(); ++k) {
    const Edge& edge = node.inputs()[k];
    if (!in[k].defined()) {
      if (edge.leads_somewhere()) return nullptr;
    } else if (edge.fn.get() != in[k].grad_fn()) {
      return nullptr;
    } else if (edge.fn ? edge.index != in[k].output_index()
                       : in[k].requires_grad() && edge.leaf != in[k].body()->autograd) {
      return nullptr;
    } else if (!(node.input_metas()[k].sizes == in[k].sizes())) {
      return nullptr;
    }
  }
  return &node.attrs();
}

// Through the op's door, which checks what a file from elsewhere says. A door that makes other
// nodes of it has checked as much; then the primitive runs alone. Attributes that the door puts
// right were never recorded: the primitive would take an axis of -1 as it stands.
Tensors call(const RecordedNode& node, const Tensors& in) {
  Tensors out = node.op->call(in, node.attrs);
  if (const Attrs* const made = attrs_of_node(out, *node.op, in)) {
    if (same_attrs(*made, node.attrs)) return out;
    fail(ErrorKind::io, node.op->name, "attributes that no recorded node has, such as an axis ",
         "counted from the end; the file is no step that gradus recorded");
  }
  out.clear();
  for (Tensor& y : apply(*node.op, in, node.attrs)) out.push_back(std::move(y));
  return out;
}

}  // namespace

RecordedStep record(const Watch& watch, const Tensors& roots, const Names& leaves,
                    const Tensors& seeds, bool views) {
  if (roots.empty()) fail(ErrorKind::autograd, "record", "there is no root");
  return Recorder(watch, roots, leaves, seeds, views).record();
}

LiveStep run(const RecordedStep& step, Device& device) {
  const DeviceScope here(device);
  const EnableGrad recorded;
  LiveStep live;
  for (const RecordedLeaf& l : step.leaves)
    live.leaves.emplace_back(l.name, on(l.value, device).set_requires_grad());
  Tensors constants;
  for (const Tensor& c : step.constants) constants.push_back(on(c, device));
  std::vector<Tensors> made(step.nodes.size());
  const auto tensor = [&](const Source& s) {
    switch (s.kind) {
      case Source::Kind::node:
        return made[size_t(s.id)][size_t(s.output)];
      case Source::Kind::leaf:
        return live.leaves[size_t(s.id)].second;
      case Source::Kind::constant:
        return constants[size_t(s.id)];
      default:
        return Tensor();
    }
  };
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    const RecordedNode& node = step.nodes[i];
    Tensors in;
    for (const Source& s : node.inputs) in.push_back(tensor(s));
    std::optional<Trace> place;
    if (!node.where.empty()) place.emplace(node.where);
    try {
      made[i] = call(node, in);
    } catch (const Error& e) {
      const bool refused = e.kind() <= ErrorKind::autograd;  // else the machine is at fault
      if (refused && !step.file.empty())
        fail(ErrorKind::io, step.file, "node %", int64_t(i), ": ", e.what());
      fail(e.kind(), join("%", int64_t(i)), e.what());
    }
    bool fits = made[i].size() == node.outputs.size();
    for (size_t k = 0; fits && k < made[i].size(); ++k)
      fits = made[i][k].sizes() == node.outputs[k].sizes &&
             made[i][k].dtype() == node.outputs[k].dtype;
    if (!fits)
      fail(step.file.empty() ? ErrorKind::shape : ErrorKind::io,
           step.file.empty() ? "step" : step.file, "node %", int64_t(i), ": ", node.op->name,
           " gives other outputs than were recorded",
           made[i].empty() ? std::string()
                           : join(": ", made[i][0].dtype(), " ", made[i][0].sizes()));
  }
  for (const Source& s : step.roots) live.roots.push_back(tensor(s));
  for (const Tensor& s : step.seeds) live.seeds.push_back(on(s, device));
  return live;
}

RecordedStep run_again(const RecordedStep& step, Device& device, bool views) {
  const Watch watch;
  const LiveStep live = run(step, device);
  RecordedStep again =
      blaming_file(step, [&] { return record(watch, live.roots, live.leaves, live.seeds, views); });
  again.title = step.title;
  return again;
}

RecordedStep widened(RecordedStep step) {
  const auto widen = [](Tensor& t) {
    if (t.defined() && !t.is_number()) t = cast(t, wide(t.dtype()));
  };
  for (RecordedNode& n : step.nodes) {
    for (AttrValue& a : n.attrs)
      if (a.type == AttrValue::Type::dtype) a = AttrValue(wide(a.dtype()));
    for (RecordedOutput& o : n.outputs) o = {o.sizes, wide(o.dtype), {}, {}};
  }
  for (RecordedLeaf& l : step.leaves) {
    widen(l.value);
    l.gradient = {};
  }
  for (Tensor& c : step.constants) widen(c);
  for (Tensor& s : step.seeds) widen(s);
  return step;
}

}  // namespace gradus::audit
