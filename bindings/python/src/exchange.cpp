// Memory that is shared with others, both ways: DLPack's exchange table and capsules, the buffer
// protocol. What comes in keeps its owner alive; what goes out keeps the tensor's memory.
//
// Others write without telling us. So a tensor is given away writable only if nothing else can hold
// its values: no history, no gradient asked for, no graph, view or clone that shares them. Else it
// goes out read-only, or not at all where the taker's protocol can't say so.
#include "bindings/python/src/dlpack.hpp"
#include "bindings/python/src/python.hpp"
#include "engine/batch.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::py {

namespace {

dl::DataType type_of(DType t) {
  const auto bits = uint8_t(8 * itemsize(t));
  if (t == DType::bool_) return {dl::kBool, 8, 1};
  if (t == DType::bf16) return {dl::kBfloat, 16, 1};
  if (t == DType::u8) return {dl::kUInt, 8, 1};
  return {is_complex(t) ? dl::kComplex : is_integer(t) ? dl::kInt : dl::kFloat, bits, 1};
}
DType dtype_of_array(dl::DataType t) {
  if (t.lanes == 1)
    for (int i = 0; i < GD_DTYPE_COUNT; ++i)
      if (const dl::DataType own = type_of(DType(i)); own.code == t.code && own.bits == t.bits)
        return DType(i);
  fail(ErrorKind::dtype, "from_dlpack", "an array of code ", int(t.code), " with ", int(t.bits),
       " bits has no dtype here; convert it to one of float16/32/64, bfloat16, int32/64, uint8, "
       "bool, "
       "complex64/128 first");
}
Device& device_of(dl::Device d) {
  static Device& cpu = open_device("cpu");
  if (d.type == dl::kCpu || d.type == dl::kCudaHost) return cpu;
  const char* const kind = d.type == dl::kCuda ? "cuda:" : d.type == dl::kRocm ? "hip:" : nullptr;
  if (!kind)
    fail(ErrorKind::device, "from_dlpack", "an array on a device of DLPack's type ", d.type,
         "; expected 1 (CPU), 2 (CUDA) or 10 (ROCm)");
  return open_device(kind + std::to_string(d.id));
}
dl::Device device_of(const Tensor& t) {
  const std::string& kind = t.device().kind();
  if (kind == "cuda") return {dl::kCuda, t.device().index()};
  if (kind == "hip") return {dl::kRocm, t.device().index()};
  if (!t.device().host_memory())
    fail(ErrorKind::device, "dlpack", "memory of ", t.device().name(),
         " can't be shared; copy it: x.cpu()");
  return {dl::kCpu, 0};
}

void* address(const Tensor& t) {
  auto* const first = static_cast<char*>(t.storage().data());
  return first ? first + t.offset() * int64_t(itemsize(t.dtype())) : first;
}

// May others write to it?
bool alone(const Tensor& t) {
  const TensorBody& body = *t.body();
  if (t.requires_grad() || body.use_count() > 1 || body.batch) return false;
  if (body.view.base && (body.view.base->use_count() > 1 || body.view.base->autograd)) return false;
  return true;
}
// From here on the memory stays where it is. Clones that share it are left behind.
void show(const Tensor& t, bool writable) {
  if (is_batched(t)) fail(ErrorKind::autograd, "dlpack", "values can't be read inside vmap");
  for (KernelWrapper* w : t.device().wrappers()) w->unseen("memory is given to others");
  Storage& storage = t.storage();
  if (writable && storage.buffer()->use_count() > 1) storage.write("export");
  storage.buffer()->shown = true;
}
// `held` counts the handles of the caller's on the tensor's body beside Python's.
bool show_as(const Tensor& t) {
  const bool writable = alone(t);
  show(t, writable);
  return writable;
}

struct Out {
  dl::ManagedVersioned versioned{};
  dl::Managed legacy{};
  Tensor tensor;
  Shape shape, strides;
};
Out* array_of(const Tensor& t, bool copied) {
  const bool writable = show_as(t);
  auto* const out = new Out;
  out->shape = t.sizes();
  out->strides = t.strides();
  for (size_t i = 0; i < out->shape.size(); ++i)  // who has one element has any stride
    if (out->shape[i] == 1) out->strides[i] = 1;
  const dl::Array array{address(t),
                        device_of(t),
                        int32_t(t.rank()),
                        type_of(t.dtype()),
                        out->shape.data(),
                        out->strides.data(),
                        0};
  out->tensor = t.detach();
  out->versioned = {
      dl::kVersion, out, [](dl::ManagedVersioned* m) { delete static_cast<Out*>(m->context); },
      (writable || copied ? 0 : uint64_t(dl::kReadOnly)) | (copied ? uint64_t(dl::kIsCopied) : 0),
      array};
  out->legacy = {array, out, [](dl::Managed* m) { delete static_cast<Out*>(m->context); }};
  return out;
}

// Foreign memory. `release` is called once, also if this throws.
template <class Release>
Tensor lent(const dl::Array& a, Release release) {
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
        release();
        return Tensor::empty(sizes, dtype, device);
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
template <class M>
Tensor lent(M* m) {
  return lent(m->array, [m] {
    if (!m->deleter || at_end()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    m->deleter(m);
    PyGILState_Release(state);
  });
}
// Read-only memory is copied: nothing here knows tensors that can't be written.
Tensor taken(dl::ManagedVersioned* m) {
  if (m->version.major != dl::kVersion.major) {
    const uint32_t major = m->version.major;
    if (m->deleter) m->deleter(m);
    fail(ErrorKind::value, "from_dlpack", "the array is of version ", int(major),
         " of DLPack, 1 is known here");
  }
  const bool read_only = m->flags & dl::kReadOnly;
  const Tensor t = lent(m);
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
    return lent(m);
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
  if (own.type != dl::kCpu && (stream.is_none() || nb::cast<int>(stream) != -1))
    self.device().synchronize();
  const bool copied = copy.ptr() == Py_True;
  const Tensor t = copied ? self.detach().clone_data() : Tensor();
  if (copied) t.storage().write("export");
  Out* const out = array_of(copied ? t : tensor_in(object), copied);
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

// What a buffer points to as long as it is used.
struct Layout {
  Shape shape, strides;
  Tensor tensor;
};
static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
constexpr const char* kFormats[] = {"f", "d", "Zf", "Zd", "i",
                                    "l", "B", "?",  "e",  nullptr};  // by dtype

// The buffer protocol, of what has no __dlpack__: bytes, array.array, memoryview.
bool import_buffer(PyObject* o, Tensor& out) {
  if (!PyObject_CheckBuffer(o)) return false;
  auto view = std::make_unique<Py_buffer>();
  const bool writable = PyObject_GetBuffer(o, view.get(), PyBUF_FULL) == 0;
  if (!writable) {
    PyErr_Clear();
    if (PyObject_GetBuffer(o, view.get(), PyBUF_FULL_RO) != 0) nb::raise_python_error();
  }
  Py_buffer& v = *view.release();
  const auto release = [held = &v] {
    if (at_end()) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(held);
    PyGILState_Release(state);
    delete held;
  };
  std::string_view format = v.format ? v.format : "B";
  if (!format.empty() && (format[0] == '@' || format[0] == '=')) format.remove_prefix(1);
  if (format == "q") format = "l";
  for (int i = 0; i < GD_DTYPE_COUNT; ++i) {
    if (!kFormats[i] || format != kFormats[i]) continue;
    Shape sizes(v.shape, v.shape + v.ndim), strides;
    bool whole = true;
    for (int k = 0; k < v.ndim; ++k) {
      whole &= v.strides[k] % v.itemsize == 0;
      strides.push_back(v.strides[k] / v.itemsize);
    }
    if (!whole) break;
    const dl::Array a{v.buf,        {dl::kCpu, 0},  v.ndim, type_of(DType(i)),
                      sizes.data(), strides.data(), 0};
    out = lent(a, release);
    if (v.readonly) out = out.clone_data();
    return true;
  }
  release();
  fail(ErrorKind::dtype, "tensor", "a buffer of format \"", format, "\" has no dtype here");
}

}  // namespace

bool import_array(PyObject* o, Tensor& out) {
  if (const dl::ExchangeTable* const t = table_of(Py_TYPE(o)); t && t->from_object) {
    dl::ManagedVersioned* m = nullptr;
    if (t->from_object(o, &m) != 0) nb::raise_python_error();
    out = taken(m);
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
    try {
      capsule = object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 3));
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
      capsule = object.attr("__dlpack__")();
    }
    out = taken(capsule.ptr());
    return true;
  }
  return import_buffer(o, out);
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded(
      [&] {
        const Tensor& t = tensor_in(self);
        const char* const format =
            int(t.dtype()) < GD_DTYPE_COUNT ? kFormats[int(t.dtype())] : nullptr;
        const auto refuse = [](const std::string& text) {
          PyErr_SetString(PyExc_BufferError, text.c_str());
          return -1;
        };
        if (!format) return refuse("bfloat16 has no buffer format; cast it first: x.float()");
        if (!t.device().host_memory())
          return refuse("the tensor is on " + t.device().name() + "; x.cpu() copies it");
        if (t.requires_grad() && grad_enabled())
          return refuse(
              "a tensor that requires a gradient is not exported: x.detach() gives one that shares "
              "its memory");
        if (!(flags & PyBUF_STRIDES) && !t.is_contiguous())
          return refuse("the tensor is not row-major");
        const bool writable = show_as(t);
        if ((flags & PyBUF_WRITABLE) && !writable)
          return refuse(
              "the tensor may only be read: a graph, a view or a clone shares its values");
        t.device().synchronize();
        auto layout = std::make_unique<Layout>();
        layout->shape = t.sizes();
        layout->tensor = t.detach();
        for (const int64_t s : t.strides())
          layout->strides.push_back(s * int64_t(itemsize(t.dtype())));
        view->buf = address(t);
        view->len = Py_ssize_t(t.bytes());
        view->readonly = !writable;
        view->itemsize = Py_ssize_t(itemsize(t.dtype()));
        view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
        view->ndim = int(t.rank());
        view->shape = flags & PyBUF_ND ? layout->shape.data() : nullptr;
        view->strides = flags & PyBUF_STRIDES ? layout->strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = layout.release();
        view->obj = nb::borrow(self).release().ptr();
        return 0;
      },
      -1);
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Layout*>(view->internal); }

namespace {
// Arrays of another library, over the tensors' memory or over copies, by that library's own table.
const dl::ExchangeTable& foreign_table(nb::handle type) {
  const dl::ExchangeTable* const t = table_of(reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (!t || !t->to_object)
    fail(ErrorKind::dtype, "export", "the type has no __dlpack_c_exchange_api__");
  return *t;
}
PyObject* exported(const dl::ExchangeTable& table, const Tensor& t, bool copied) {
  void* out = nullptr;
  if (table.to_object(&array_of(t, copied)->versioned, &out) != 0) nb::raise_python_error();
  return static_cast<PyObject*>(out);
}
nb::tuple all_exported(nb::list tensors, nb::handle type, bool copied) {
  const dl::ExchangeTable& table = foreign_table(type);
  nb::object all = nb::steal(PyTuple_New(PyList_GET_SIZE(tensors.ptr())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors.ptr()); ++i) {
    PyObject* const o = PyList_GET_ITEM(tensors.ptr(), i);
    PyObject* made = nullptr;
    if (o == Py_None) {
      made = nb::none().release().ptr();
    } else if (!is_tensor(o)) {
      fail(ErrorKind::dtype, "export", "no gradus.Tensor: ", Py_TYPE(o)->tp_name);
    } else if (copied) {
      const Tensor& t = tensor_in(o);
      const Tensor own = Tensor::empty(t.sizes(), t.dtype(), t.device());
      const NoGrad off;
      copy_(own, t);
      made = exported(table, own, true);
    } else {
      made = exported(table, tensor_in(o), false);
    }
    PyTuple_SET_ITEM(all.ptr(), i, made);
  }
  return nb::borrow<nb::tuple>(all);
}
}  // namespace

void open_exchange(nb::module_& m) {
  m.def("_export", [](nb::handle tensor, nb::handle type) {
    if (!is_tensor(tensor.ptr())) fail(ErrorKind::dtype, "export", "expected a gradus.Tensor");
    return nb::steal(exported(foreign_table(type), tensor_in(tensor.ptr()), false));
  });
  m.def("_export_all", &all_exported);
  const nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  type.attr("__dlpack_c_exchange_api__") =
      checked(PyCapsule_New(&table, "dlpack_exchange_api", nullptr));
  nb::cpp_function_def(
      [](nb::handle self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
         nb::handle copy) {
        return dlpack(tensor_in(self.ptr()), stream, max_version, dl_device, copy, self.ptr());
      },
      nb::scope(type), nb::name("__dlpack__"), nb::is_method(), nb::kw_only(),
      nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
      nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none());
  nb::cpp_function_def(
      [](nb::handle self) {
        const dl::Device d = device_of(tensor_in(self.ptr()));
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
