// The one walk of reverse mode. Nodes wait in a heap by sequence number, later forward ops first;
// as every consumer of a node was recorded after it, a node that comes up has all its cotangents.
// Broadcast sums are done here, once, for all ops.
#include "engine/batch.hpp"
#include "engine/hooks.hpp"

#include <algorithm>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace gradus {

namespace {

// A cotangent being summed. It is added to in place only when this sum made the buffer itself.
struct Sum {
  Tensor value;
  bool owned = false;
};

bool any_nan(const SmallVector<Tensor, 1>& g) {
  return std::any_of(g.begin(), g.end(),
                     [](const Tensor& t) { return t.defined() && arithmetic().has_nan(t); });
}

// g as the result of an op that refuses to be differentiated; its history is the node's.
Tensor forbid_twice(GradFn& node, const Tensor& g) {
  static const OpInfo op = [] {
    OpInfo o;
    o.name = "once_differentiable";
    o.forward = [](OpContext& ctx) { ctx.outputs.push_back(ctx.inputs[0].detach()); };
    o.vjp = [](GradFn& n, size_t, std::span<const Tensor>) -> Tensor {
      fail(ErrorKind::autograd, n.attr(0).text,
           "its derivative is differentiated, but the op is marked once differentiable");
    };
    o.jvp = [](GradFn& n, size_t, std::span<const Tensor> t) { return n.op().vjp(n, 0, t); };
    return o;
  }();
  const TensorMeta& meta = node.output_metas()[0];
  const Tensor y = Tensor::empty(Shape(meta.sizes.size(), 0), meta.dtype, *meta.device);
  Autograd& a = autograd_of(y);
  a.fn = Ref<GradFn>(&node);
  return apply1(op, {g, y}, {node.op().name.c_str()});
}

// Gradients that node hooks may have replaced.
void check_hooked(const OpInfo& op, const Tensors& left, std::span<const TensorMeta> metas) {
  if (left.size() != metas.size())
    fail(ErrorKind::autograd, op.name, "a hook left ", int64_t(left.size()), " gradients of ",
         int64_t(metas.size()));
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].defined() &&
        (!(left[i].sizes() == metas[i].sizes) || left[i].dtype() != metas[i].dtype))
      fail(ErrorKind::autograd, op.name, "a hook left a gradient ", left[i].dtype(), " ",
           left[i].sizes(), ", expected ", metas[i].dtype, " ", metas[i].sizes);
}

// Leaves are shared between threads: one of some locks guards each .grad.
std::mutex& lock_of(const void* leaf) {
  static std::mutex locks[64];
  return locks[(reinterpret_cast<uintptr_t>(leaf) >> 6) % 64];
}

// A mark for each node of a set: a table of twice as many places, searched from the place that the
// node's address gives.
class NodeMarks {
 public:
  // Takes a node in, unmarked; false if it is there.
  bool insert(const GradFn* node) {
    if (2 * (count_ + 1) > places_.size()) {
      std::vector<Place> old(std::max<size_t>(64, 4 * count_));
      std::swap(old, places_);
      for (const Place& p : old)
        if (p.node) places_[find(p.node)] = p;
    }
    Place& p = places_[find(node)];
    if (p.node) return false;
    p.node = node;
    ++count_;
    return true;
  }
  void mark(const GradFn* node) { places_[find(node)].marked = true; }
  bool of(const GradFn* node) const { return places_[find(node)].marked; }

 private:
  struct Place {
    const GradFn* node = nullptr;
    bool marked = false;
  };
  size_t find(const GradFn* node) const {
    const size_t last = places_.size() - 1;  // their number is a power of two
    size_t at = (reinterpret_cast<uintptr_t>(node) * 0x9e3779b97f4a7c15u >> 20) & last;
    while (places_[at].node && places_[at].node != node) at = (at + 1) & last;
    return at;
  }
  std::vector<Place> places_;
  size_t count_ = 0;
};

class Walk {
 public:
  explicit Walk(BackwardOptions options) : options_(options) {}

  void add_target(const Tensor& input, Tensor* result);
  void restrict_to_targets(const Tensors& roots);
  void seed(const Tensor& root, const Tensor& seed);
  void run();
  void accumulate_leaves();
  void fill_results();

 private:
  struct ByNode {
    SmallVector<Sum, 1> outputs;
  };
  struct Later {
    bool operator()(const GradFn* a, const GradFn* b) const {
      return a->sequence() < b->sequence();
    }
  };
  bool wanted(const Edge& e) const {
    if (!restricted_) return e.leads_somewhere();
    return e.leaf ? wanted_leaves_.contains(e.leaf.get()) : e.fn && wanted_.of(e.fn.get());
  }
  void add(Sum& sum, const Tensor& g);
  void deliver(const Edge& edge, const Tensor& g);
  Tensor pull(GradFn& node, size_t k, const SmallVector<Tensor, 1>& g);
  void process(GradFn& node, ByNode& in);
  Tensor leaf_gradient(const Autograd& leaf, Sum& sum);

  BackwardOptions options_;
  std::vector<Ref<GradFn>> roots_;  // a hook may take a root's history away
  using Pending = std::unordered_map<GradFn*, ByNode>;
  Pending pending_;
  Pending::node_type spare_;  // an entry that is done with, for the next node
  std::priority_queue<GradFn*, std::vector<GradFn*>, Later> ready_;
  std::vector<Ref<Autograd>> leaf_order_;
  std::unordered_map<Autograd*, Sum> leaves_;
  // grad(): where captured cotangents go, and what leads there.
  struct Target {
    GradFn* fn;
    uint32_t index;
    Autograd* leaf;
    Tensor* result;
    Tensor input;
  };
  std::vector<Target> targets_;
  std::unordered_multimap<GradFn*, size_t> targets_of_;
  bool restricted_ = false;
  NodeMarks wanted_;  // all nodes below the roots
  std::unordered_set<const Autograd*> wanted_leaves_;
};

void Walk::add(Sum& sum, const Tensor& g) {
  if (!sum.value.defined()) {
    sum = {g, false};
  } else if (sum.owned && !options_.create_graph && !is_batched(sum.value) && !is_batched(g) &&
             !g.tangent().defined() && !sum.value.tangent().defined()) {
    arithmetic().add_into(sum.value, g);
  } else {
    sum = {arithmetic().add(sum.value, g), true};
  }
}

void Walk::deliver(const Edge& edge, const Tensor& g) {
  if (edge.leaf) {
    auto [it, fresh] = leaves_.try_emplace(edge.leaf.get());
    if (fresh) leaf_order_.push_back(edge.leaf);
    add(it->second, g);
  } else {
    auto it = pending_.find(edge.fn.get());
    if (it == pending_.end()) {
      if (spare_.empty()) {
        it = pending_.try_emplace(edge.fn.get()).first;
      } else {
        spare_.key() = edge.fn.get();
        it = pending_.insert(std::move(spare_)).position;
      }
      it->second.outputs.resize(edge.fn->output_metas().size());
      ready_.push(edge.fn.get());
    }
    add(it->second.outputs[edge.index], g);
  }
}

// The cotangent of operand k, checked and summed to the operand's shape.
Tensor Walk::pull(GradFn& node, size_t k, const SmallVector<Tensor, 1>& g) {
  const OpInfo& op = node.op();
  if (!op.vjp) fail(ErrorKind::autograd, op.name, "the derivative is not implemented");
  Tensor gk;
  if (op.once_differentiable && (options_.create_graph || forward_mode())) {
    {
      NoGrad off;
      gk = op.vjp(node, k, {g.data(), g.size()});
    }
    if (gk.defined()) gk = forbid_twice(node, gk);
  } else {
    gk = op.vjp(node, k, {g.data(), g.size()});
  }
  if (!gk.defined()) return gk;
  const TensorMeta& meta = node.input_metas()[k];
  if (!(gk.sizes() == meta.sizes)) {
    const size_t lead = gk.sizes().size() - meta.sizes.size();
    bool fits = gk.sizes().size() >= meta.sizes.size();
    for (size_t i = 0; fits && i < meta.sizes.size(); ++i)
      fits = meta.sizes[i] == gk.sizes()[lead + i] || meta.sizes[i] == 1;
    if (!fits)
      fail(ErrorKind::autograd, op.name, "its vjp gave a cotangent of shape ", gk.sizes(),
           " for operand ", int64_t(k), ", whose shape is ", meta.sizes);
    gk = arithmetic().sum_to(gk, meta.sizes);
  }
  if (gk.dtype() != meta.dtype)
    fail(ErrorKind::internal, op.name, "the cotangent of operand ", int64_t(k), " is ", gk.dtype(),
         ", the operand was ", meta.dtype);
  if (detecting_anomaly() && arithmetic().has_nan(gk))
    fail(ErrorKind::numeric, op.name, "the cotangent of operand ", int64_t(k), " ", gk.sizes(),
         " has a NaN, those of the outputs have ", any_nan(g) ? "some too" : "none",
         node.trace().empty() ? "" : "; recorded at: ", node.trace());
  return gk;
}

void Walk::process(GradFn& node, ByNode& in) {
  SmallVector<Tensor, 1> g;
  for (Sum& s : in.outputs) g.push_back(std::move(s.value));
  CurrentOp now(node.op().name.c_str());
  NodeHooks* hooks = node.hooks_if_any();
  if (hooks)
    for (size_t i = 0; i < hooks->outputs.size(); ++i) {
      if (!g[i].defined()) continue;
      g[i] = run_hooks(hooks->outputs[i].grad, g[i], node.op().name.c_str());
      if (GradSlot* kept = hooks->outputs[i].retained.get()) {
        const std::lock_guard lock(lock_of(kept));
        kept->grad =
            kept->grad.defined() ? arithmetic().add(kept->grad, g[i]) : arithmetic().clone(g[i]);
      }
    }
  const auto [first, last] = targets_of_.equal_range(&node);
  for (auto it = first; it != last; ++it)
    *targets_[it->second].result = g[targets_[it->second].index];

  SmallVector<const Edge*, 3> edges;  // null: nobody asks
  bool used = false;
  for (const Edge& edge : node.inputs()) {
    edges.push_back(wanted(edge) ? &edge : nullptr);
    used |= edges.back() != nullptr;
  }
  if (!used) return;
  if (hooks) {
    Tensors outputs(g.begin(), g.end());
    for (const NodePreHook& hook : hooks->before.functions()) hook(outputs);
    check_hooked(node.op(), outputs, node.output_metas());
    std::copy(outputs.begin(), outputs.end(), g.begin());
  }
  SmallVector<Tensor, 3> cotangents(edges.size());
  for (size_t k = 0; k < cotangents.size(); ++k)
    if (edges[k]) cotangents[k] = pull(node, k, g);
  if (hooks) {
    Tensors inputs(cotangents.begin(), cotangents.end());
    for (const NodeHook& hook : hooks->after.functions()) hook(inputs, Tensors(g.begin(), g.end()));
    check_hooked(node.op(), inputs, node.input_metas());
    std::copy(inputs.begin(), inputs.end(), cotangents.begin());
  }
  for (size_t k = 0; k < cotangents.size(); ++k)
    if (cotangents[k].defined() && edges[k]) deliver(*edges[k], cotangents[k]);
  if (!options_.retain_graph && !options_.create_graph) node.free_saved();
}

void Walk::run() {
  while (!ready_.empty()) {
    GradFn* node = ready_.top();
    ready_.pop();
    auto entry = pending_.extract(node);
    process(*node, entry.mapped());
    entry.mapped().outputs.clear();
    spare_ = std::move(entry);
  }
}

void Walk::seed(const Tensor& root, const Tensor& given) {
  if (!root.requires_grad())
    fail(ErrorKind::autograd, "backward", "the tensor of shape ", root.sizes(),
         " has no history: no operand on the way requires a gradient (or it was made under "
         "no_grad)");
  Tensor g = given;
  if (!g.defined()) {
    if (root.numel() != 1)
      fail(ErrorKind::autograd, "backward",
           "a seed can be left out for one-element tensors only, the "
           "shape is ",
           root.sizes(), "; give a cotangent, or sum() first");
    if (is_complex(root.dtype()))
      fail(ErrorKind::autograd, "backward",
           "a seed can be left out for real tensors only, this one ", "is ", root.dtype(),
           "; give a cotangent, or take abs() or real() first");
    g = Tensor::full(root.sizes(), 1.0, root.dtype(), root.device());
  } else {
    // A copy (free until written): the seed may be some leaf's .grad.
    g = arithmetic().clone(materialise(g, root.dtype(), root.device()));
    if (!(g.sizes() == root.sizes()))
      fail(ErrorKind::autograd, "backward", "the seed has shape ", g.sizes(), ", the tensor ",
           root.sizes());
    if (g.dtype() != root.dtype())
      fail(ErrorKind::autograd, "backward", "the seed is ", g.dtype(), ", the tensor ",
           root.dtype());
  }
  Edge edge;
  if (GradFn* fn = root.grad_fn())
    edge = {Ref<GradFn>(fn), nullptr, root.output_index()};
  else
    edge.leaf = root.body()->autograd;
  roots_.push_back(edge.fn);
  if (wanted(edge)) deliver(edge, g);
}

void Walk::add_target(const Tensor& input, Tensor* result) {
  if (!input.requires_grad())
    fail(ErrorKind::autograd, "grad", "input ", int64_t(targets_.size()), " of shape ",
         input.sizes(), " does not require a gradient");
  GradFn* fn = input.grad_fn();
  if (fn) targets_of_.emplace(fn, targets_.size());
  targets_.push_back(
      {fn, input.output_index(), fn ? nullptr : input.body()->autograd.get(), result, input});
}

// Marks what lies on a way from the roots to a target: nodes in order of their age, so that all
// inputs of a node are decided before it.
void Walk::restrict_to_targets(const Tensors& roots) {
  std::vector<const GradFn*> nodes;
  for (const Tensor& r : roots)
    if (r.grad_fn() && wanted_.insert(r.grad_fn())) nodes.push_back(r.grad_fn());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& e : nodes[i]->inputs())
      if (e.fn && wanted_.insert(e.fn.get())) nodes.push_back(e.fn.get());
  for (const Target& t : targets_) {
    if (t.leaf) wanted_leaves_.insert(t.leaf);
    if (t.fn && !wanted_.insert(t.fn)) wanted_.mark(t.fn);
  }
  std::sort(nodes.begin(), nodes.end(),
            [](auto* a, auto* b) { return a->sequence() < b->sequence(); });
  restricted_ = true;
  for (const GradFn* node : nodes)
    for (const Edge& e : node->inputs())
      if (wanted(e)) wanted_.mark(node);
}

Tensor Walk::leaf_gradient(const Autograd& leaf, Sum& sum) {
  if (!leaf.hooks) return sum.value;
  const Tensor g = run_hooks(leaf.hooks->grad, sum.value, "leaf");
  sum.owned = false;  // a hook may have kept it
  return g;
}

void Walk::accumulate_leaves() {
  for (const Ref<Autograd>& leaf : leaf_order_) {
    if (!leaf->requires_grad) continue;
    Sum& sum = leaves_.at(leaf.get());
    Tensor g = leaf_gradient(*leaf, sum);
    {
      const std::lock_guard lock(lock_of(leaf.get()));
      Tensor& total = leaf->grad;
      if (grad_listener) (*grad_listener)(*leaf, false);
      if (!total.defined()) {
        // never an alias of the seed or of another leaf's gradient, nor a part of a larger one
        if (!g.is_contiguous())
          g = arithmetic().contiguous(g);
        else if (!sum.owned)
          g = arithmetic().clone(g);
        total = g;
      } else if (options_.create_graph || total.requires_grad() || total.tangent().defined() ||
                 g.tangent().defined()) {
        total = arithmetic().add(total, g);
      } else {
        arithmetic().add_into(total, g);
      }
    }
    if (leaf->hooks && leaf->hooks->leaf)
      for (const LeafHook& hook : leaf->hooks->accumulated.functions())
        hook(Tensor(Ref<TensorBody>(leaf->hooks->leaf)));
  }
}

void Walk::fill_results() {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const Target& t = targets_[i];
    if (t.leaf)
      if (const auto it = leaves_.find(t.leaf); it != leaves_.end())
        *t.result = leaf_gradient(*t.leaf, it->second);
    if (t.result->defined()) {
      // a part of a larger gradient would keep that alive
      if (!options_.create_graph && !is_batched(*t.result) &&
          t.result->bytes() < t.result->storage().bytes())
        *t.result = arithmetic().clone(*t.result);
      continue;
    }
    if (options_.materialize_grads)
      *t.result = Tensor::zeros(t.input.sizes(), t.input.dtype(), t.input.device());
    else if (!options_.allow_unused)
      fail(ErrorKind::autograd, "grad", "input ", int64_t(i), " of shape ", t.input.sizes(),
           " was not used to compute the outputs; "
           "pass allow_unused to get an undefined gradient for it");
  }
}

class GradMode {
 public:
  explicit GradMode(bool on) {
    if (on)
      enable_.emplace();
    else
      disable_.emplace();
  }

 private:
  std::optional<EnableGrad> enable_;
  std::optional<NoGrad> disable_;
};

void seed_all(Walk& walk, const Tensors& roots, const Tensors& seeds) {
  if (!seeds.empty() && seeds.size() != roots.size())
    fail(ErrorKind::autograd, "backward", int64_t(roots.size()), " roots and ",
         int64_t(seeds.size()), " seeds");
  for (size_t i = 0; i < roots.size(); ++i)
    walk.seed(roots[i], seeds.empty() ? Tensor() : seeds[i]);
}

}  // namespace

void backward(const Tensors& roots, const Tensors& seeds, BackwardOptions options) {
  if (any_batched(roots) || any_batched(seeds))
    fail(ErrorKind::autograd, "backward",
         "vmap: .grad of a leaf has no place for a gradient per example; use func::grad");
  Walk walk(options);
  if (options.inputs) {
    if (options.inputs->empty())
      fail(ErrorKind::autograd, "backward", "the list of inputs is empty");
    for (const Tensor& x : *options.inputs) {
      if (!x.is_leaf())
        fail(ErrorKind::autograd, "backward", "an input is the result of ", x.grad_fn()->op().name,
             "; only leaves accumulate a gradient, use grad()");
      walk.add_target(x, nullptr);
    }
    walk.restrict_to_targets(roots);
  }
  GradMode mode(options.create_graph);
  seed_all(walk, roots, seeds);
  walk.run();
  walk.accumulate_leaves();
}

void backward(const Tensor& root, BackwardOptions options) { backward({root}, {}, options); }

Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& seeds,
             BackwardOptions options) {
  if (inputs.empty()) fail(ErrorKind::autograd, "grad", "no inputs were given");
  if (any_batched(outputs) || any_batched(inputs))
    return grad_batched(outputs, inputs, seeds, options);
  Tensors results(inputs.size());
  Walk walk(options);
  for (size_t i = 0; i < inputs.size(); ++i) walk.add_target(inputs[i], &results[i]);
  walk.restrict_to_targets(outputs);
  GradMode mode(options.create_graph);
  seed_all(walk, outputs, seeds);
  walk.run();
  walk.fill_results();
  return results;
}

}  // namespace gradus
