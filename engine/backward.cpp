// Reverse mode: one walk over the graph by sequence number, later forward ops first. Every consumer
// of a node was recorded after it, so a node that comes up has all its cotangents. Broadcasting is
// undone here, for all ops. A leaf's gradient is added to .grad once its oldest consumer is done.
#include "engine/arithmetic.hpp"
#include "engine/batch.hpp"
#include "engine/forward.hpp"
#include "engine/hooks.hpp"

#include <algorithm>
#include <memory_resource>
#include <queue>
#include <unordered_map>

namespace gradus::inline v1 {

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

class BackwardPass {
 public:
  // `results`: cotangents of targets are kept for them, and no .grad is touched.
  BackwardPass(const Tensors& roots, BackwardOptions options, bool results)
      : options_(options), root_tensors_(roots), results_(results) {}

  void add_target(const Tensor& input);  // only what leads to targets is walked
  void run(const Tensors& seeds);
  Tensors results();  // of the targets

 private:
  using Sums = SmallVector<Sum, 1>;  // of a node, one for each output
  struct Leaf {
    Ref<Autograd> autograd;
    Sum sum;
    // Sequence number of the oldest node that has it as an operand, which sends the last cotangent.
    uint64_t oldest = 0;
    bool wanted = false;
  };
  bool wanted(const Edge& e) {
    if (targets_.empty()) return e.leads_somewhere();
    return e.leaf ? leaf_of(e).wanted : e.fn && wanted_.at(e.fn.get());
  }
  Leaf& leaf_of(const Edge& edge);
  void explore();
  void add(Sum& sum, const Tensor& g);
  void deliver(const Edge& edge, const Tensor& g);
  Tensor fitted(GradFn& node, size_t k, Tensor gk, const SmallVector<Tensor, 1>& g);
  void process(GradFn& node, Sums&& in);
  void complete(Leaf& leaf);

  BackwardOptions options_;
  const Tensors& root_tensors_;
  const bool results_;
  SmallVector<Edge, 1> roots_;  // kept: a hook may take a root's history away
  std::unordered_map<GradFn*, Sums> pending_;
  std::priority_queue<std::pair<uint64_t, GradFn*>> ready_;  // with their sequence numbers
  alignas(16) std::byte room_[2048];
  std::pmr::monotonic_buffer_resource memory_{room_, sizeof room_};  // of what stays to the end
  std::pmr::unordered_map<Autograd*, Leaf> leaves_{&memory_};
  SmallVector<Leaf*, 4> leaf_order_;
  struct Target {
    Edge edge;
    Tensor input, result;
  };
  SmallVector<Target, 2> targets_;
  std::pmr::unordered_multimap<GradFn*, size_t> targets_of_{&memory_};
  std::pmr::unordered_map<const GradFn*, bool> wanted_{&memory_};  // of all nodes below the roots
};

BackwardPass::Leaf& BackwardPass::leaf_of(const Edge& edge) {
  auto [it, fresh] = leaves_.try_emplace(edge.leaf.get());
  if (fresh) {
    it->second.autograd = edge.leaf;
    leaf_order_.push_back(&it->second);
  }
  return it->second;
}

// Looks at all nodes below the roots before the walk begins: after which one is a leaf's gradient
// complete, and which lead to a target? The oldest first, so that a node's inputs come before it.
void BackwardPass::explore() {
  SmallVector<const GradFn*, 4> nodes;
  const auto meet = [&](const Edge& e) {
    if (e.fn && wanted_.try_emplace(e.fn.get()).second) nodes.push_back(e.fn.get());
  };
  for (const Edge& root : roots_) {
    if (root.leaf) leaf_of(root).oldest = ~uint64_t(0);
    meet(root);
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& e : nodes[i]->inputs()) {
      meet(e);
      if (!e.leaf) continue;
      uint64_t& oldest = leaf_of(e).oldest;
      oldest = oldest ? std::min(oldest, nodes[i]->sequence()) : nodes[i]->sequence();
    }
  std::ranges::stable_sort(leaf_order_, std::greater<>(), &Leaf::oldest);
  if (targets_.empty()) return;
  for (const Target& t : targets_) {
    if (t.edge.leaf) leaf_of(t.edge).wanted = true;
    if (const auto it = wanted_.find(t.edge.fn.get()); it != wanted_.end()) it->second = true;
  }
  std::ranges::sort(nodes, {}, &GradFn::sequence);
  for (const GradFn* node : nodes)
    for (const Edge& e : node->inputs())
      if (wanted(e)) wanted_[node] = true;
}

void BackwardPass::add(Sum& sum, const Tensor& g) {
  if (!sum.value.defined()) {
    sum = {g, false};
  } else if (sum.owned && !options_.create_graph && !is_batched(sum.value) && !is_batched(g) &&
             !g.tangent().defined() && !sum.value.tangent().defined()) {
    arithmetic().add_into(sum.value, g);
  } else {
    sum = {arithmetic().add(sum.value, g), true};
  }
}

void BackwardPass::deliver(const Edge& edge, const Tensor& g) {
  if (edge.leaf) return add(leaf_of(edge).sum, g);
  const auto [it, fresh] = pending_.try_emplace(edge.fn.get());
  if (fresh) {
    it->second.resize(edge.fn->output_metas().size());
    ready_.emplace(edge.fn->sequence(), edge.fn.get());
  }
  add(it->second[edge.index], g);
}

// The cotangent of operand k, checked and summed to the operand's shape.
Tensor BackwardPass::fitted(GradFn& node, size_t k, Tensor gk, const SmallVector<Tensor, 1>& g) {
  const OpInfo& op = node.op();
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

void BackwardPass::process(GradFn& node, Sums&& in) {
  SmallVector<Tensor, 1> g;
  for (Sum& s : in) g.push_back(std::move(s.value));
  CurrentOp now(node.op().name.c_str());
  NodeHooks* hooks = node.hooks_if_any();
  if (hooks && hooks->cleared) node.fail_freed();
  if (hooks)
    for (size_t i = 0; i < hooks->outputs.size(); ++i) {
      if (!g[i].defined()) continue;
      g[i] = run_hooks(hooks->outputs[i].grad, g[i], node.op().name.c_str());
      if (GradSlot* kept = hooks->outputs[i].retained.get())
        accumulate(kept->grad, g[i], false, false);
    }
  const auto [first, last] = targets_of_.equal_range(&node);
  for (auto it = first; it != last; ++it)
    targets_[it->second].result = g[targets_[it->second].edge.index];

  SmallVector<char, 8> asked;  // by operand
  for (const Edge& edge : node.inputs()) asked.push_back(wanted(edge));
  if (std::find(asked.begin(), asked.end(), 1) == asked.end()) return;
  if (hooks) {
    Tensors outputs(g.begin(), g.end());
    for (const auto& hook : hooks->before.functions()) (*hook)(outputs);
    check_hooked(node.op(), outputs, node.output_metas());
    std::copy(outputs.begin(), outputs.end(), g.begin());
  }
  const OpInfo& op = node.op();
  if (!op.vjp) fail(ErrorKind::autograd, op.name, "the derivative is not implemented");
  SmallVector<Tensor, 3> cotangents(asked.size());
  const std::span<const Tensor> given(g.data(), g.size());
  if (op.vjps) op.vjps(node, asked, given, {cotangents.data(), cotangents.size()});
  for (size_t k = 0; k < cotangents.size(); ++k)
    if (asked[k])
      cotangents[k] = fitted(node, k, op.vjps ? cotangents[k] : op.vjp(node, k, given), g);
  if (hooks) {
    Tensors inputs(cotangents.begin(), cotangents.end());
    for (const auto& hook : hooks->after.functions()) (*hook)(inputs, Tensors(g.begin(), g.end()));
    check_hooked(node.op(), inputs, node.input_metas());
    std::copy(inputs.begin(), inputs.end(), cotangents.begin());
  }
  for (size_t k = 0; k < cotangents.size(); ++k)
    if (cotangents[k].defined() && asked[k]) deliver(node.inputs()[k], cotangents[k]);
  if (!options_.retain_graph && !options_.create_graph) node.free_saved();
}

void BackwardPass::complete(Leaf& place) {
  Autograd& leaf = *place.autograd;
  Sum& sum = place.sum;
  if (!sum.value.defined() || !(results_ || leaf.requires_grad)) return;
  if (leaf.hooks) {
    sum.value = run_hooks(leaf.hooks->grad, sum.value, "leaf");
    sum.owned = false;  // a hook may have kept it
  }
  if (results_) return;
  if (observer) observer->grad_changes(leaf, false);
  const bool own = sum.owned && sum.value.is_contiguous();
  accumulate(leaf.grad, std::exchange(sum.value, Tensor()), own, !options_.create_graph);
  if (!leaf.hooks) return;
  for (const auto& hook : leaf.hooks->accumulated.functions()) (*hook)(LeafHooks::handle_on(leaf));
}

// The cotangent that the walk begins with at a root.
Tensor seed_of(const Tensor& root, const Tensor& given) {
  if (!root.requires_grad())
    fail(ErrorKind::autograd, "backward", "the tensor of shape ", root.sizes(), " has no history: ",
         "no operand on the way requires a gradient (or it was made under no_grad)");
  if (!given.defined()) {
    if (root.numel() != 1)
      fail(ErrorKind::autograd, "backward",
           "a seed can be left out for one-element tensors only, the shape is ", root.sizes(),
           "; give a cotangent, or sum() first");
    if (is_complex(root.dtype()))
      fail(ErrorKind::autograd, "backward",
           "a seed can be left out for real tensors only, this one is ", root.dtype(),
           "; give a cotangent, or take abs() or real() first");
    return Tensor::full(root.sizes(), 1.0, root.dtype(), root.device());
  }
  // A copy (free until written): the seed may be some leaf's .grad.
  const Tensor g = arithmetic().clone(materialise(given, root.dtype(), root.device()));
  if (!(g.sizes() == root.sizes()))
    fail(ErrorKind::autograd, "backward", "the seed has shape ", g.sizes(), ", the tensor ",
         root.sizes());
  if (g.dtype() != root.dtype())
    fail(ErrorKind::autograd, "backward", "the seed is ", g.dtype(), ", the tensor ", root.dtype());
  return g;
}

void BackwardPass::run(const Tensors& seeds) {
  if (!seeds.empty() && seeds.size() != root_tensors_.size())
    fail(ErrorKind::autograd, "backward", int64_t(root_tensors_.size()), " roots and ",
         int64_t(seeds.size()), " seeds");
  SmallVector<Tensor, 1> cotangents;
  for (size_t i = 0; i < root_tensors_.size(); ++i) {
    cotangents.push_back(seed_of(root_tensors_[i], seeds.empty() ? Tensor() : seeds[i]));
    roots_.push_back(edge_of(root_tensors_[i]));
  }
  // Without either, it makes no difference when a leaf gets its gradient.
  if (!targets_.empty() || LeafHooks::any_accumulated()) explore();
  for (size_t i = 0; i < roots_.size(); ++i)
    if (wanted(roots_[i])) deliver(roots_[i], std::exchange(cotangents[i], Tensor()));
  size_t whole = 0;  // so many of leaf_order_ are complete
  while (true) {
    const auto [next, node] = ready_.empty() ? decltype(ready_)::value_type() : ready_.top();
    while (whole < leaf_order_.size() && (!next || leaf_order_[whole]->oldest > next))
      complete(*leaf_order_[whole++]);
    if (!next) break;
    ready_.pop();
    process(*node, std::move(pending_.extract(node).mapped()));
  }
}

void BackwardPass::add_target(const Tensor& input) {
  if (!input.requires_grad())
    fail(ErrorKind::autograd, "grad", "input ", int64_t(targets_.size()), " of shape ",
         input.sizes(), " does not require a gradient");
  const Edge edge = edge_of(input);
  if (edge.fn) targets_of_.emplace(edge.fn.get(), targets_.size());
  targets_.push_back({edge, input, {}});
}

Tensors BackwardPass::results() {
  Tensors out;
  out.reserve(targets_.size());
  for (Target& t : targets_) {
    if (t.edge.leaf) t.result = leaf_of(t.edge).sum.value;
    // A view of a part of a larger gradient would keep all of its memory.
    if (t.result.defined() && !options_.create_graph && !is_batched(t.result) &&
        t.result.bytes() < t.result.storage().bytes())
      t.result = arithmetic().clone(t.result);
    if (!t.result.defined() && options_.materialize_grads)
      t.result = Tensor::zeros(t.input.sizes(), t.input.dtype(), t.input.device());
    if (!t.result.defined() && !options_.allow_unused)
      fail(ErrorKind::autograd, "grad", "input ", int64_t(out.size()), " of shape ",
           t.input.sizes(), " was not used to compute the outputs; ",
           "pass allow_unused to get an undefined gradient for it");
    out.push_back(t.result);
  }
  return out;
}

}  // namespace

void backward(const Tensors& roots, const Tensors& seeds, BackwardOptions options) {
  if (any_batched(roots) || any_batched(seeds))
    fail(ErrorKind::autograd, "backward",
         "vmap: .grad of a leaf has no place for a gradient per example; use func::grad");
  BackwardPass pass(roots, options, false);
  if (options.inputs) {
    if (options.inputs->empty())
      fail(ErrorKind::autograd, "backward", "the list of inputs is empty");
    for (const Tensor& x : *options.inputs) {
      if (!x.is_leaf())
        fail(ErrorKind::autograd, "backward", "an input is the result of ", x.grad_fn()->op().name,
             "; only leaves accumulate a gradient, use grad()");
      pass.add_target(x);
    }
  }
  const Scoped recording(modes.grad, options.create_graph);
  pass.run(seeds);
}

void backward(const Tensor& root, BackwardOptions options) { backward({root}, {}, options); }

Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& seeds,
             BackwardOptions options) {
  if (inputs.empty()) fail(ErrorKind::autograd, "grad", "no inputs were given");
  if (any_batched(outputs) || any_batched(inputs))
    return grad_batched(outputs, inputs, seeds, options);
  BackwardPass pass(outputs, options, true);
  for (const Tensor& x : inputs) pass.add_target(x);
  const Scoped recording(modes.grad, options.create_graph);
  pass.run(seeds);
  return pass.results();
}

}  // namespace gradus
