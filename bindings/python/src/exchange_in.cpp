// Arrays of others as tensors, over their memory: by DLPack's exchange table, its capsules, or the
// buffer protocol. What comes in keeps its owner alive.
#include "bindings/python/src/exchange.hpp"
#include "engine/streams/uses.hpp"

#include <algorithm>

namespace gradus::inline v1::py {

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
  Tensor t = lent(m->array, [m] {
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
}  // namespace

// Read-only memory is copied: nothing here knows tensors that can't be written.
Tensor taken(dl::ManagedVersioned* m, void* stream, bool in_order) {
  if (m->version.major != dl::kVersion.major) {
    const uint32_t major = m->version.major;
    if (m->deleter) m->deleter(m);
    fail(ErrorKind::value, "from_dlpack", "the array is of version ", int(major),
         " of DLPack, 1 is known here");
  }
  const bool read_only = m->flags & dl::kReadOnly;
  Tensor t = of_managed(m, stream, in_order);
  if (read_only) t = t.clone_data();
  return t;
}

namespace {

Tensor taken_from(PyObject* capsule) {
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

// torch conjugates and negates lazily, by a bit that its table does not tell. Conjugates are
// complex, negations are imaginary parts, which are strided, or one number.
bool has_bit(PyObject* o, const char* name) {
  return PyObject_HasAttrString(o, name) &&
         nb::cast<bool>(checked(PyObject_CallMethod(o, name, nullptr)));
}
void check_resolved(PyObject* o, const Tensor& t) {
  const bool complex = is_complex(t.dtype());
  if (!complex && t.numel() > 1 && t.is_contiguous()) return;
  if (has_bit(o, "is_conj") || has_bit(o, "is_neg"))
    fail(ErrorKind::value, "from_dlpack",
         "the tensor is conjugated or negated lazily, its memory is not ",
         "its values; x.resolve_conj().resolve_neg() makes a copy that is");
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
    out = taken_from(capsule.ptr());
    return true;
  }
  return import_buffer(o, out);
}

namespace {

Tensor from_dlpack(PyObject* x, bool copy) {
  Tensor t;
  if (PyCapsule_CheckExact(x)) {
    t = taken_from(x);
  } else if (is_tensor(x)) {
    t = tensor_in(x).detach();
  } else if (!import_array(x, t)) {
    fail(ErrorKind::dtype, "from_dlpack", "expected an array with __dlpack__ or a buffer, got ",
         Py_TYPE(x)->tp_name);
  }
  if (copy) t = t.clone_data();
  return t;
}
// Called for every tensor that crosses: by the C API, a tenth cheaper than a bound function.
PyObject* call_from_dlpack(PyObject*, PyObject* const* given, Py_ssize_t n, PyObject* names) {
  return guarded([&] {
    PyObject *x = n == 1 ? given[0] : nullptr, *copy = nullptr;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
      PyObject* const name = PyTuple_GET_ITEM(names, i);
      const bool is_copy = PyUnicode_CompareWithASCIIString(name, "copy") == 0;
      PyObject*& place = is_copy ? copy : x;
      if (place || (!is_copy && PyUnicode_CompareWithASCIIString(name, "x") != 0))
        fail(ErrorKind::dtype, "from_dlpack", "there is no place for ", PyUnicode_AsUTF8(name),
             "; it takes x and copy");
      place = given[n + i];
    }
    if (!x) fail(ErrorKind::dtype, "from_dlpack", "takes one array, x; got ", int64_t(n));
    return wrap(from_dlpack(x, copy == Py_True));
  });
}
PyMethodDef functions[] = {
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_from_dlpack)),
     METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, x, *, copy=None)\n--\n\n"
     "A tensor over the memory of an array of another library (numpy, torch, jax, a buffer), "
     "without a copy.\nRead-only memory is copied."},
    {nullptr, nullptr, 0, nullptr}};

// Is the whole of it row after row in the host's memory, and are its values what is there?
bool is_plain(PyObject* o, const dl::Array& a) {
  int64_t n = 1;
  for (int i = a.ndim; i-- > 0; n *= a.shape[i])
    if (a.strides && a.shape[i] != 1 && a.strides[i] != n) return false;
  return a.device.type == dl::kCpu && a.dtype.code != dl::kComplex && a.dtype.lanes == 1 &&
         a.dtype.bits % 8 == 0 && (n > 1 || !has_bit(o, "is_neg"));
}
bool copied_plainly(const dl::ExchangeTable& table, PyObject* to, PyObject* from) {
  dl::Array a{}, b{};
  if (table.view_object(to, &a) != 0 || table.view_object(from, &b) != 0) nb::raise_python_error();
  if (!is_plain(to, a) || !is_plain(from, b) || a.ndim != b.ndim || a.dtype.code != b.dtype.code ||
      a.dtype.bits != b.dtype.bits || !std::equal(a.shape, a.shape + a.ndim, b.shape))
    return false;
  size_t bytes = a.dtype.bits / 8;
  for (int i = 0; i < a.ndim; ++i) bytes *= size_t(a.shape[i]);
  memcpy(static_cast<char*>(a.data) + a.byte_offset, static_cast<char*>(b.data) + b.byte_offset,
         bytes);
  return true;
}
// to[i].copy_(from[i]) of tensors of another library, of `to` alone the caller knows: many small
// ones, for which such a call is ten times the copy.
void copy_all(nb::list to, nb::list from) {
  if (to.size() != from.size())
    fail(ErrorKind::value, "copy", int64_t(from.size()), " tensors into ", int64_t(to.size()));
  for (size_t i = 0; i < to.size(); ++i) {
    const nb::handle a = to[i], b = from[i];
    const dl::ExchangeTable* const t = table_of(Py_TYPE(a.ptr()));
    if (Py_TYPE(a.ptr()) != Py_TYPE(b.ptr()) || !t || !t->view_object ||
        !copied_plainly(*t, a.ptr(), b.ptr()))
      a.attr("copy_")(b);
  }
}

// Where all[i] begins, for each i of a list: pointers side by side, to be compared as a whole.
nb::bytes places_of(nb::handle all, nb::list indices) {
  const nb::object tensors = checked(PySequence_Fast(all.ptr(), "expected a list of tensors"));
  SmallVector<void*, 32> places;
  for (size_t k = 0; k < indices.size(); ++k) {
    const auto i = nb::cast<int64_t>(indices[k]);
    if (i < 0 || i >= PySequence_Fast_GET_SIZE(tensors.ptr())) throw nb::index_error();
    PyObject* const o = PySequence_Fast_GET_ITEM(tensors.ptr(), Py_ssize_t(i));
    const dl::ExchangeTable* const t = table_of(Py_TYPE(o));
    dl::Array a{};
    if (!t || !t->view_object)
      fail(ErrorKind::dtype, "places", "the type has no __dlpack_c_exchange_api__");
    if (t->view_object(o, &a) != 0) nb::raise_python_error();
    places.push_back(static_cast<char*>(a.data) + a.byte_offset);
  }
  return nb::bytes(places.data(), places.size() * sizeof(void*));
}

}  // namespace

void open_exchange_in(nb::module_& m) {
  m.def("_places", &places_of);
  m.def("_copy_all", &copy_all);
  m.def("_import_all", [](nb::handle arrays) { return tensors_at(arrays.ptr()); });
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) nb::raise_python_error();
}

}  // namespace gradus::py
