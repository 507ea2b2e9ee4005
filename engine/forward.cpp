#include "engine/forward.hpp"

#include "engine/arithmetic.hpp"
#include "engine/batch.hpp"

#include <algorithm>

namespace gradus::inline v1 {

void give_tangent(const Tensor& x, const Tensor& t) {
  Autograd* const primal = &autograd_of(x);
  forward_level->tangents_.insert_or_assign(primal, ForwardLevel::Dual{Ref<Autograd>(primal), t});
}
Tensor Tensor::tangent() const {
  if (!forward_level) return Tensor();
  if (is_batched(*this)) {
    const Tensor t = body_->batch->physical.tangent();
    return t.defined() ? wrapped(t, body_->batch->level) : t;
  }
  const auto found = forward_level->tangents_.find(autograd());
  return found == forward_level->tangents_.end() ? Tensor() : found->second.tangent;
}

// Rules run as if no level were open: with one level, a tangent has no tangent of its own.
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
    if (!(t.sizes() == ctx.outputs[k].sizes())) t = arithmetic().expand(t, ctx.outputs[k].sizes());
    give_tangent(ctx.outputs[k], t);
    for (const Saved& s : node.saved_)
      if (s.role == Saved::Role::output && s.index == k) give_tangent(s.tensor, t);
  }
}

ForwardLevel::ForwardLevel() {
  if (forward_level)
    fail(ErrorKind::autograd, "forward_level",
         "a level is open in this thread already; one at a time");
  forward_level = this;
  start_ = next_sequence();
}
ForwardLevel::~ForwardLevel() { forward_level = nullptr; }
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
