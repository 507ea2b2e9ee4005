// Tensor: a handle, one pointer to a counted body {storage, dtype, sizes, strides, offset,
// autograd}. Copying a Tensor copies the handle. Views share storage and its version counter;
// strides are in elements and may be 0 or negative. Operators and functions on tensors are ops: see
// ops/ops.hpp. Threads: handles may be copied and dropped anywhere; concurrent reads (ops, views,
// backward through shared leaves) are fine, writes are not: in place, and of what a handle says
// (set_requires_grad, set_grad, retain_grad, detach_, hooks).
#pragma once
#include "engine/device/device.hpp"
#include "engine/abi/dtype.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ref.hpp"
#include "engine/device/observer.hpp"
#include "engine/device/storage.hpp"

#include <atomic>
#include <complex>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gradus::inline v1 {

class GradFn;
class Tensor;
struct Autograd;
struct Batch;
struct TensorBody;
void destroy(const TensorBody* body);
void destroy(const Autograd* autograd);
void destroy(const Batch* batch);
void destroy(const GradFn* node);

int64_t numel_of(const Shape& sizes);          // throws on overflow
Shape contiguous_strides(const Shape& sizes);  // row-major
// Can two elements share an address? False is certain, true is not: a few unusual strides give it.
bool overlaps_itself(const Shape& sizes, const Shape& strides);

class Tensor {
 public:
  Tensor() = default;  // undefined: no body
  // A number: ops give it the dtype and device of their tensors (PyTorch's "wrapped number").
  Tensor(double value);
  Tensor(int value) : Tensor(int64_t(value)) {}
  Tensor(int64_t value);
  Tensor(bool value);

  // New storage, uninitialised, row-major.
  static Tensor empty(const Shape& sizes, DType dtype, Device& device = default_device());
  static Tensor zeros(const Shape& sizes, DType dtype, Device& device = default_device());
  static Tensor full(const Shape& sizes, std::complex<double> value, DType dtype,
                     Device& device = default_device());
  static Tensor full_integer(const Shape& sizes, int64_t value, DType dtype,
                             Device& device = default_device());
  // Copies packed row-major host memory in.
  static Tensor from_host(const void* data, const Shape& sizes, DType dtype,
                          Device& device = default_device(), bool constant = false);
  // Memory that somebody else owns, without a copy; where the device's memory is not the host's,
  // the device's own. Strides and offset in elements; strides may be 0 or negative. Writes in place
  // go to it, copies are copies. `release`: see Buffer; on an Error it is not called. Error(value):
  // an element outside of [0, bytes), data that is null or not aligned for the dtype.
  static Tensor lend(void* data, size_t bytes, const Shape& sizes, const Shape& strides,
                     int64_t offset, DType dtype, Device& device, std::function<void()> release);
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& sizes,
                     Device& device = default_device(), bool constant = false);
  template <class T>
  static Tensor from(const std::vector<T>& v, const Shape& sizes, Device& d = default_device()) {
    return from(std::span<const T>(v), sizes, d);
  }
  // Of numbers that follow from shapes and attributes alone: a captured step keeps them.
  template <class T>
  static Tensor constant(const std::vector<T>& v, const Shape& sizes, Device& d) {
    return from(std::span<const T>(v), sizes, d, true);
  }

  bool defined() const { return bool(body_); }
  bool is_number() const;  // made by Tensor(double) and its kin
  DType dtype() const;
  Device& device() const;
  const Shape& sizes() const;
  const Shape& strides() const;
  int64_t offset() const;
  int64_t rank() const { return int64_t(sizes().size()); }
  int64_t size(int64_t axis) const;  // negative axes count from the end
  int64_t numel() const;
  size_t bytes() const { return size_t(numel()) * itemsize(dtype()); }
  bool is_contiguous() const;
  Storage& storage() const;
  uint64_t version() const;
  bool same_body(const Tensor& o) const { return body_ == o.body_; }

  bool is_view() const;       // shares the storage of another tensor, and follows its history
  bool is_inference() const;  // made in inference mode

  // The same storage with other sizes, strides and offset, which must stay within it; no history.
  Tensor alias(const Shape& sizes, const Shape& strides, int64_t offset) const;
  // The same elements without history; shares storage and version counter.
  Tensor detach() const;
  // Own contents; no history. Shared with this one until either is written (copy on write) if this
  // is all of its storage, else a copy of the elements that are there.
  Tensor clone_data() const;

  // Autograd.
  bool requires_grad() const;  // leaf that asked for it, or result of an op with history
  Tensor& set_requires_grad(bool on = true);  // leaves of floating dtype only
  bool is_leaf() const;
  GradFn* grad_fn() const;  // nullptr for leaves
  uint32_t output_index() const;
  Tensor grad() const;  // undefined before the first backward; non-leaves: see retain_grad
  // A number takes this tensor's dtype and device; else Error(autograd) for another shape, dtype or
  // device. .grad is g itself, or a copy where sums in place would write to this tensor.
  void set_grad(const Tensor& g) const;
  void retain_grad() const;  // .grad of a non-leaf is kept too
  Tensor& detach_();         // forgets the history, not .grad; Error(autograd) for views
  Tensor tangent() const;    // of this thread's forward level; undefined if none

  // Host side. These wait for the device, and convert no dtype unless they say so.
  void copy_to_host(void* packed) const;  // row-major, own dtype
  template <class T>
  std::vector<T> to_vector() const;  // dtype must be T's
  template <class T>
  T item_as() const;    // one element of dtype T
  double item() const;  // one element, as double; complex is an error
  int64_t item_integer() const;
  std::complex<double> item_complex() const;
  std::string to_string(int64_t edge = 3) const;  // values as a person reads them

  const Ref<TensorBody>& body() const { return body_; }
  explicit Tensor(Ref<TensorBody> body) : body_(std::move(body)) {}

 private:
  friend Autograd& autograd_of(const Tensor& t);
  TensorBody& checked() const {
    if (!body_) [[unlikely]]
      fail_undefined();
    return *body_;
  }
  [[noreturn]] static void fail_undefined();
  bool has_gradient_or_history() const;
  Device& batched_device() const;
  Storage& made_storage() const;  // a number's; Error(value) for a batched tensor
  void copy_to_host_typed(void* packed, DType dtype, const char* who) const;
  Autograd* autograd() const;  // up to date after writes in place; nullptr if none
  Ref<TensorBody> body_;
};

using Tensors = std::vector<Tensor>;
// What a call of an op takes, and what it gives: nearly always one tensor, without the heap.
using Operands = std::span<const Tensor>;
// An operand that the caller keeps meanwhile: a handle that is not counted.
union Uncounted {
  Uncounted(const Tensor& t) { new (&tensor) Tensor(Ref<TensorBody>::adopt(t.body().get())); }
  ~Uncounted() {}
  Tensor tensor;
};
struct Outputs : SmallVector<Tensor, 1> {
  using SmallVector::SmallVector;
  Outputs(Tensor y) { push_back(std::move(y)); }
  Outputs(Tensors list) {
    for (Tensor& y : list) push_back(std::move(y));
  }
  operator Tensors() const { return Tensors(begin(), end()); }
};

// Where retain_grad keeps the gradient of a non-leaf: shared by the tensor and its node.
struct GradSlot : RefCounted {
  Tensor grad;
};
struct LeafHooks;

// What a tensor knows about differentiation; made on first need.
struct Autograd : RefCounted {
  Autograd();
  ~Autograd();
  bool requires_grad = false;  // asked for, on a leaf
  Tensor grad;
  Ref<GradFn> fn;  // the node this is an output of
  uint32_t output_index = 0;
  Ref<GradSlot> retained;
  std::unique_ptr<LeafHooks> hooks;  // hooks.hpp
};

// A tensor has a storage, or a batch, or is a number.
struct TensorBody : RefCounted {
  ~TensorBody();
  Ref<Storage> storage;
  DType dtype = DType::f32;
  bool inference = false;  // made in inference mode
  Shape sizes, strides;    // of one example, if there is a batch
  int64_t offset = 0;
  Ref<Autograd> autograd;
  // Counts its histories: a write in place makes a new one, its views follow when they are asked.
  std::atomic<uint64_t> histories = 0;
  Ref<Batch> batch;
  struct View {
    Ref<TensorBody> base;            // whose memory it looks into, never a view; null: no view
    std::atomic<uint64_t> seen = 0;  // base->histories when this view's history was made
    bool frozen = false;  // made under no_grad: does not follow the base, an error where it should
    bool opaque = false;  // a user's function returned it
  } view;
  struct Number {
    double value = 0;
    int64_t integer = 0;                      // the same, cast
    std::atomic<Storage*> storage = nullptr;  // made when it is first asked for
  } number;
};

inline bool Tensor::is_number() const { return body_ && !body_->storage && !body_->batch; }
inline bool Tensor::requires_grad() const {
  // A view's base first: another thread may be making the view's history anew.
  return body_ && (body_->view.base || body_->autograd || body_->batch) &&
         has_gradient_or_history();
}
inline bool Tensor::is_view() const { return body_ && body_->view.base; }
inline bool Tensor::is_inference() const { return body_ && body_->inference; }
inline DType Tensor::dtype() const { return checked().dtype; }
inline const Shape& Tensor::sizes() const { return checked().sizes; }
inline const Shape& Tensor::strides() const { return checked().strides; }
inline int64_t Tensor::offset() const { return checked().offset; }
inline Device& Tensor::device() const {
  return checked().batch ? batched_device() : storage().device();
}
inline uint64_t Tensor::version() const { return storage().version(); }
inline Storage& Tensor::storage() const {
  return checked().storage ? *body_->storage : made_storage();
}

// The autograd part, made if missing.
Autograd& autograd_of(const Tensor& t);
// A number as a 0-d tensor of this dtype on this device; any other tensor is returned as it is.
Tensor materialise(const Tensor& t, DType dtype, Device& device);
// May t be written in place now? Refuses leaves that require a gradient while recording, tensors
// that overlap themselves, inference tensors outside their mode. Error(autograd | value).
void check_writable(const Tensor& t, const char* op);
// REQUIRED before any write into t that is not recorded: as check_writable, refuses tensors with
// history while recording, unshares a copy-on-write buffer, and bumps the version.
void prepare_write(const Tensor& t, const char* op);

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& sizes, Device& device, bool constant) {
  if (numel_of(sizes) != int64_t(values.size()))
    fail(ErrorKind::shape, "from", "shape ", sizes, " needs ", numel_of(sizes), " values, got ",
         int64_t(values.size()));
  return from_host(values.data(), sizes, dtype_of<T>, device, constant);
}
template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> v(static_cast<size_t>(numel()));
  copy_to_host_typed(v.data(), dtype_of<T>, "to_vector");
  return v;
}
template <class T>
T Tensor::item_as() const {
  if (numel() != 1) fail(ErrorKind::shape, "item", "one element expected, the shape is ", sizes());
  return to_vector<T>()[0];
}
template <>
std::vector<bool> Tensor::to_vector<bool>() const;

}  // namespace gradus
