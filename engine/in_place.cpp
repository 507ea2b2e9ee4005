#include "engine/forward.hpp"
#include "engine/arithmetic.hpp"
#include "engine/in_place.hpp"
#include "engine/kernel_call.hpp"
#include "engine/graph.hpp"
#include "engine/base/lock.hpp"

#include <algorithm>
#include <mutex>

namespace gradus::inline v1 {

namespace {

// A second handle on x's values and history, which a write to x leaves alone.
Tensor snapshot(const Tensor& x) {
  Tensor copy = x.clone_data();
  if (!x.requires_grad() && !x.tangent().defined()) return copy;
  Autograd& a = autograd_of(copy);
  a.fn = Ref<GradFn>(x.grad_fn());
  a.output_index = x.output_index();
  if (forward_mode() && x.tangent().defined()) give_tangent(copy, x.tangent());
  return copy;
}

// x gets y's history and tangent; its views will notice.
void take_history(const Tensor& x, const Tensor& y) {
  Ref<Autograd> fresh = make_ref<Autograd>();
  fresh->fn = Ref<GradFn>(y.grad_fn());
  fresh->output_index = y.output_index();
  TensorBody& body = *x.body();
  std::swap(body.autograd, fresh);
  if (body.view.base) body.view.seen = body.view.base->histories.load();
  ++body.histories;
  if (fresh && fresh->retained && x.requires_grad()) x.retain_grad();
  if (forward_mode() && y.tangent().defined()) give_tangent(x, y.tangent());
}

bool has_history(const Tensor& x) {
  return (grad_enabled() && x.requires_grad()) || (forward_mode() && x.tangent().defined());
}

// Strides into a base mean something to as_strided only if the base is read as it lies.
void need_row_major(const Tensor& base, const char* op) {
  if (!base.is_contiguous())
    fail(ErrorKind::autograd, op, "the tensor behind this view is not row-major (", base.strides(),
         " for ", base.sizes(), "); contiguous() it before the view is taken");
}

// Is this all of its storage, in row-major order? Lent memory is neither left nor shared.
bool is_whole(const Tensor& x) {
  return x.offset() == 0 && x.is_contiguous() && x.bytes() == x.storage().bytes() &&
         !x.storage().buffer()->shown;
}

void write_values(const Tensor& x, Tensor y, const char* op) {
  if (!x.is_view() && is_whole(x) && is_whole(y) && &x.device() == &y.device()) {
    y.storage().announce_used();
    x.storage().replace(y.storage().buffer(), op);
    return;
  }
  if (&x.storage() == &y.storage())  // the two may overlap
    y = dense_copy(y);
  x.storage().write(op);
  copy_values(y, x);
}

}  // namespace

Tensor in_place(const OpInfo& op, const Tensor& x, std::span<const Tensor> others,
                const Attrs& attrs) {
  const char* name = intern(op.name + "_");
  check_writable(x, name);
  Tensor y;
  {
    const bool records = has_history(x) || std::any_of(others.begin(), others.end(), has_history);
    const Tensor before = records ? snapshot(x) : x;
    Tensors in{before};
    for (const Tensor& t : others) in.push_back(t.same_body(x) ? before : t);
    Tensors out = op.call(in, op.completed(attrs));
    if (out.size() != 1)
      fail(ErrorKind::value, name, "an op of ", int64_t(out.size()),
           " outputs has no in-place form");
    y = std::move(out[0]);
  }
  assign(x, std::move(y), name);
  return x;
}

void assign(const Tensor& x, Tensor y, const char* op) {
  check_writable(x, op);
  if (!(y.sizes() == x.sizes()))
    fail(ErrorKind::shape, op, "the result has shape ", y.sizes(), ", the tensor written to ",
         x.sizes());
  if (y.dtype() != x.dtype()) {
    const auto kind = [](DType t) { return is_complex(t) ? 2 : is_floating(t) ? 1 : 0; };
    if (kind(y.dtype()) > kind(x.dtype()))
      fail(ErrorKind::dtype, op, "the result is ", y.dtype(), ", which can't be written into ",
           x.dtype());
    y = arithmetic().cast(y, x.dtype());
  }
  const Tensor base = x.is_view() ? Tensor(x.body()->view.base) : x;
  if (!has_history(y) && !has_history(base) && !has_history(x)) return write_values(x, y, op);
  // A leaf has no history that another tensor could take: its copy has.
  if (grad_enabled() && y.requires_grad() && !y.grad_fn()) y = arithmetic().clone(y);
  if (x.is_view()) {
    if (x.body()->view.opaque)
      fail(ErrorKind::autograd, op, "a view that a user's function returned is written in place, ",
           "which would override that function's derivative; clone() it first");
    if (x.body()->view.frozen)
      fail(ErrorKind::autograd, op,
           "a view made under no_grad is written in place while recording; ",
           "make the view anew, or write under no_grad");
    need_row_major(base, op);
  }
  const bool replaces = !x.is_view() && (has_history(y) || !has_history(x)) &&
                        (!x.tangent().defined() || y.tangent().defined());
  if (replaces) {
    write_values(x, y, op);
    take_history(x, y);
    return;
  }
  // The base's new history, without running the op: its values are written below.
  const Attrs at{x.is_view() ? x.strides() : contiguous_strides(x.sizes()),
                 x.offset() - base.offset()};
  const Tensor operands[] = {base, y};
  OpContext ctx(*arithmetic().scatter_strided, operands, at);
  ctx.outputs.push_back(base.detach());
  record_outputs(ctx);
  write_values(x, y, op);
  take_history(base, ctx.outputs[0]);
}

// A view that this thread is bringing up to date, and those that wait for it.
struct Following {
  const TensorBody* view;
  const Following* outer;
};
static thread_local const Following* following = nullptr;

void follow_base(const Tensor& view) {
  TensorBody& body = *view.body();
  const uint64_t now = body.view.base->histories;
  if (body.view.seen == now) return;
  const char* writer = body.view.base->storage->last_writer();
  for (const Following* f = following; f; f = f->outer)
    if (f->view == &body)
      fail(ErrorKind::autograd, writer, "a tangent is a view of the tensor that has it, ",
           "which was written in place; give it a clone()");
  const Following own{&body, following};
  const Scoped waits(following, &own);
  if (body.view.frozen) {
    if (!grad_enabled() && !forward_mode()) return;
    fail(ErrorKind::autograd, writer,
         "a view made under no_grad is used after its base was written in place while recording; ",
         "make the view anew, or write under no_grad");
  }
  const Tensor base(body.view.base);
  static Lock publishing;
  Ref<Autograd> old;  // dies outside of the lock, as does what is taken out of the body
  {
    const std::lock_guard lock(publishing);
    if (body.view.seen == now) return;
    old = body.autograd;
  }
  if (old && old->requires_grad)
    fail(ErrorKind::autograd, writer,
         "a leaf that requires a gradient is a view, and its base was written in place; ",
         "make the leaf a clone()");
  if (base.requires_grad() || base.tangent().defined()) need_row_major(base, writer);
  EnableGrad on;
  const OutsideJvp outside;
  const Tensor fresh =
      arithmetic().as_strided(base, body.sizes, body.strides, body.offset - base.offset());
  if (old && old->retained && fresh.requires_grad()) fresh.retain_grad();
  Ref<Autograd> history(&autograd_of(fresh));
  const std::lock_guard lock(publishing);
  if (body.view.seen == now) return;
  std::swap(body.autograd, history);
  body.view.seen = now;
}

void link_views(const OpInfo& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  for (Tensor& y : outputs)
    for (const Tensor& x : inputs) {
      if (!x.defined() || !x.body()->storage || &x.storage() != &y.storage()) continue;
      if (y.same_body(x)) y = x.detach();  // a user's function that returns its input
      const TensorBody::View& of = x.body()->view;
      TensorBody::View& view = y.body()->view;
      view.base = of.base ? of.base : x.body();
      view.seen = view.base->histories.load();
      view.frozen = of.frozen || (!grad_enabled() && !forward_mode());
      view.opaque = op.user || of.opaque;
      break;
    }
}

}  // namespace gradus
