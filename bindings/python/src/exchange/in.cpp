// Arrays of others as tensors, over their memory: by DLPack's exchange table, its capsules, or the
// buffer protocol. What comes in keeps its owner alive.
#include "bindings/python/src/exchange/exchange.hpp"
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
bool has_bit(PyObject* o, PyObject* name) {
  PyObject* const bit = PyObject_CallMethodNoArgs(o, name);
  if (!bit && !PyErr_ExceptionMatches(PyExc_AttributeError)) nb::raise_python_error();
  if (!bit) PyErr_Clear();
  Py_XDECREF(bit);
  return bit == Py_True;
}
bool is_negated(PyObject* o) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  return has_bit(o, name);
}
void check_resolved(PyObject* o, const Tensor& t) {
  const bool complex = is_complex(t.dtype());
  if (!complex && t.numel() > 1 && t.is_contiguous()) return;
  static PyObject* const conjugated = PyUnicode_InternFromString("is_conj");
  if (is_negated(o) || has_bit(o, conjugated))
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

dl::Array view_of(nb::handle array) {
  const dl::ExchangeTable* const t = table_of(Py_TYPE(array.ptr()));
  dl::Array a{};
  if (!t || !t->view_object)
    fail(ErrorKind::dtype, "from_dlpack", "the type has no __dlpack_c_exchange_api__");
  if (t->view_object(array.ptr(), &a) != 0) nb::raise_python_error();
  return a;
}
// Is the whole of it row after row in the host's memory, n elements?
bool is_plain(const dl::Array& a, int64_t& n) {
  n = 1;
  for (int i = a.ndim; i-- > 0; n *= a.shape[i])
    if (a.strides && a.shape[i] != 1 && a.strides[i] != n) return false;
  return a.device.type == dl::kCpu && a.dtype.code != dl::kComplex && a.dtype.lanes == 1 &&
         a.dtype.bits % 8 == 0;
}
bool copied_plainly(const dl::ExchangeTable& table, PyObject* to, PyObject* from) {
  dl::Array a{}, b{};
  if (table.view_object(to, &a) != 0 || table.view_object(from, &b) != 0) nb::raise_python_error();
  int64_t n = 1;
  if (!is_plain(a, n) || !is_plain(b, n) || a.ndim != b.ndim || a.dtype.code != b.dtype.code ||
      a.dtype.bits != b.dtype.bits || !std::equal(a.shape, a.shape + a.ndim, b.shape) ||
      (n == 1 && is_negated(from)))
    return false;
  const size_t bytes = size_t(n) * (a.dtype.bits / 8);
  memcpy(static_cast<char*>(a.data) + a.byte_offset, static_cast<char*>(b.data) + b.byte_offset,
         bytes);
  return true;
}
// The memory of an array, which is not kept: it is read or written while somebody else keeps it.
Tensor over(nb::handle array) {
  const dl::Array a = view_of(array);
  Tensor t = lent(a, [] {});
  wait_for(t.device(), working_stream(*table_of(Py_TYPE(array.ptr())), a.device));
  check_resolved(array.ptr(), t);
  return t;
}

// Where all[i] begins, for each i of a list: pointers side by side, to be compared as a whole.
nb::bytes places_of(nb::handle all, nb::list indices) {
  const nb::object tensors = checked(PySequence_Fast(all.ptr(), "expected a list of tensors"));
  SmallVector<void*, 32> places;
  for (const nb::handle index : indices) {
    const auto i = nb::cast<int64_t>(index);
    if (i < 0 || i >= PySequence_Fast_GET_SIZE(tensors.ptr())) throw nb::index_error();
    places.push_back(place_of(PySequence_Fast_GET_ITEM(tensors.ptr(), Py_ssize_t(i))));
  }
  return nb::bytes(places.data(), places.size() * sizeof(void*));
}

}  // namespace

void* place_of(nb::handle array) {
  const dl::Array a = view_of(array);
  return static_cast<char*>(a.data) + a.byte_offset;
}
// Many are small, for which a call of copy_ is ten times the copy.
void copy_into(nb::handle to, nb::handle from) {
  const dl::ExchangeTable* const t = table_of(Py_TYPE(to.ptr()));
  if (from.is_none())
    to.attr("zero_")();
  else if (Py_TYPE(to.ptr()) != Py_TYPE(from.ptr()) || !t || !t->view_object ||
           !copied_plainly(*t, to.ptr(), from.ptr()))
    to.attr("copy_")(from);
}

void open_exchange_in(nb::module_& m) {
  m.def("_places", &places_of);
  m.def("_over", &over);
  m.def("_import_all", [](nb::handle arrays) { return tensors_at(arrays.ptr()); });
  if (PyModule_AddFunctions(m.ptr(), functions) != 0) nb::raise_python_error();
}

}  // namespace gradus::py
