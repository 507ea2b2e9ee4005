// Recording: apply(), record(), saved tensors, tangents, modes. The backward walk is in
// backward.cpp.
#include "engine/graph.hpp"

#include <atomic>

namespace gradus {

namespace {
thread_local bool grad_on = true;
thread_local ForwardLevel* level = nullptr;
thread_local bool inside_jvp = false;  // or inside a user's forward: no tangents are pushed
std::atomic<uint64_t> next_sequence{1};
Arithmetic functions{};
}  // namespace

bool grad_enabled() { return grad_on; }
NoGrad::NoGrad() : before_(grad_on) { grad_on = false; }
NoGrad::~NoGrad() { grad_on = before_; }
EnableGrad::EnableGrad() : before_(grad_on) { grad_on = true; }
EnableGrad::~EnableGrad() { grad_on = before_; }
void set_arithmetic(const Arithmetic& f) { functions = f; }
const Arithmetic& arithmetic() { return functions; }

// ---- nodes

// A node's death drops its edges and saved tensors, which may be the last handles of other nodes.
// Those queue up here instead of recursing, so a chain of any length dies in a flat stack.
void destroy(const GradFn* node) {
  thread_local std::vector<const GradFn*>* dying = nullptr;
  if (dying) {
    dying->push_back(node);
    return;
  }
  std::vector<const GradFn*> queue{node};
  dying = &queue;
  while (!queue.empty()) {
    const GradFn* next = queue.back();
    queue.pop_back();
    delete next;
  }
  dying = nullptr;
}

void GradFn::free_saved() {
  freed_ |= !saved_.empty();
  saved_.clear();
}

Tensor GradFn::input(size_t k) { return unpack(Saved::Role::input, k); }
Tensor GradFn::output(size_t k) { return unpack(Saved::Role::output, k); }
Tensor GradFn::extra(size_t k) { return unpack(Saved::Role::extra, k); }

Tensor GradFn::unpack(Saved::Role role, size_t index) {
  constexpr const char* kRole[] = {"input", "output", "extra"};
  if (freed_)
    fail(ErrorKind::autograd, op_->name,
         "backward through this graph a second time: its saved tensors "
         "were freed by the first; pass retain_graph to the first call");
  for (const Saved& s : saved_) {
    if (s.role != role || s.index != index) continue;
    if (s.tensor.version() != s.version)
      fail(ErrorKind::autograd, op_->name, "saved ", kRole[int(role)], " ", int64_t(index), " ",
           s.tensor.sizes(), " was changed by ", s.tensor.storage().last_writer(),
           " after it was saved (version ", s.version, " -> ", s.tensor.version(),
           "); clone() it before the write, or use an op that returns a new tensor");
    const Tensor tangent = level ? s.tensor.tangent() : Tensor();
    if (role != Saved::Role::output || !attached_ || (!grad_on && !tangent.defined()))
      return s.tensor;
    Tensor out = s.tensor.detach();
    Autograd& autograd = autograd_of(out);
    autograd.fn = Ref<GradFn>(this);
    autograd.output_index = uint32_t(index);
    if (tangent.defined()) give_tangent(out, tangent);
    return out;
  }
  fail(ErrorKind::internal, op_->name, kRole[int(role)], " ", int64_t(index), " was not saved");
}

// ---- one call

OpContext::OpContext(const OpInfo& info, std::span<const Tensor> in, const Attrs& a)
    : op(info), inputs(in), attrs(a) {
  for (const Tensor& t : in) {
    const bool need = info.differentiable && t.defined() &&
                      ((grad_on && t.requires_grad()) || (forward_mode() && t.tangent().defined()));
    needs_.push_back(need);
    any_ |= need;
  }
}

void OpContext::keep(Saved::Role role, uint32_t index, const Tensor& t) {
  if (!any_) return;
  for (const Saved& s : saved_)
    if (s.role == role && s.index == index) return;
  saved_.push_back({role, index, t, t.version()});
}
void OpContext::save_input(size_t k) { keep(Saved::Role::input, uint32_t(k), inputs[k]); }
void OpContext::save_output(size_t k) {
  keep(Saved::Role::output, uint32_t(k), outputs[k].detach());
}
void OpContext::save(const Tensor& extra) { keep(Saved::Role::extra, extras_++, extra); }

// The only place that attaches a node.
Ref<GradFn> record(OpContext& ctx) {
  Ref<GradFn> node = make_ref<GradFn>();
  node->op_ = &ctx.op;
  node->sequence_ = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->attrs_ = ctx.attrs;
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
    node->input_metas_.push_back(t.defined() ? TensorMeta{t.sizes(), t.dtype(), &t.device()}
                                             : TensorMeta{{}, DType::f32, nullptr});
  }
  for (size_t k = 0; k < ctx.outputs.size(); ++k) {
    const Tensor& y = ctx.outputs[k];
    node->output_metas_.push_back({y.sizes(), y.dtype(), &y.device()});
    if (history && is_differentiable(y.dtype())) {
      Autograd& autograd = autograd_of(y);
      autograd.fn = node;
      autograd.output_index = uint32_t(k);
    }
  }
  node->attached_ = history;
  return node;
}

void give_tangent(const Tensor& x, const Tensor& t) {
  autograd_of(x).tangent = t;
  level->dual_.push_back(x.body()->autograd);
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
  for (size_t k = 0; k < ctx.outputs.size(); ++k) {
    if (!is_differentiable(ctx.outputs[k].dtype())) continue;
    inside_jvp = true;
    Tensor t;
    try {
      t = ctx.op.jvp(node, k, {tangents.data(), tangents.size()});
    } catch (...) {
      inside_jvp = false;
      throw;
    }
    inside_jvp = false;
    if (!t.defined()) continue;
    if (!(t.sizes() == ctx.outputs[k].sizes())) t = functions.expand(t, ctx.outputs[k].sizes());
    give_tangent(ctx.outputs[k], t);
    for (const Saved& s : node.saved_)
      if (s.role == Saved::Role::output && s.index == k) give_tangent(s.tensor, t);
  }
}

// A user's forward calls ops: they run as if no derivative were asked for.
void run_forward(OpContext& ctx) {
  if (!ctx.op.user) return ctx.op.forward(ctx);
  const NoGrad off;
  struct NoTangents {
    bool before = std::exchange(inside_jvp, true);
    ~NoTangents() { inside_jvp = before; }
  } quiet;
  ctx.op.forward(ctx);
}

SmallVector<Tensor, 1> apply(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  CurrentOp now(op.name.c_str());
  OpContext ctx(op, inputs, attrs);
  run_forward(ctx);
  if (ctx.needs_any()) {
    Ref<GradFn> node = record(ctx);
    if (forward_mode()) push_tangents(ctx, *node);
  }
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
}
ForwardLevel::~ForwardLevel() {
  for (const Ref<Autograd>& a : dual_) a->tangent = Tensor();
  level = nullptr;
}
void ForwardLevel::set_tangent(const Tensor& x, const Tensor& t) {
  if (x.is_number())
    fail(ErrorKind::autograd, "set_tangent",
         "a number takes its dtype and device anew in every op and can "
         "have no tangent; make a 0-d tensor with Tensor::full({}, ...)");
  if (!(x.sizes() == t.sizes()) || x.dtype() != t.dtype())
    fail(ErrorKind::autograd, "set_tangent", "the tensor is ", x.dtype(), " ", x.sizes(),
         ", its tangent is ", t.dtype(), " ", t.sizes());
  give_tangent(x, t);
}

}  // namespace gradus
