// Recording: apply(), record(), saved tensors, tangents, modes. The backward walk is in
// backward.cpp.
#include "engine/batch.hpp"
#include "engine/hooks.hpp"
#include "engine/in_place.hpp"

#include <algorithm>

namespace gradus {

namespace {
thread_local bool grad_on = true;
thread_local ForwardLevel* level = nullptr;
thread_local uint64_t level_start = 0;  // nodes before this one were recorded before the level
thread_local bool inside_jvp = false;   // or inside a user's forward: no tangents are pushed
thread_local bool inference = false;
thread_local bool anomaly = false;
thread_local Trace* innermost_trace = nullptr;
thread_local SavedTensorHooks* saved_hooks = nullptr;
std::atomic<uint64_t> next_sequence{1};
Arithmetic functions{};
}  // namespace

bool grad_enabled() { return grad_on; }
NoGrad::NoGrad() : Scoped(grad_on, false) {}
EnableGrad::EnableGrad() : Scoped(grad_on, true) {}
bool inference_mode() { return inference; }
InferenceMode::InferenceMode() : on_(inference, true) {}
bool detecting_anomaly() { return anomaly; }
DetectAnomaly::DetectAnomaly() : Scoped(anomaly, true) {}
OutsideJvp::OutsideJvp() : Scoped(inside_jvp, false) {}
Trace::Trace(std::string text) : text_(std::move(text)), innermost_(innermost_trace, this) {}
std::string trace_text() {
  std::string text;
  for (const Trace* t = innermost_trace; t; t = t->innermost_.before())
    text = text.empty() ? t->text_ : t->text_ + ", " + text;
  return text;
}
SavedTensorHooks::SavedTensorHooks(std::function<std::any(const Tensor&)> pack,
                                   std::function<Tensor(const std::any&)> unpack)
    : pack_(std::move(pack)), unpack_(std::move(unpack)), innermost_(saved_hooks, this) {}
void set_arithmetic(const Arithmetic& f) { functions = f; }
const Arithmetic& arithmetic() { return functions; }

// ---- nodes

// A node's death drops its edges and saved tensors, which may be the last handles of other nodes.
// Those are linked up here instead of recursing, so a chain of any length dies in a flat stack.
void destroy(const GradFn* node) {
  constinit thread_local static const GradFn* waiting = nullptr;
  constinit thread_local static bool busy = false;
  node->next_dying_ = std::exchange(waiting, node);
  if (busy) return;
  busy = true;
  while (waiting) delete std::exchange(waiting, waiting->next_dying_);
  busy = false;
}

GradFn::~GradFn() = default;
const Attrs& GradFn::attrs() const {
  static const Attrs none{};
  return attrs_ ? *attrs_ : none;
}
std::string_view GradFn::trace() const {
  return hooks_ ? std::string_view(hooks_->trace) : std::string_view();
}
NodeHooks& GradFn::hooks() {
  if (!hooks_) hooks_ = std::make_unique<NodeHooks>();
  return *hooks_;
}

void GradFn::free_saved() {
  SmallVector<Saved, 2> dropped;  // dies outside of the lock
  if (hooks_) hooks_->clear();    // they may hold what holds this node
  const std::lock_guard lock(saved_lock_);
  if (!saved_.empty()) freed_ = true;
  std::swap(dropped, saved_);
}
void GradFn::fail_freed() const {
  fail(ErrorKind::autograd, op_->name,
       "backward through this graph a second time: its saved tensors "
       "were freed by the first; pass retain_graph to the first call");
}

std::shared_ptr<Packed> pack(const Tensor& t, const char* op) {
  if (!saved_hooks) return nullptr;
  if (t.tangent().defined())
    fail(ErrorKind::autograd, op, "a tensor ", t.sizes(),
         " with a tangent is saved, and saved-tensor hooks and checkpoints would lose the ",
         "tangent; use them outside of forward mode");
  const Scoped off(saved_hooks, nullptr);  // what the hooks themselves compute is saved as ever
  const SavedTensorHooks& hooks = *off.before();
  // A copy (free until written): a later write in place does not reach it.
  return std::make_shared<Packed>(
      Packed{hooks.pack_(t.clone_data()), hooks.unpack_, t.sizes(), t.dtype()});
}

Tensor unpack(const Packed& p, const char* op, const char* what, size_t index) {
  const Tensor t = p.unpack(p.value);
  if (!t.defined() || !(t.sizes() == p.sizes) || t.dtype() != p.dtype)
    fail(ErrorKind::autograd, op, what, " ", int64_t(index), " was ", p.dtype, " ", p.sizes,
         ", the unpack hook gave ",
         t.defined() ? join(t.dtype(), " ", t.sizes()) : std::string("an undefined tensor"));
  return t;
}

void GradFn::pack_saved() {
  if (!saved_hooks) return;
  for (Saved& s : saved_) {
    s.packed = pack(s.tensor, op_->name.c_str());
    s.tensor = Tensor();
  }
}

Tensor GradFn::input(size_t k) { return unpack(Saved::Role::input, k); }
Tensor GradFn::output(size_t k) { return unpack(Saved::Role::output, k); }
Tensor GradFn::extra(size_t k) { return unpack(Saved::Role::extra, k); }

Tensor GradFn::unpack(Saved::Role role, size_t index) {
  constexpr const char* kSaved[] = {"saved input", "saved output", "saved extra"};
  Saved saved{role, uint32_t(index), {}, 0};
  {
    const std::lock_guard lock(saved_lock_);
    if (freed_) fail_freed();
    for (Saved& s : saved_) {
      if (s.role != role || s.index != index) continue;
      s.read = true;
      saved = s;
    }
  }
  if (saved.packed)
    return with_history(gradus::unpack(*saved.packed, op_->name.c_str(), kSaved[int(role)], index),
                        role, index);
  if (!saved.tensor.defined())
    fail(ErrorKind::internal, op_->name, kSaved[int(role)], " ", int64_t(index), " is not there");
  const Tensor& t = saved.tensor;
  if (t.version() != saved.version)
    fail(ErrorKind::autograd, op_->name, kSaved[int(role)], " ", int64_t(index), " ", t.sizes(),
         " was changed by ", t.storage().last_writer(), " after it was saved (version ",
         saved.version, " -> ", t.version(),
         "); clone() it before the write, or use an op that returns a new tensor",
         stale_story ? (*stale_story)(*this, saved) : "");
  return with_history(t, role, index);
}

// A saved tensor as this node's derivative must see it: an output as the node's, an input as what
// it was when the node was made, whatever has become of its handle since.
Tensor GradFn::with_history(const Tensor& t, Saved::Role role, size_t index) {
  if (role == Saved::Role::extra || (!grad_on && !level)) return t;
  const Tensor tangent = level ? t.tangent() : Tensor();
  if (level && sequence_ < level_start && role == Saved::Role::input &&
      level->has_set(inputs_[index]))
    fail(ErrorKind::autograd, op_->name, "saved input ", int64_t(index), " ", t.sizes(),
         " has got a tangent since, which what was computed from it lacks; run the op again ",
         "inside the level");
  Edge from;
  if (role == Saved::Role::output && attached_)
    from = {Ref<GradFn>(this), nullptr, uint32_t(index)};
  else if (role == Saved::Role::input)
    from = inputs_[index];
  const bool as_it_is = from.leaf ? t.body()->autograd == from.leaf
                                  : t.grad_fn() == from.fn.get() && t.output_index() == from.index;
  if (as_it_is || (!grad_on && !tangent.defined())) return t;
  Tensor out = t.detach();
  if (from.leaf) {
    out.body()->autograd = from.leaf;
  } else if (from.fn) {
    Autograd& autograd = autograd_of(out);
    autograd.fn = from.fn;
    autograd.output_index = from.index;
  }
  if (tangent.defined() && !from.leaf) give_tangent(out, tangent);
  return out;
}

// ---- one call

OpContext::OpContext(const OpInfo& info, std::span<const Tensor> in, const Attrs& a)
    : op(info), inputs(in), attrs(a) {
  const bool tangents = forward_mode();
  for (const Tensor& t : in) {
    const bool need = info.differentiable && t.defined() &&
                      ((grad_on && t.requires_grad()) || (tangents && t.tangent().defined()));
    needs_.push_back(need);
    any_ |= need;
  }
}

void OpContext::keep(Saved::Role role, uint32_t index, const Tensor& t) {
  if (!any_) return;
  for (const Saved& s : saved_)
    if (s.role == role && s.index == index) return;
  if (t.is_inference() && grad_on)
    fail(ErrorKind::autograd, op.name, "an inference tensor ", t.sizes(),
         " can't be saved for backward; clone() it to get a normal tensor");
  saved_.emplace_back(role, index, t, t.version());
}
// Without its history, which the node's edge holds: a tensor that is later written in place by an
// op that leads back here (h.mul_(f(h))) would own itself.
void OpContext::save_input(size_t k) {
  const Tensor& x = inputs[k];
  if (!any_ || x.is_leaf()) return keep(Saved::Role::input, uint32_t(k), x);
  const Tensor bare = x.detach();
  if (forward_mode() && x.tangent().defined()) give_tangent(bare, x.tangent());
  keep(Saved::Role::input, uint32_t(k), bare);
}
void OpContext::save_output(size_t k) {
  keep(Saved::Role::output, uint32_t(k), outputs[k].detach());
}
void OpContext::save(const Tensor& extra) { keep(Saved::Role::extra, extras_++, extra); }

// The only place that attaches a node.
Ref<GradFn> record(OpContext& ctx) {
  Ref<GradFn> node = make_ref<GradFn>();
  node->op_ = &ctx.op;
  node->sequence_ = next_sequence.fetch_add(1, std::memory_order_relaxed);
  if (!ctx.attrs.empty()) node->attrs_ = std::make_unique<const Attrs>(ctx.attrs);
  node->saved_ = std::move(ctx.saved_);
  node->needs_ = ctx.needs_;
  bool history = false;
  for (const Tensor& t : ctx.inputs) {
    Edge edge;
    if (t.defined() && grad_on && ctx.op.differentiable && t.requires_grad()) {
      if (GradFn* fn = t.grad_fn())
        edge = {Ref<GradFn>(fn), nullptr, t.output_index()};
      else
        edge.leaf = t.body()->autograd;
      history = true;
    }
    node->inputs_.push_back(std::move(edge));
    if (t.defined())
      node->input_metas_.emplace_back(t.sizes(), t.dtype(), &t.device());
    else
      node->input_metas_.emplace_back(Shape(), DType::f32, nullptr);
  }
  for (size_t k = 0; k < ctx.outputs.size(); ++k) {
    const Tensor& y = ctx.outputs[k];
    node->output_metas_.emplace_back(y.sizes(), y.dtype(), &y.device());
    if (history && is_differentiable(y.dtype())) {
      Autograd& autograd = autograd_of(y);
      autograd.fn = node;
      autograd.output_index = uint32_t(k);
    }
  }
  node->attached_ = history;
  if (anomaly && history) node->hooks().trace = trace_text();
  return node;
}

void give_tangent(const Tensor& x, const Tensor& t) {
  Autograd* const primal = &autograd_of(x);
  level->tangents_.insert_or_assign(primal, ForwardLevel::Dual{Ref<Autograd>(primal), t});
}
Tensor Tensor::tangent() const {
  if (!level) return Tensor();
  if (is_batched(*this)) {
    const Tensor t = body_->batch->physical.tangent();
    return t.defined() ? wrapped(t, body_->batch->level) : t;
  }
  const auto found = level->tangents_.find(autograd());
  return found == level->tangents_.end() ? Tensor() : found->second.tangent;
}

// The tangents of the outputs, by the op's jvp rule. Rules run as if no level were open: with one
// level, a tangent has no tangent of its own.
void push_tangents(OpContext& ctx, GradFn& node) {
  SmallVector<Tensor, 3> tangents;
  bool any = false;
  for (const Tensor& t : ctx.inputs) {
    tangents.push_back(t.defined() ? t.tangent() : Tensor());
    any |= tangents.back().defined();
  }
  if (!any) return;
  if (!ctx.op.jvp) fail(ErrorKind::autograd, ctx.op.name, "has no forward-mode rule");
  const Scoped inside(inside_jvp, true);
  for (size_t k = 0; k < ctx.outputs.size(); ++k) {
    if (!is_differentiable(ctx.outputs[k].dtype())) continue;
    Tensor t = ctx.op.jvp(node, k, {tangents.data(), tangents.size()});
    if (!t.defined()) continue;
    if (!(t.sizes() == ctx.outputs[k].sizes())) t = functions.expand(t, ctx.outputs[k].sizes());
    give_tangent(ctx.outputs[k], t);
    for (const Saved& s : node.saved_)
      if (s.role == Saved::Role::output && s.index == k) give_tangent(s.tensor, t);
  }
}

// A user's forward calls ops: they run as if no derivative were asked for, and nobody is told.
void run_forward(OpContext& ctx) {
  if (!ctx.op.user) return ctx.op.forward(ctx);
  const NoGrad off;
  const Scoped inside(inside_jvp, true);
  const Scoped unheard(call_listener, nullptr);
  ctx.op.forward(ctx);
}

void record_outputs(OpContext& ctx) {
  Ref<GradFn> node;
  if (ctx.needs_any()) {
    node = record(ctx);
    if (forward_mode()) push_tangents(ctx, *node);
    if (node->attached_) node->pack_saved();
  }
  if (call_listener) [[unlikely]]
    (*call_listener)(ctx, node && node->attached_ ? node.get() : nullptr);
}

Outputs apply(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  CurrentOp now(op.name.c_str());
  if (const BatchScope* scope = batch_scope_of(op, inputs))
    return apply_batched(*scope, op, inputs, attrs);
  OpContext ctx(op, inputs, attrs);
  run_forward(ctx);
  if (op.is_view || op.user) link_views(op, inputs, {ctx.outputs.data(), ctx.outputs.size()});
  record_outputs(ctx);
  return std::move(ctx.outputs);
}

Tensor apply1(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  return std::move(apply(op, inputs, attrs)[0]);
}

// ---- forward mode

bool forward_mode() { return level && !inside_jvp; }

ForwardLevel::ForwardLevel() {
  if (level)
    fail(ErrorKind::autograd, "forward_level",
         "a level is open in this thread already; one at a time");
  level = this;
  level_start = next_sequence;
}
ForwardLevel::~ForwardLevel() { level = nullptr; }
void ForwardLevel::set_tangent(const Tensor& x, const Tensor& t) {
  if (x.is_number())
    fail(ErrorKind::autograd, "set_tangent",
         "a number takes its dtype and device anew in every op and can "
         "have no tangent; make a 0-d tensor with Tensor::full({}, ...)");
  if (!(x.sizes() == t.sizes()) || x.dtype() != t.dtype())
    fail(ErrorKind::autograd, "set_tangent", "the tensor is ", x.dtype(), " ", x.sizes(),
         ", its tangent is ", t.dtype(), " ", t.sizes());
  if (is_batched(x)) {
    const Batch& b = *x.body()->batch;
    return set_tangent(b.physical, unwrapped(t, b.level));
  }
  if (is_batched(t))
    fail(ErrorKind::autograd, "set_tangent",
         "vmap: the tangent is batched, the tensor is not; use func::jvp, which lifts it");
  give_tangent(x, t);
  set_.push_back(x.body()->autograd);
}
bool ForwardLevel::has_set(const Edge& edge) const {
  return std::any_of(set_.begin(), set_.end(), [&](const Ref<Autograd>& a) {
    return edge.leaf ? a == edge.leaf : a->fn && a->fn == edge.fn && a->output_index == edge.index;
  });
}

}  // namespace gradus
