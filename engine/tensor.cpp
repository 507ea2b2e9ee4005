#include "engine/arithmetic.hpp"
#include "engine/tensor.hpp"

#include "engine/batch.hpp"
#include "engine/graph.hpp"
#include "engine/hooks.hpp"
#include "engine/in_place.hpp"
#include "engine/kernel_call.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1 {

int64_t numel_of(const Shape& sizes) {
  int64_t n = 1;
  bool empty = false, overflows = false;
  for (int64_t s : sizes) {
    if (s < 0) fail(ErrorKind::shape, "shape", "negative size in ", sizes);
    empty |= s == 0;
    overflows |= __builtin_mul_overflow(n, s == 0 ? 1 : s, &n) || n > (int64_t(1) << 58);
  }
  // Strides are products, too, also those of a shape with a 0.
  if (overflows) fail(ErrorKind::shape, "shape", "the product of the sizes ", sizes, " overflows");
  return empty ? 0 : n;
}

static void row_major(const Shape& sizes, Shape& strides) {
  strides.resize(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * (sizes[i] > 1 ? sizes[i] : 1);
}
Shape contiguous_strides(const Shape& sizes) {
  numel_of(sizes);  // refuses what would overflow
  Shape strides;
  row_major(sizes, strides);
  return strides;
}

// Sorted by stride, each axis must step over all that the ones before it reach.
bool overlaps_itself(const Shape& sizes, const Shape& strides) {
  SmallVector<std::pair<int64_t, int64_t>, 6> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1) axes.push_back({std::abs(strides[i]), sizes[i]});
  std::sort(axes.begin(), axes.end());
  int64_t span = 0;
  for (const auto& [stride, size] : axes) {
    if (stride <= span) return true;
    span += stride * (size - 1);
  }
  return false;
}

void destroy(const TensorBody* body) { delete body; }
TensorBody::~TensorBody() { Ref<Storage>::adopt(number.storage.load(std::memory_order_relaxed)); }
void destroy(const Autograd* autograd) { delete autograd; }
Autograd::Autograd() = default;
Autograd::~Autograd() = default;

namespace {
Ref<TensorBody> number_body(DType dtype, double number, int64_t integer) {
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->dtype = dtype;
  body->number.value = number;
  body->number.integer = integer;
  return body;
}
}  // namespace

void Tensor::fail_undefined() { fail(ErrorKind::value, "tensor", "this tensor is undefined"); }

Tensor::Tensor(double v) : body_(number_body(DType::f64, v, to_integer(v))) {}
Tensor::Tensor(int64_t v) : body_(number_body(DType::i64, double(v), v)) {}
Tensor::Tensor(bool v) : body_(number_body(DType::bool_, v, v)) {}

Tensor Tensor::empty(const Shape& sizes, DType dtype, Device& device) {
  const int64_t n = numel_of(sizes);
  if (int32_t(dtype) < 0)
    fail(ErrorKind::dtype, "empty",
         "this C++ type has no dtype; call register_scalar<T>(name) first");
  size_t bytes;  // those of a user's dtype may be many
  if (__builtin_mul_overflow(size_t(n), itemsize(dtype), &bytes)) bytes = SIZE_MAX;
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->storage = make_ref<Storage>(make_ref<Buffer>(device, bytes));
  body->dtype = dtype;
  body->sizes = sizes;
  row_major(sizes, body->strides);
  body->inference = inference_mode();
  return Tensor(std::move(body));
}

Tensor Tensor::zeros(const Shape& sizes, DType dtype, Device& device) {
  return full_integer(sizes, 0, dtype, device);
}
Tensor Tensor::full(const Shape& sizes, std::complex<double> value, DType dtype, Device& device) {
  Tensor t = empty(sizes, dtype, device);
  fill_values(t, value, is_integer(dtype) ? to_integer(value.real()) : 0);
  return t;
}
Tensor Tensor::full_integer(const Shape& sizes, int64_t value, DType dtype, Device& device) {
  Tensor t = empty(sizes, dtype, device);
  fill_values(t, double(value), value);
  return t;
}
Tensor Tensor::from_host(const void* data, const Shape& sizes, DType t, Device& d, bool constant) {
  const Tensor y = empty(sizes, t, d);
  y.storage().announce_used();
  d.copy_in(y.storage().data(), data, y.bytes(), constant);
  return y;
}

int64_t Tensor::numel() const { return numel_of(sizes()); }

Device& Tensor::batched_device() const { return body_->batch->physical.device(); }

Storage& Tensor::made_storage() const {
  TensorBody& body = checked();
  if (body.batch)
    fail(ErrorKind::value, current_op(),
         "vmap: a batched tensor stands for all examples at once: its values cannot be read on the "
         "host (item, printing, data-dependent sizes and branches) nor written in place; use "
         "where() for a branch, an op that returns a new tensor for a write, or a loop");
  // A number; perhaps asked for by several threads at once: one of them is the first.
  std::atomic<Storage*>& kept = body.number.storage;
  Storage* made = kept.load(std::memory_order_acquire);
  if (made) return *made;
  const Ref<Storage> mine(&materialise(*this, body.dtype, default_device()).storage());
  mine->retain();  // the body's handle
  if (kept.compare_exchange_strong(made, mine.get(), std::memory_order_acq_rel)) return *mine;
  mine->drop();
  return *made;
}

int64_t Tensor::size(int64_t axis) const {
  const int64_t n = rank();
  if (axis < -n || axis >= n)
    fail(ErrorKind::index, "size", "axis ", axis, " of a tensor of shape ", sizes());
  return sizes()[size_t(axis < 0 ? axis + n : axis)];
}

bool Tensor::is_contiguous() const {
  const Shape &s = sizes(), &st = strides();
  int64_t expect = 1;
  for (size_t i = s.size(); i-- > 0;) {
    if (s[i] == 0) return true;
    if (s[i] != 1) {
      if (st[i] != expect) return false;
      expect *= s[i];
    }
  }
  return true;
}

Tensor Tensor::alias(const Shape& sizes, const Shape& strides, int64_t offset) const {
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->storage = Ref<Storage>(&storage());
  body->dtype = dtype();
  body->sizes = sizes;
  body->strides = strides;
  body->offset = offset;
  body->inference = is_inference();
  return Tensor(std::move(body));
}

Tensor Tensor::detach() const {
  if (is_batched(*this)) return wrapped(body_->batch->physical.detach(), body_->batch->level);
  return alias(sizes(), strides(), offset());
}

// Only a buffer that the elements fill is shared: a part of one would keep it all alive, and copy
// it all when written. An expanded axis stays expanded.
Tensor Tensor::clone_data() const {
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->dtype = dtype();
  body->sizes = sizes();
  body->strides = strides();
  body->inference = inference_mode();
  Shape once = sizes();
  for (size_t i = 0; i < once.size(); ++i)
    if (once[i] > 1 && strides()[i] == 0) once[i] = 1;
  if (storage().buffer()->shown ||
      (size_t(numel_of(once)) * itemsize(dtype()) < storage().bytes() &&
       !overlaps_itself(once, strides()))) {
    const Tensor dense = dense_copy(alias(once, strides(), offset()));
    body->storage = dense.body_->storage;
    for (size_t i = 0; i < once.size(); ++i)
      if (once[i] == sizes()[i]) body->strides[i] = dense.strides()[i];
  } else {
    body->storage = make_ref<Storage>(storage().buffer());
    body->offset = offset();
    for (KernelWrapper* w : device().wrappers()) w->cloned(storage(), *body->storage);
  }
  return Tensor(std::move(body));
}

Autograd& autograd_of(const Tensor& t) {
  if (is_batched(t)) return autograd_of(t.body()->batch->physical);
  TensorBody& body = t.checked();
  if (!body.autograd) body.autograd = make_ref<Autograd>();
  return *body.autograd;
}

Autograd* Tensor::autograd() const {
  if (!body_) return nullptr;
  if (body_->batch) return body_->batch->physical.autograd();
  if (body_->view.base) follow_base(*this);
  return body_->autograd.get();
}
bool Tensor::has_gradient_or_history() const {
  const Autograd* a = autograd();
  return a && (a->requires_grad || a->fn);
}
Tensor& Tensor::set_requires_grad(bool on) {
  if (on && is_number())
    fail(ErrorKind::autograd, "requires_grad",
         "a number takes its dtype and device anew in every op and "
         "can have no gradient; make a 0-d tensor with Tensor::full({}, ...)");
  if (on && !is_differentiable(dtype()))
    fail(ErrorKind::autograd, "requires_grad",
         "only floating tensors can have a gradient, this one is ", dtype(),
         "; make it one, such as x.to(f32)");
  if (!is_leaf())
    fail(ErrorKind::autograd, "requires_grad", "this tensor is the result of ",
         grad_fn()->op().name,
         "; only leaves can change requires_grad, use detach() for a copy without history");
  if (on && is_inference() && !inference_mode())
    fail(ErrorKind::autograd, "requires_grad",
         "this tensor was made in inference mode; clone() it to get a normal one");
  autograd_of(*this).requires_grad = on;
  return *this;
}
bool Tensor::is_leaf() const { return grad_fn() == nullptr; }
GradFn* Tensor::grad_fn() const {
  const Autograd* a = autograd();
  return a ? a->fn.get() : nullptr;
}
uint32_t Tensor::output_index() const {
  const Autograd* a = autograd();
  return a ? a->output_index : 0;
}
Tensor Tensor::grad() const {
  const Autograd* a = autograd();
  if (!a) return Tensor();
  const Tensor& kept = a->retained ? a->retained->grad : a->grad;
  const std::lock_guard lock(grad_lock(&kept));
  return kept;
}
void Tensor::set_grad(const Tensor& given) const {
  if (is_batched(*this) || is_batched(given))
    fail(ErrorKind::autograd, "set_grad",
         "vmap: .grad has no place for a gradient per example; use func::grad");
  Tensor g = given;
  if (g.defined()) {
    g = materialise(g, dtype(), device());
    if (!(g.sizes() == sizes()) || g.dtype() != dtype())
      fail(ErrorKind::autograd, "set_grad", "the tensor is ", dtype(), " ", sizes(),
           ", its gradient can't be ", g.dtype(), " ", g.sizes());
    if (&g.device() != &device())
      fail(ErrorKind::autograd, "set_grad", "the tensor is on ", device().name(),
           ", its gradient can't be on ", g.device().name());
    // Sums go into .grad in place: not into this tensor's own elements, nor twice into one.
    if (&g.storage() == &storage()) g = g.clone_data();
    if (overlaps_itself(g.sizes(), g.strides())) g = arithmetic().contiguous(g);
  }
  Autograd& a = autograd_of(*this);
  if (observer) observer->grad_changes(a, true);
  Tensor& kept = a.retained ? a.retained->grad : a.grad;
  const std::lock_guard turn(grad_turn(&kept));
  const std::lock_guard lock(grad_lock(&kept));
  std::swap(kept, g);  // the old one is freed after the lock
}
Tensor& Tensor::detach_() {
  if (is_view())
    fail(ErrorKind::autograd, "detach_", "a view can't be detached in place; use detach()");
  if (body_->autograd) {
    Ref<Autograd> fresh = make_ref<Autograd>();
    fresh->grad = grad();
    Tensor none;  // what was recorded before adds to .grad no more
    {
      const std::lock_guard lock(grad_lock(&body_->autograd->grad));
      std::swap(body_->autograd->grad, none);
    }
    body_->autograd = std::move(fresh);
    ++body_->histories;
  }
  return *this;
}

Tensor materialise(const Tensor& t, DType dtype, Device& device) {
  if (!t.is_number()) return t;
  Tensor out = Tensor::empty({}, dtype, device);
  fill_values(out, t.body()->number.value, t.body()->number.integer);
  return out;
}

void check_writable(const Tensor& t, const char* op) {
  if (is_batched(t)) t.storage();  // throws: it has none
  if (t.is_number())
    fail(ErrorKind::value, op, "a number can't be written in place; write x = x + y, or make a ",
         "tensor with Tensor::full({}, ...)");
  if (t.is_inference() && !inference_mode())
    fail(ErrorKind::autograd, op,
         "a tensor made in inference mode is written in place outside of it; ",
         "clone() it to get a normal one");
  if (grad_enabled() && t.requires_grad() && t.is_leaf())
    fail(ErrorKind::autograd, op,
         "a leaf that requires a gradient is written in place; do it under ",
         "no_grad, or work on a clone()");
  if (grad_enabled() && t.is_view()) {
    const Tensor base(t.body()->view.base);
    if (base.requires_grad() && base.is_leaf())
      fail(ErrorKind::autograd, op,
           "a view of a leaf that requires a gradient is written in place; ",
           "do it under no_grad, or work on a clone()");
  }
  if (t.numel() > 0 && overlaps_itself(t.sizes(), t.strides()))
    fail(ErrorKind::value, op, "the tensor written to overlaps itself (an axis is expanded, or ",
         "windows overlap); clone() it first");
}

void prepare_write(const Tensor& t, const char* op) {
  check_writable(t, op);
  if (grad_enabled() && t.requires_grad())
    fail(ErrorKind::autograd, op, "this write is not recorded, and the tensor is the result of ",
         t.grad_fn()->op().name, "; do it under no_grad, or use the op that returns a new tensor");
  t.storage().write(op);
}

void Tensor::copy_to_host_typed(void* packed, DType want, const char* who) const {
  if (dtype() != want) fail(ErrorKind::dtype, who, "the tensor is ", dtype(), ", asked for ", want);
  copy_to_host(packed);
}

void Tensor::copy_to_host(void* packed) const {
  if (numel() == 0) return;
  Tensor source = is_number() ? materialise(*this, dtype(), default_device()) : *this;
  if (!source.is_contiguous()) source = dense_copy(source);
  if (streams_used) in_order(*source.storage().buffer(), false);
  const auto* start = static_cast<const char*>(source.storage().data());
  source.device().copy_out(packed, start + source.offset() * int64_t(itemsize(dtype())), bytes());
}

std::complex<double> Tensor::item_complex() const {
  if (numel() != 1) fail(ErrorKind::shape, "item", "one element expected, the shape is ", sizes());
  if (is_number()) return body_->number.value;
  if (is_user(dtype()))
    fail(ErrorKind::dtype, "item", "an element of ", dtype(), " is no number; use item_as<T>()");
  std::complex<double> out;
  alignas(16) unsigned char raw[16];
  copy_to_host(raw);
  visit_dtype(int32_t(dtype()), [&]<class T>(T) {
    T v;
    memcpy(&v, raw, sizeof v);
    if constexpr (is_complex_v<T>)
      out = {double(v.re), double(v.im)};
    else if constexpr (sizeof(T) == 2)
      out = double(float(v));
    else
      out = double(v);
  });
  return out;
}
double Tensor::item() const {
  if (is_complex(dtype()))
    fail(ErrorKind::dtype, "item", "the element is complex; use item_complex");
  return item_complex().real();
}
int64_t Tensor::item_integer() const {
  if (is_number()) return body_->number.integer;
  if (dtype() != DType::i64) return to_integer(item());
  if (numel() != 1) fail(ErrorKind::shape, "item", "one element expected, the shape is ", sizes());
  int64_t v;
  copy_to_host(&v);
  return v;
}

template <>
std::vector<bool> Tensor::to_vector<bool>() const {
  std::vector<uint8_t> raw(static_cast<size_t>(numel()));
  copy_to_host_typed(raw.data(), DType::bool_, "to_vector");
  return {raw.begin(), raw.end()};
}

}  // namespace gradus
