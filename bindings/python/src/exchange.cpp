// Memory that is shared with others, both ways, by DLPack's exchange table and capsules. What comes
// in keeps its owner alive; what goes out keeps the tensor's memory.
//
// Others write without telling us. So a tensor is given away writable only if nothing else can hold
// its values: no history, no gradient asked for, no graph, view or clone that shares them. Else it
// goes out read-only, or not at all where the taker's protocol can't say so.
//
// On a GPU the stream that others name (or the vendor's default stream) and ours wait for each
// other; who lets a tensor live on while both work on it must order that himself.
#include "bindings/python/src/exchange.hpp"
#include "engine/batch.hpp"
#include "engine/streams/uses.hpp"
#include "ops/ops.hpp"

#include <algorithm>

namespace gradus::inline v1::py {

namespace {

// May others write to it?
bool alone(const Tensor& t) {
  const TensorBody& body = *t.body();
  if (t.requires_grad() || body.use_count() > 1 || body.batch) return false;
  return !body.view.base || (body.view.base->use_count() == 1 && !body.view.base->autograd);
}
// From here on the memory stays where it is. Clones that share it are left behind.
void show(const Tensor& t, bool writable) {
  if (is_batched(t)) fail(ErrorKind::autograd, "dlpack", "values can't be read inside vmap");
  for (KernelWrapper* w : t.device().wrappers()) w->unseen("memory is given to others");
  Storage& storage = t.storage();
  if (writable && storage.buffer()->use_count() > 1) storage.write("export");
  storage.buffer()->shown = true;
}
}  // namespace

bool show_as(const Tensor& t) {
  const bool writable = alone(t);
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
Out* array_of(const Tensor& t, bool copied, const Taker& taker = {}) {
  const dl::Device device = device_of(t);
  const bool writable = show_as(t);
  if (taker.waits) foreign_waits(t.device(), taker.stream);
  auto made = std::make_unique<Out>();
  Out* const out = made.get();
  out->taker = taker;
  out->shape = t.sizes();
  out->strides = t.strides();
  for (size_t i = 0; i < out->shape.size(); ++i)  // who has one element has any stride
    if (out->shape[i] == 1) out->strides[i] = 1;
  const dl::Array array{
      address(t),          device, int32_t(t.rank()), type_of(t.dtype()), out->shape.data(),
      out->strides.data(), 0};
  out->tensor = t.detach();
  out->versioned = {
      dl::kVersion, out, [](dl::ManagedVersioned* m) { delete static_cast<Out*>(m->context); },
      (writable || copied ? 0 : uint64_t(dl::kReadOnly)) | (copied ? uint64_t(dl::kIsCopied) : 0),
      array};
  out->legacy = {array, out, [](dl::Managed* m) { delete static_cast<Out*>(m->context); }};
  return made.release();
}

}  // namespace

Tensor lent(const dl::Array& a, const std::function<void()>& release) {
  try {
    const DType dtype = dtype_of_array(a.dtype);
    Device& device = device_of(a.device);
    const Shape sizes(a.shape, a.shape + a.ndim);
    const Shape strides =
        a.strides ? Shape(a.strides, a.strides + a.ndim) : contiguous_strides(sizes);
    // From the lowest to the highest address that is reached.
    int64_t low = 0, high = 0;
    for (int i = 0; i < a.ndim; ++i) {
      if (sizes[i] == 0) {
        const Tensor none = Tensor::empty(sizes, dtype, device);
        release();
        return none;
      }
      (strides[i] < 0 ? low : high) += strides[i] * (sizes[i] - 1);
    }
    const size_t item = itemsize(dtype), align = is_complex(dtype) ? item / 2 : item;
    char* const first = static_cast<char*>(a.data) + a.byte_offset + low * int64_t(item);
    if (reinterpret_cast<uintptr_t>(first) % align != 0)
      fail(ErrorKind::value, "from_dlpack", "the array's memory is not aligned to ", int64_t(align),
           " bytes, as ", dtype, " has to be; copy it first");
    return Tensor::lend(first, size_t(high - low + 1) * item, sizes, strides, -low, dtype, device,
                        release);
  } catch (...) {
    release();
    throw;
  }
}

namespace {

// What this thread waited for while one of them lives: arrays that come in together wait once.
using Arrived = std::vector<std::pair<Device*, void*>>;
thread_local Arrived* arrived = nullptr;
void wait_for(Device& d, void* stream) {
  if (d.host_memory()) return;
  const std::pair<Device*, void*> here(&d, stream);
  if (arrived && std::find(arrived->begin(), arrived->end(), here) != arrived->end()) return;
  wait_for_foreign(d, stream);
  if (arrived) arrived->push_back(here);
}

// On a GPU what is done with it here waits for the giver's `stream`. Has he it back in that
// stream's order, or at once?
template <class M>
Tensor of_managed(M* m, void* stream, bool in_order) {
  const Tensor t = lent(m->array, [m] {
    if (!m->deleter || at_end()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    m->deleter(m);
    PyGILState_Release(state);
  });
  wait_for(t.device(), stream);
  Buffer& buffer = *t.storage().buffer();
  if (in_order && buffer.lent && !t.device().host_memory()) buffer.uses.load()->giver = stream;
  return t;
}
// Read-only memory is copied: nothing here knows tensors that can't be written.
Tensor taken(dl::ManagedVersioned* m, void* stream = nullptr, bool in_order = false) {
  if (m->version.major != dl::kVersion.major) {
    const uint32_t major = m->version.major;
    if (m->deleter) m->deleter(m);
    fail(ErrorKind::value, "from_dlpack", "the array is of version ", int(major),
         " of DLPack, 1 is known here");
  }
  const bool read_only = m->flags & dl::kReadOnly;
  const Tensor t = of_managed(m, stream, in_order);
  return read_only ? t.clone_data() : t;
}
Tensor taken(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* const m =
        static_cast<dl::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    return taken(m);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* const m = static_cast<dl::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
    PyCapsule_SetName(capsule, "used_dltensor");
    return of_managed(m, nullptr, false);
  }
  const char* const name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : nullptr;
  fail(ErrorKind::value, "from_dlpack",
       "expected a capsule \"dltensor\" or \"dltensor_versioned\", got ",
       name ? join("one named \"", name, "\"; each is taken once")
            : std::string(Py_TYPE(capsule)->tp_name));
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

// The table of a foreign type, looked up once for each.
const dl::ExchangeTable* table_of(PyTypeObject* type) {
  static PyTypeObject* last = nullptr;
  static const dl::ExchangeTable* known = nullptr;
  if (type == last) return known;
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
  Py_XDECREF(last);
  last = type;
  return known = found;
}

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

// Where the other library works now, on a GPU.
void* working_stream(const dl::ExchangeTable& table, dl::Device d) {
  void* stream = nullptr;
  if (d.type != dl::kCpu && table.current_stream &&
      table.current_stream(d.type, d.id, &stream) != 0)
    nb::raise_python_error();
  return stream;
}

// torch conjugates and negates lazily, by a bit that its table does not tell. Conjugates are
// complex, negations are imaginary parts, which are strided, or one number.
void check_resolved(PyObject* o, const Tensor& t) {
  const bool complex = is_complex(t.dtype());
  if (!complex && t.numel() > 1 && t.is_contiguous()) return;
  for (const char* bit : {"is_conj", "is_neg"}) {
    if (!PyObject_HasAttrString(o, bit)) continue;
    if (nb::cast<bool>(checked(PyObject_CallMethod(o, bit, nullptr))))
      fail(ErrorKind::value, "from_dlpack",
           "the tensor is conjugated or negated lazily, its memory is not ",
           "its values; x.resolve_conj().resolve_neg() makes a copy that is");
  }
}
}  // namespace

Tensors tensors_at(PyObject* sequence) {
  Arrived several;
  const Scoped<Arrived*> once(arrived, &several);
  const nb::object all = checked(PySequence_Fast(sequence, "expected a list of tensors"));
  Tensors out(size_t(PySequence_Fast_GET_SIZE(all.ptr())));
  for (size_t i = 0; i < out.size(); ++i) {
    PyObject* const o = PySequence_Fast_GET_ITEM(all.ptr(), Py_ssize_t(i));
    if (o != Py_None) out[i] = operand_at(o, "Program", "input");
  }
  return out;
}

bool import_array(PyObject* o, Tensor& out) {
  if (const dl::ExchangeTable* const t = table_of(Py_TYPE(o)); t && t->from_object) {
    dl::ManagedVersioned* m = nullptr;
    if (t->from_object(o, &m) != 0) nb::raise_python_error();
    void* stream = nullptr;
    try {
      stream = working_stream(*t, m->array.device);
    } catch (...) {
      if (m->deleter) m->deleter(m);
      throw;
    }
    out = taken(m, stream, true);
    check_resolved(o, out);
    return true;
  }
  // numpy's own buffers are the shorter way; what they can't say, its __dlpack__ may.
  static PyTypeObject* numpy_array = nullptr;
  if (!numpy_array && std::string_view(Py_TYPE(o)->tp_name) == "numpy.ndarray") {
    numpy_array = Py_TYPE(o);
    Py_INCREF(numpy_array);
  }
  if (Py_TYPE(o) == numpy_array && PyObject_CheckBuffer(o)) return import_buffer(o, out);
  if (PyObject_HasAttrString(o, "__dlpack__")) {
    const nb::handle object(o);
    nb::object capsule;
    nb::dict on_stream;  // of a GPU the vendor's default one
    if (PyObject_HasAttrString(o, "__dlpack_device__")) {
      const int type = nb::cast<int>(object.attr("__dlpack_device__")()[0]);
      if (type == dl::kCuda || type == dl::kRocm) on_stream["stream"] = type == dl::kCuda ? 1 : 0;
    }
    try {
      capsule =
          object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 3), **on_stream);
    } catch (nb::python_error& e) {
      if (e.matches(PyExc_TypeError)) {
        e.discard_as_unraisable("dlpack");
      } else if (!e.matches(PyExc_BufferError) && !e.matches(PyExc_RuntimeError)) {
        throw;
      } else if (import_buffer(o, out)) {  // numpy refuses some that its buffers can say
        return true;
      } else {
        throw;
      }
      capsule = object.attr("__dlpack__")(**on_stream);
    }
    out = taken(capsule.ptr());
    return true;
  }
  return import_buffer(o, out);
}

namespace {
// Arrays of another library, over the tensors' memory or over copies, by that library's own table.
const dl::ExchangeTable& foreign_table(nb::handle type) {
  const dl::ExchangeTable* const t = table_of(reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (!t || !t->to_object)
    fail(ErrorKind::dtype, "export", "the type has no __dlpack_c_exchange_api__");
  return *t;
}
PyObject* exported(const dl::ExchangeTable& to, const Tensor& t, bool copied, bool waits = true) {
  void* out = nullptr;
  void* const stream = working_stream(to, device_of(t));
  if (to.to_object(&array_of(t, copied, {stream, waits})->versioned, &out) != 0)
    nb::raise_python_error();
  return static_cast<PyObject*>(out);
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
nb::tuple all_exported(nb::list tensors, nb::handle type, bool copied) {
  const dl::ExchangeTable& table = foreign_table(type);
  Device* from = nullptr;
  const auto settle = [&] {  // the other library waits once for all that comes from a device
    if (from && !from->host_memory()) foreign_waits(*from, working_stream(table, device_of(*from)));
  };
  nb::object all = nb::steal(PyTuple_New(PyList_GET_SIZE(tensors.ptr())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors.ptr()); ++i) {
    PyObject* const o = PyList_GET_ITEM(tensors.ptr(), i);
    PyObject* made = nullptr;
    if (o == Py_None) {
      made = nb::none().release().ptr();
    } else if (!is_tensor(o)) {
      fail(ErrorKind::dtype, "export", "no gradus.Tensor: ", Py_TYPE(o)->tp_name);
    } else {
      const Tensor& t = tensor_in(o);
      if (from != &t.device()) settle();
      from = &t.device();
      Tensor own;
      if (copied) {
        const NoGrad off;
        copy_(own = place_for(t), t);
      }
      made = exported(table, copied ? own : t, copied, false);  // t itself: alone() counts handles
    }
    PyTuple_SET_ITEM(all.ptr(), i, made);
  }
  settle();
  return nb::borrow<nb::tuple>(all);
}
}  // namespace

void open_exchange(nb::module_& m) {
  m.def("_export", [](nb::handle tensor, nb::handle type) {
    if (!is_tensor(tensor.ptr())) fail(ErrorKind::dtype, "export", "expected a gradus.Tensor");
    return nb::steal(exported(foreign_table(type), tensor_in(tensor.ptr()), false));
  });
  m.def("_export_all", &all_exported);
  m.def("_import_all", [](nb::handle arrays) { return tensors_at(arrays.ptr()); });
  // What the device is told from now on comes after what the library of that type told it.
  m.def("_follow", [](nb::handle device, nb::handle type) {
    Device& d = device_at(device.ptr());
    if (!d.host_memory()) wait_for_foreign(d, working_stream(foreign_table(type), device_of(d)));
  });
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
  m.def(
      "from_dlpack",
      [](nb::handle x, nb::handle copy) {
        Tensor t;
        if (PyCapsule_CheckExact(x.ptr())) {
          t = taken(x.ptr());
        } else if (is_tensor(x.ptr())) {
          t = tensor_in(x.ptr()).detach();
        } else if (!import_array(x.ptr(), t)) {
          fail(ErrorKind::dtype, "from_dlpack",
               "expected an array with __dlpack__ or a buffer, got ", Py_TYPE(x.ptr())->tp_name);
        }
        return copy.ptr() == Py_True ? t.clone_data() : t;
      },
      nb::arg("x"), nb::kw_only(), nb::arg("copy") = nb::none(),
      "A tensor over the memory of an array of another library (numpy, torch, jax, a buffer), "
      "without a copy.\n"
      "Read-only memory is copied.");
}

}  // namespace gradus::py
