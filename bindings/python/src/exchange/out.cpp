// Tensors for others, over their memory: by DLPack's exchange table, theirs and our own, and its
// capsules. What goes out keeps the tensor's memory.
//
// Others write without telling us. So a tensor is given away writable only if nothing else can hold
// its values: no history, no gradient asked for, no graph, view or clone that shares them. Else it
// goes out read-only, or not at all where the taker's protocol can't say so.
//
// On a GPU the stream that others name (or the vendor's default stream) and ours wait for each
// other; who lets a tensor live on while both work on it must order that himself.
#include "bindings/python/src/exchange/exchange.hpp"
#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "engine/streams/stream.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::py {

namespace {

// May others write to it?
bool alone(const Tensor& t) {
  const TensorBody& body = *t.body();
  if (t.requires_grad() || body.use_count() > 1 || body.batch) return false;
  return !body.view.base || (body.view.base->use_count() == 1 && !body.view.base->autograd);
}
void tell(const Tensor& t) {
  for (KernelWrapper* w : t.device().wrappers()) w->unseen("memory is given to others");
}
// From here on the memory stays where it is. Clones that share it are left behind.
void show(const Tensor& t, bool writable) {
  if (is_batched(t)) fail(ErrorKind::autograd, "dlpack", "values can't be read inside vmap");
  tell(t);
  Storage& storage = t.storage();
  if (writable && storage.buffer()->use_count() > 1) storage.write("export");
  storage.buffer()->shown.store(true, std::memory_order_release);
}
}  // namespace

bool show_as(const Tensor& t, bool for_reading) {
  // Memory of another tensor (of which t is the detach()) and of a clone: to part them is a write.
  const bool shared = t.storage().use_count() > 1 && t.storage().buffer()->use_count() > 1;
  const bool writable = alone(t) && !(for_reading && shared);
  show(t, writable);
  return writable;
}

namespace {

// Who takes an array of a GPU: the stream that he works on, null the vendor's default one.
struct Taker {
  void* stream = nullptr;
  bool waits = true;  // for what is not finished here
  bool lasts = true;  // is the stream there when he lets go of it? Else he has waited himself.
};
struct Out {
  dl::ManagedVersioned versioned{};
  dl::Managed legacy{};
  Tensor tensor;
  Shape shape, strides;
  Taker taker;

  ~Out() {
    if (!taker.lasts || at_end() || !tensor.defined()) return;
    try {
      wait_for_foreign(tensor.device(), taker.stream);
    } catch (...) {  // the device is lost: nothing works on the memory any more
    }
  }
};
// The array keeps this handle, which nobody else has.
Out* array_over(Tensor own, uint64_t flags, const Taker& taker) {
  const dl::Device device = device_of(own);
  if (taker.waits) foreign_waits(own.device(), taker.stream);
  auto made = std::make_unique<Out>();
  Out* const out = made.get();
  const Tensor& t = out->tensor = std::move(own);
  out->taker = taker;
  out->shape = t.sizes();
  out->strides = t.strides();
  for (size_t i = 0; i < out->shape.size(); ++i)  // who has one element has any stride
    if (out->shape[i] == 1) out->strides[i] = 1;
  const dl::Array array{
      address(t),          device, int32_t(t.rank()), type_of(t.dtype()), out->shape.data(),
      out->strides.data(), 0};
  out->versioned = {dl::kVersion, out,
                    [](dl::ManagedVersioned* m) { delete static_cast<Out*>(m->context); }, flags,
                    array};
  out->legacy = {array, out, [](dl::Managed* m) { delete static_cast<Out*>(m->context); }};
  return made.release();
}
Out* array_of(const Tensor& t, bool copied, const Taker& taker = {}) {
  device_of(t);  // which may refuse, before anything is shown
  const bool writable = show_as(t);
  return array_over(t.detach(),
                    copied     ? dl::kIsCopied
                    : writable ? uint64_t(0)
                               : dl::kReadOnly,
                    taker);
}

// ---- our own table

int give_table(dl::Array* like, dl::ManagedVersioned** out, void* context,
               void (*set_error)(void*, const char*, const char*)) {
  try {
    const Tensor t = Tensor::empty(Shape(like->shape, like->shape + like->ndim),
                                   dtype_of_array(like->dtype), device_of(like->device));
    *out = &array_of(t, true)->versioned;
    return 0;
  } catch (const std::exception& e) {
    set_error(context, "RuntimeError", e.what());
    return -1;
  }
}
int give_object(void* object, dl::ManagedVersioned** out) {
  return guarded(
      [&] {
        auto* const o = static_cast<PyObject*>(object);
        if (!is_tensor(o))
          fail(ErrorKind::dtype, "dlpack", "no gradus.Tensor: ", Py_TYPE(o)->tp_name);
        *out = &array_of(tensor_in(o), false)->versioned;
        return 0;
      },
      -1);
}
int take_object(dl::ManagedVersioned* m, void** out) {
  return guarded([&] { return *out = wrap(taken(m)), 0; }, -1);
}
int view_object(void* object, dl::Array* out) {
  return guarded(
      [&] {
        const Tensor& t = tensor_in(static_cast<PyObject*>(object));
        show_as(t);
        foreign_waits(t.device(), nullptr);
        *out = {address(t),
                device_of(t),
                int32_t(t.rank()),
                type_of(t.dtype()),
                const_cast<int64_t*>(t.sizes().data()),
                const_cast<int64_t*>(t.strides().data()),
                0};
        return 0;
      },
      -1);
}
int current_stream(int32_t, int32_t, void** out) {
  *out = nullptr;
  return 0;
}
dl::ExchangeTable table{dl::kVersion, nullptr,     give_table,    give_object,
                        take_object,  view_object, current_stream};

// A stream as DLPack numbers it: -1 is that of nobody; CUDA has 1 for the default one, 2 for the
// thread's own, HIP 0. Others may be gone before the array is.
Taker taker_of(dl::Device d, nb::handle number) {
  if (d.type == dl::kCpu || number.is_none()) return {};
  const auto n = nb::cast<int64_t>(number);
  if (n == -1) return {nullptr, false, false};
  if (n < -1 || (d.type == dl::kCuda ? n == 0 : n == 1 || n == 2))
    throw nb::buffer_error(
        "stream must be None, -1 or a stream; 0 of CUDA, 1 and 2 of ROCm are ambiguous");
  if (n == (d.type == dl::kCuda ? 1 : 0)) return {};
  return {reinterpret_cast<void*>(n), true, false};
}

nb::object dlpack(const Tensor& self, nb::handle stream, nb::handle max_version,
                  nb::handle dl_device, nb::handle copy, PyObject* object) {
  if (self.requires_grad() && grad_enabled())
    throw nb::buffer_error(
        "a tensor that requires a gradient is not exported: x.detach() gives one that shares its "
        "memory");
  const dl::Device own = device_of(self);
  if (!dl_device.is_none()) {
    const auto [type, id] = nb::cast<std::pair<int, int>>(dl_device);
    if (type != own.type || id != own.id)
      throw nb::buffer_error("the tensor is on another device; copy it there first");
  }
  if (own.type == dl::kCpu && !stream.is_none() && nb::cast<int>(stream) != -1)
    throw nb::buffer_error("a tensor on the CPU has no streams: stream must be None or -1");
  const bool copied = copy.ptr() == Py_True;
  const Tensor t = copied ? self.detach().clone_data() : Tensor();
  if (copied) t.storage().write("export");
  Out* const out = array_of(copied ? t : tensor_in(object), copied, taker_of(own, stream));
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  if (!versioned && out->versioned.flags & dl::kReadOnly) {
    delete out;
    throw nb::buffer_error(
        "the tensor may only be read (it requires a gradient, or a graph, a view or a clone "
        "shares its values), which an old capsule can't say; pass max_version=(1, 0) or copy=True");
  }
  const char* const name = versioned ? "dltensor_versioned" : "dltensor";
  return checked(PyCapsule_New(
      versioned ? static_cast<void*>(&out->versioned) : &out->legacy, name, [](PyObject* c) {
        if (auto* const m = PyCapsule_IsValid(c, "dltensor_versioned")
                                ? static_cast<dl::ManagedVersioned*>(
                                      PyCapsule_GetPointer(c, "dltensor_versioned"))
                                : nullptr)
          m->deleter(m);
        else if (auto* const old =
                     PyCapsule_IsValid(c, "dltensor")
                         ? static_cast<dl::Managed*>(PyCapsule_GetPointer(c, "dltensor"))
                         : nullptr)
          old->deleter(old);
      }));
}

}  // namespace

// ---- arrays of other libraries

// The table of a foreign type. Those of the last two are known: tensors and parameters take turns.
const dl::ExchangeTable* table_of(PyTypeObject* type) {
  struct Known {
    PyTypeObject* type;
    const dl::ExchangeTable* table;
  };
  static Known last, before;
  if (type == last.type) return last.table;
  if (type == before.type) return before.table;
  PyObject* const capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  const dl::ExchangeTable* found = nullptr;
  if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
    found =
        static_cast<const dl::ExchangeTable*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (!capsule) PyErr_Clear();
  Py_XDECREF(capsule);
  if (found && found->version.major != dl::kVersion.major) found = nullptr;
  Py_INCREF(type);  // it stays what the address says
  Py_XDECREF(before.type);
  before = std::exchange(last, {type, found});
  return found;
}

void* working_stream(const dl::ExchangeTable& table, dl::Device d) {
  void* stream = nullptr;
  if (d.type != dl::kCpu && table.current_stream &&
      table.current_stream(d.type, d.id, &stream) != 0)
    nb::raise_python_error();
  return stream;
}

const dl::ExchangeTable& foreign_table(nb::handle type) {
  const dl::ExchangeTable* const t = table_of(reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (!t || !t->to_object)
    fail(ErrorKind::dtype, "export", "the type has no __dlpack_c_exchange_api__");
  return *t;
}

namespace {
// Arrays of another library, over the tensors' memory, by that library's own table.
PyObject* exported(const dl::ExchangeTable& to, Out* array) {
  void* out = nullptr;
  if (to.to_object(&array->versioned, &out) != 0) nb::raise_python_error();
  return static_cast<PyObject*>(out);
}
// The same memory for both libraries, to be written by either; a leaf where t requires a gradient.
nb::object shared(nb::handle tensor, nb::handle type) {
  const Tensor& t = self_in(tensor);
  const dl::ExchangeTable& to = foreign_table(type);
  const Taker taker{working_stream(to, device_of(t))};
  Tensor own = t.detach();
  show(own, true);
  nb::object made = nb::steal(exported(to, array_over(std::move(own), 0, taker)));
  return t.requires_grad() ? made.attr("requires_grad_")() : made;
}
// Memory for t's elements, in the order in which t has them if that leaves no gaps.
Tensor place_for(const Tensor& t) {
  const Shape &sizes = t.sizes(), &strides = t.strides();
  const int64_t n = t.numel();
  int64_t span = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    span += strides[i] < 0 ? n : strides[i] * (sizes[i] - 1);
  if (t.is_contiguous() || span != n || overlaps_itself(sizes, strides))
    return Tensor::empty(sizes, t.dtype(), t.device());
  return Tensor::empty({n}, t.dtype(), t.device()).alias(sizes, strides, 0);
}
}  // namespace

nb::object values_out(const Tensor& t, const dl::ExchangeTable& to, bool shared) {
  const Taker taker{working_stream(to, device_of(t)), false};
  const Storage& storage = t.storage();
  const Buffer& buffer = *storage.buffer();
  shared = shared && buffer.use_count() == 1 && !buffer.shown && t.bytes() == storage.bytes() &&
           !overlaps_itself(t.sizes(), t.strides());
  Tensor own = shared ? t.clone_data() : place_for(t);
  if (shared) {  // which is not marked as shown: nobody else clones t
    tell(t);
  } else {
    copy_values(t, own);
    show(own, true);
  }
  return nb::steal(
      exported(to, array_over(std::move(own), shared ? uint64_t(0) : dl::kIsCopied, taker)));
}

void open_exchange(nb::module_& m) {
  open_exchange_in(m);
  m.def("_export", [](nb::handle tensor, nb::handle type) {
    const Tensor& t = self_in(tensor);
    const dl::ExchangeTable& to = foreign_table(type);
    return nb::steal(exported(to, array_of(t, false, {working_stream(to, device_of(t))})));
  });
  m.def("_shared", &shared);
  const nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  type.attr("__dlpack_c_exchange_api__") =
      checked(PyCapsule_New(&table, "dlpack_exchange_api", nullptr));
  nb::cpp_function_def(
      [](nb::handle self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
         nb::handle copy) {
        return dlpack(self_in(self), stream, max_version, dl_device, copy, self.ptr());
      },
      nb::scope(type), nb::name("__dlpack__"), nb::is_method(), nb::kw_only(),
      nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
      nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none());
  nb::cpp_function_def(
      [](nb::handle self) {
        const dl::Device d = device_of(self_in(self));
        return nb::make_tuple(d.type, d.id);
      },
      nb::scope(type), nb::name("__dlpack_device__"), nb::is_method());
}

}  // namespace gradus::py
