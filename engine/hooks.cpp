#include "engine/arithmetic.hpp"
#include "engine/hooks.hpp"

#include "engine/batch.hpp"

namespace gradus::inline v1 {

namespace {
void need_gradient(const Tensor& t, const char* op) {
  if (!t.requires_grad())
    fail(ErrorKind::autograd, op, "the tensor of shape ", t.sizes(),
         " requires no gradient, so none ", "will pass here");
}
NodeHooks::Output& hooks_of_output(const Tensor& t) {
  NodeHooks& hooks = t.grad_fn()->hooks();
  hooks.outputs.resize(t.grad_fn()->output_metas().size());
  return hooks.outputs[t.output_index()];
}
LeafHooks& hooks_of_leaf(const Tensor& t) {
  if (is_batched(t)) return hooks_of_leaf(t.body()->batch->physical);
  Autograd& a = autograd_of(t);
  if (!a.hooks) {
    a.hooks = std::make_unique<LeafHooks>();
    a.hooks->elements = t.detach();
  }
  return *a.hooks;
}
}  // namespace

HookHandle register_hook(const Tensor& t, TensorHook hook) {
  need_gradient(t, "register_hook");
  return t.is_leaf() ? hooks_of_leaf(t).grad.add(std::move(hook))
                     : hooks_of_output(t).grad.add(std::move(hook));
}
HookHandle register_hook(const Tensor& t, TensorAndGradHook hook) {
  need_gradient(t, "register_hook");
  if (!t.is_leaf()) return register_hook(t, [t, hook](const Tensor& g) { return hook(t, g); });
  Autograd* const leaf = &autograd_of(t);  // which owns the hook
  return register_hook(
      t, [leaf, hook](const Tensor& g) { return hook(LeafHooks::handle_on(*leaf), g); });
}
Tensor LeafHooks::handle_on(Autograd& leaf) {
  Tensor t = leaf.hooks->elements.detach();
  t.body()->autograd = Ref<Autograd>(&leaf);
  return t;
}
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, LeafHook hook) {
  need_gradient(leaf, "register_post_accumulate_grad_hook");
  if (!leaf.is_leaf())
    fail(ErrorKind::autograd, "register_post_accumulate_grad_hook",
         "only leaves accumulate a gradient; this tensor is the result of ",
         leaf.grad_fn()->op().name);
  LeafHooks& hooks = hooks_of_leaf(leaf);
  hooks.count_accumulated();
  return hooks.accumulated.add(std::move(hook));
}
HookHandle register_hook(GradFn& node, NodeHook hook) {
  return node.hooks().after.add(std::move(hook));
}
HookHandle register_prehook(GradFn& node, NodePreHook hook) {
  return node.hooks().before.add(std::move(hook));
}

static std::atomic<int64_t> accumulated_hooks = 0;
bool LeafHooks::any_accumulated() { return accumulated_hooks > 0; }
void LeafHooks::count_accumulated() {
  if (!std::exchange(counted, true)) ++accumulated_hooks;
}
LeafHooks::~LeafHooks() { accumulated_hooks -= counted; }

void NodeHooks::clear() {
  bool any = before.clear();
  any |= after.clear();
  for (Output& o : outputs) any |= o.grad.clear();
  if (any) cleared = true;
}

static constexpr size_t kPlaces = 64;
static size_t place_of(const Tensor* grad) {
  return (reinterpret_cast<uintptr_t>(grad) >> 6) % kPlaces;
}
Lock& grad_lock(const Tensor* grad) {
  static Lock locks[kPlaces];
  return locks[place_of(grad)];
}
std::recursive_mutex& grad_turn(const Tensor* grad) {
  static std::recursive_mutex turns[kPlaces];
  return turns[place_of(grad)];
}

void Tensor::retain_grad() const {
  need_gradient(*this, "retain_grad");
  if (is_leaf()) return;
  NodeHooks::Output& hooks = hooks_of_output(*this);
  if (!hooks.retained) hooks.retained = make_ref<GradSlot>();
  autograd_of(*this).retained = hooks.retained;
}

Tensor run_hooks(const HookList<TensorHook>& hooks, Tensor g, const char* where) {
  for (const auto& hook : hooks.functions()) {
    const Tensor other = (*hook)(g);
    if (!other.defined()) continue;
    if (!(other.sizes() == g.sizes()) || other.dtype() != g.dtype())
      fail(ErrorKind::autograd, where, "a hook returned a gradient ", other.dtype(), " ",
           other.sizes(), ", expected ", g.dtype(), " ", g.sizes());
    g = arithmetic().clone(other);  // free until written: it may be some leaf's .grad
  }
  return g;
}

void accumulate(Tensor& total, Tensor g, bool own, bool in_place) {
  const std::lock_guard turn(grad_turn(&total));
  Tensor before;
  {
    const std::lock_guard lock(grad_lock(&total));
    before = total;
  }
  if (!before.defined()) {  // never an alias of the seed or of another leaf's gradient, nor a part
                            // of a larger one
    if (!own) g = g.is_contiguous() ? arithmetic().clone(g) : arithmetic().contiguous(g);
  } else if (!in_place || before.requires_grad() || before.tangent().defined() ||
             g.tangent().defined()) {
    g = arithmetic().add(before, g);
  } else {
    arithmetic().add_into(before, g);
    return;
  }
  const std::lock_guard lock(grad_lock(&total));
  std::swap(total, g);
}

}  // namespace gradus
