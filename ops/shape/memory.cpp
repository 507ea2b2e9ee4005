// Ops that move values: cast, contiguous, clone; writes in place; and the arithmetic that the
// engine's walk is given.
#include "engine/arithmetic.hpp"
#include "engine/forward.hpp"
#include "engine/batch.hpp"
#include "engine/in_place.hpp"
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/shape/in_place.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/creation.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

void add_into(Tensor& sum, const Tensor& x) {
  sum.storage().write("accumulate");
  static const int add = get_op("add").statement;
  KernelCall(GD_POINTWISE, add).in(sum).in(x, sum.sizes()).out(sum).run();
}

// From one device of a table to another, past the host; waits for both. False: nothing was done.
bool copy_from_peer(const Tensor& to, const Tensor& x, const void* from) {
  Device &device = to.device(), &peer = x.device();
  if (&peer.table() != &device.table()) return false;
  for (Device* d : {&peer, &device})
    for (KernelWrapper* w : d->wrappers())
      w->unseen(join("values go from ", peer.name(), " to ", device.name()).c_str());
  if (streams_used) in_order(*x.storage().buffer(), false);
  peer.synchronize();
  gd_error error{};
  if (x.bytes() > 0 &&
      device.table().copy(device.handle(), device.lane().stream, to.storage().data(), from,
                          x.bytes(), GD_FROM_PEER, &error) != GD_OK)
    fail(ErrorKind::device, "copy", "from ", peer.name(), " to ", device.name(), ": ", error.text);
  return true;
}
// Between devices whose memory is the host's: one copy, whatever x's strides. False: nothing was
// done.
bool copy_in_host(const Tensor& to, const Tensor& x) {
  Device &device = to.device(), &peer = x.device();
  if (!device.host_memory() || !peer.host_memory() || is_user(x.dtype())) return false;
  for (Device* d : {&peer, &device})
    for (KernelWrapper* w : d->wrappers())
      w->unseen(join("values go from ", peer.name(), " to ", device.name()).c_str());
  if (streams_used) in_order(*x.storage().buffer(), false);
  peer.synchronize();
  const auto view = [](const Tensor& t) {
    return gd_view{t.storage().buffer_id(), t.storage().data(), int32_t(t.dtype()),
                   int32_t(t.rank()),       t.offset(),         t.sizes().data(),
                   t.strides().data()};
  };
  const gd_view in = view(x), out = view(to);
  gd_call call{};
  call.struct_size = sizeof call;
  call.slot = GD_COPY;
  call.n_in = call.n_out = 1;
  call.in = &in;
  call.out = &out;
  if (x.numel() > 0) device.run(call);
  return true;
}
bool has_nan(const Tensor& x) {
  if (is_batched(x)) return has_nan(x.body()->batch->physical);
  const NoGrad off;
  return sum(ne(x.detach(), x.detach())).item_integer() > 0;
}

DType target(const Attrs& attrs) { return attrs[0].dtype(); }

const OpInfo& cast_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = new_op(
        "cast", "memory", "the same values in another dtype", "y = dtype(x)", {{"x"}},
        {{"dtype", AttrValue::Type::dtype, {}, "f32 f64 c64 c128 i32 i64 u8 bool f16 bf16"}});
    o.call = [](Operands in, const Attrs& a) { return cast(in[0], target(a)); };
    o.forward = [](OpContext& ctx) {
      const Tensor& x = ctx.inputs[0];
      Tensor y = Tensor::empty(x.sizes(), target(ctx.attrs), x.device());
      copy_values(x, y);
      ctx.outputs.push_back(y);
    };
    // complex -> real keeps the real part, so its vjp puts g on the real axis: a cast again.
    o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
      return g[0].defined() ? cast(g[0], node.input_metas()[0].dtype) : Tensor();
    };
    o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
      return cast(t[0], node.output_metas()[0].dtype);
    };
    return add_op(std::move(o));
  }();
  return op;
}

// contiguous and clone differ in their forward only.
OpInfo identity_op(std::string name, std::string doc, void (*forward)(OpContext&)) {
  OpInfo o = new_op(std::move(name), "memory", std::move(doc), "y = x", {{"x"}});
  o.forward = forward;
  o.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };
  o.jvp = [](GradFn&, size_t, std::span<const Tensor> t) { return t[0]; };
  return o;
}

const OpInfo& contiguous_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = identity_op("contiguous", "the same values, row-major", [](OpContext& ctx) {
      ctx.outputs.push_back(dense_copy(ctx.inputs[0]));
    });
    o.call = [](Operands in, const Attrs&) { return contiguous(in[0]); };
    return add_op(std::move(o));
  }();
  return op;
}

const OpInfo& clone_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = identity_op(
        "clone", "a copy; the memory of a whole tensor is shared until one side is written",
        [](OpContext& ctx) {
          const Tensor& x = ctx.inputs[0];
          // an expanded tensor could never be written
          ctx.outputs.push_back(overlaps_itself(x.sizes(), x.strides()) ? dense_copy(x)
                                                                        : x.clone_data());
        });
    o.call = [](Operands in, const Attrs&) { return clone(in[0]); };
    return add_op(std::move(o));
  }();
  return op;
}

// The real (k = 0) or imaginary parts of z where they lie.
Tensor parts_of(const Tensor& z, int64_t k) {
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->storage = Ref<Storage>(&z.storage());
  body->dtype = real_dtype(z.dtype());
  body->sizes = z.sizes();
  for (const int64_t s : z.strides()) body->strides.push_back(2 * s);
  body->offset = 2 * z.offset() + k;
  return Tensor(std::move(body));
}
const OpInfo& complex_op() {
  static const OpInfo& op = []() -> const OpInfo& {
    OpInfo o = new_op("complex", "memory", "a complex tensor of its real and its imaginary parts",
                      "z = real + i imag", {{"real"}, {"imag"}});
    o.call = [](Operands in, const Attrs&) { return complex(in[0], in[1]); };
    o.forward = [](OpContext& ctx) {
      const Tensor& x = ctx.inputs[0];
      const Tensor z =
          Tensor::empty(x.sizes(), x.dtype() == DType::f64 ? DType::c128 : DType::c64, x.device());
      for (int64_t k = 0; k < 2; ++k) copy_values(ctx.inputs[size_t(k)], parts_of(z, k));
      ctx.outputs.push_back(z);
    };
    o.vjp = [](GradFn&, size_t k, std::span<const Tensor> g) {
      return k == 0 ? real(g[0]) : imag(g[0]);
    };
    o.jvp = [](GradFn&, size_t, std::span<const Tensor> t) {
      const auto part = [&](size_t k) { return t[k].defined() ? t[k] : zeros_like(t[1 - k]); };
      return complex(part(0), part(1));
    };
    return add_op(std::move(o));
  }();
  return op;
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  if (x.is_number()) return materialise(x, dtype, default_device());
  return x.dtype() == dtype ? x : apply1(cast_op(), {x}, {dtype});
}
Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : apply1(contiguous_op(), {x}); }
Tensor clone(const Tensor& x) { return apply1(clone_op(), {x}); }
Tensor complex(const Tensor& real, const Tensor& imag) {
  const Tensor both[] = {real, imag};
  const DType dtype = result_dtype(both);
  if (dtype != DType::f32 && dtype != DType::f64)
    fail(ErrorKind::dtype, "complex", "parts of ", real.dtype(), " and ", imag.dtype(),
         "; f32 and f64 have complex numbers");
  const Shape sizes = broadcast_shapes("complex", real.sizes(), imag.sizes());
  return apply1(complex_op(), {expand(cast(real, dtype), sizes), expand(cast(imag, dtype), sizes)});
}

namespace {
void copy_past_host(const Tensor& y, const Tensor& x) {
  const Tensor source = x.is_number() || x.is_contiguous() ? x : dense_copy(x);
  const auto* from = static_cast<const char*>(source.storage().data()) +
                     source.offset() * int64_t(itemsize(x.dtype()));
  if (copy_from_peer(y, source, from)) return;
  std::vector<char> host(x.bytes());
  source.copy_to_host(host.data());
  y.device().copy_in(y.storage().data(), host.data(), y.bytes());
}
}  // namespace

Tensor to_device(const Tensor& x, Device& device) {
  if (&x.device() == &device) return x;
  if (!x.is_leaf() &&
      ((grad_enabled() && x.requires_grad()) || (forward_mode() && x.tangent().defined())))
    fail(ErrorKind::autograd, "to_device", "the history of a tensor ends at its device, ",
         x.device().name(), "; detach it, or move the leaves before the step");
  Tensor y = Tensor::empty(x.sizes(), x.dtype(), device);
  y.storage().announce_used();
  if (x.is_number() || !copy_in_host(y, x)) copy_past_host(y, x);
  if (x.is_leaf() && x.requires_grad()) y.set_requires_grad();
  return y;
}

namespace {
void copy_as(const char* name, const Tensor& to, const Tensor& from) {
  check_holds(name, to.dtype(), from);
  Tensor source = materialise(from, to.dtype(), to.device());
  if (!broadcasts_to(source.sizes(), to.sizes()))
    fail(ErrorKind::shape, name, "shape ", source.sizes(), " does not broadcast to ", to.sizes());
  check_writable(to, name);
  auto lives = [](const Tensor& t) {
    return (grad_enabled() && t.requires_grad()) || (forward_mode() && t.tangent().defined());
  };
  if (lives(source) || lives(to) || (to.is_view() && lives(Tensor(to.body()->view.base)))) {
    assign(to, expand(cast(source, to.dtype()), to.sizes()), name);
    return;
  }
  prepare_write(to, name);
  if (&source.storage() == &to.storage() &&
      !(source.sizes() == to.sizes() && source.strides() == to.strides() &&
        source.offset() == to.offset()))
    source = dense_copy(source);  // the two may overlap
  copy_values(source, to);
}
}  // namespace
void copy_(const Tensor& to, const Tensor& from) { copy_as("copy_", to, from); }

Tensor in_place(std::string_view name, const Tensor& x, const Tensors& others, const Attrs& attrs) {
  const OpInfo& op = get_op(name);
  return in_place(op, x, others, op.completed(attrs));
}
Tensor fill_(const Tensor& x, const Tensor& value) {
  if (value.rank() != 0)
    fail(ErrorKind::shape, "fill_", "the value has shape ", value.sizes(), ", expected a number");
  copy_as("fill_", x, value);
  return x;
}

void register_memory() {
  cast_op();
  contiguous_op();
  clone_op();
  complex_op();
  set_arithmetic({add, add_into, sum_to, expand, contiguous, clone, cast, has_nan, elements_at,
                  &as_strided_scatter_op(), permute});
}

}  // namespace gradus
