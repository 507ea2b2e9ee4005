// Recording: apply(), record(), saved tensors. The walk back is in backward.cpp.
#include "engine/arithmetic.hpp"
#include "engine/batch.hpp"
#include "engine/forward.hpp"
#include "engine/hooks.hpp"
#include "engine/in_place.hpp"

#include <algorithm>

namespace gradus::inline v1 {

static std::atomic<uint64_t> sequence{1};
uint64_t next_sequence() { return sequence; }

static Arithmetic functions{};
void set_arithmetic(const Arithmetic& f) { functions = f; }
const Arithmetic& arithmetic() { return functions; }

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

void GradFn::pack_saved() {
  if (!modes.saved_tensor_hooks) return;
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
         observer ? observer->stale_story(*this, saved) : std::string());
  return with_history(t, role, index);
}

// A saved tensor as this node's derivative must see it: an output as the node's, an input as what
// it was when the node was made, whatever has become of its handle since.
Tensor GradFn::with_history(const Tensor& t, Saved::Role role, size_t index) {
  if (role == Saved::Role::extra || (!modes.grad && !forward_level)) return t;
  const Tensor tangent = t.tangent();
  if (forward_level && sequence_ < forward_level->start_ && role == Saved::Role::input &&
      forward_level->has_set(inputs_[index]))
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
  if (as_it_is || (!modes.grad && !tangent.defined())) return t;
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

Edge edge_of(const Tensor& t) {
  if (GradFn* fn = t.grad_fn()) return {Ref<GradFn>(fn), nullptr, t.output_index()};
  return {nullptr, t.body()->autograd, 0};
}

// ---- one call

OpContext::OpContext(const OpInfo& info, std::span<const Tensor> in, const Attrs& a)
    : op(info), inputs(in), attrs(a) {
  const bool tangents = forward_mode();
  for (const Tensor& t : in) {
    needs_.push_back(info.differentiable && t.defined() &&
                     ((modes.grad && t.requires_grad()) || (tangents && t.tangent().defined())));
    any_ |= needs_.back();
  }
}

void OpContext::keep(Saved::Role role, uint32_t index, const Tensor& t) {
  if (!any_) return;
  for (const Saved& s : saved_)
    if (s.role == role && s.index == index) return;
  if (t.is_inference() && modes.grad)
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
  if (any_) keep(Saved::Role::output, uint32_t(k), outputs[k].detach());
}
void OpContext::save(const Tensor& extra) { keep(Saved::Role::extra, extras_++, extra); }

// The only place that attaches a node.
Ref<GradFn> record(OpContext& ctx) {
  Ref<GradFn> node = make_ref<GradFn>();
  node->op_ = &ctx.op;
  node->sequence_ = sequence.fetch_add(1, std::memory_order_relaxed);
  static const Attrs none;
  node->attrs_ = ctx.shared          ? *ctx.shared
                 : ctx.attrs.empty() ? SharedAttrs(SharedAttrs(), &none)  // held by nobody
                                     : std::make_shared<const Attrs>(ctx.attrs);
  node->saved_ = std::move(ctx.saved_);
  node->needs_ = ctx.needs_;
  bool history = false;
  for (const Tensor& t : ctx.inputs) {
    const bool leads = t.defined() && modes.grad && ctx.op.differentiable && t.requires_grad();
    node->inputs_.push_back(leads ? edge_of(t) : Edge());
    history |= leads;
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
  if (modes.anomaly && history) node->hooks().trace = trace_text();
  return node;
}

// A user's forward calls ops itself: they are not recorded, and no observer is told of them.
void run_forward(OpContext& ctx) {
  if (!ctx.op.user) return ctx.op.forward(ctx);
  const NoGrad off;
  const Scoped inside(inside_jvp, true);
  const Unwatched quiet;
  ctx.op.forward(ctx);
}

void record_outputs(OpContext& ctx) {
  Ref<GradFn> node;
  if (ctx.needs_any()) {
    node = record(ctx);
    if (forward_mode()) push_tangents(ctx, *node);
    if (node->attached_) node->pack_saved();
  }
  if (observer) observer->called(ctx, node && node->attached_ ? node.get() : nullptr);
}

Outputs apply(const OpInfo& op, Operands inputs, const Attrs& attrs, const SharedAttrs* shared) {
  CurrentOp now(op.name.c_str());
  if (const BatchScope* scope = batch_scope_of(op, inputs))
    return apply_batched(*scope, op, inputs, attrs);
  OpContext ctx(op, inputs, attrs);
  ctx.shared = shared;
  run_forward(ctx);
  if (op.is_view || op.user) link_views(op, inputs, {ctx.outputs.data(), ctx.outputs.size()});
  record_outputs(ctx);
  return std::move(ctx.outputs);
}

Tensor apply1(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  return std::move(apply(op, inputs, attrs)[0]);
}

}  // namespace gradus
