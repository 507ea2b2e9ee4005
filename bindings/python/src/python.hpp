// What the files of the extension share: tensors as Python objects, Python's values as the
// engine's, errors, the lock of the interpreter (GIL). Functions that take or give a PyObject* need
// the lock; those that give one give a new reference, or throw.
#pragma once
#include "engine/graph.hpp"
#include "ops/base/dtypes.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

namespace gradus::inline v1 {
class Captured;
}
namespace gradus::inline v1::py {

namespace nb = nanobind;

// ---- tensors

// gradus.Tensor: a type of the C API, since every op makes one: half the price of a bound class.
struct PyTensor {
  PyObject_HEAD Tensor tensor;
  PyObject* weak;  // its weak references
};
inline PyTypeObject* tensor_type = nullptr;
inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
inline const Tensor& tensor_in(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->tensor; }
// Tensors of Python objects that the caller holds, side by side as ops take them: these handles are
// not counted, which spares each operand two locked instructions.
class Borrowed {
 public:
  Borrowed() {}
  ~Borrowed() {}
  void add(PyObject* o) {
    new (&in_[n_++]) Tensor(Ref<TensorBody>::adopt(tensor_in(o).body().get()));
  }
  operator Operands() const { return {in_, n_}; }

 private:
  union {
    Tensor in_[3];
  };
  size_t n_ = 0;
};
const Tensor& self_in(nb::handle self);  // Error(dtype) where it is no tensor
PyObject* wrap(Tensor t);                // None for an undefined one
PyObject* wrap(Outputs outputs);         // one by itself, several as a tuple
// The named tuple of an op's results, put into `types`; null: it has none. And one of it.
PyTypeObject* result_type(const OpInfo& op, nb::dict types);
PyObject* wrap(PyTypeObject* type, Outputs outputs);
// A tensor, a Python or numpy number (weak: it takes the dtype of the tensors beside it), an array
// that shares its memory (numpy's, or whatever has __dlpack__). False: it is none of these.
bool operand_at(PyObject* o, Tensor& out);
// Error(value) that names `who` where it is none.
Tensor operand_at(PyObject* o, std::string_view who, std::string_view what);
// Numbers, nested lists of numbers or tensors, arrays, with a copy. Integers are i64, other real
// numbers f32, complex ones c64, unless a dtype is given.
Tensor tensor_from(PyObject* data, std::optional<DType> dtype, Device& device);

// ---- dtypes, shapes, devices

inline constexpr const char* kLongNames[] = {"float32", "float64", "complex64", "complex128",
                                             "int32",   "int64",   "uint8",     "bool",
                                             "float16", "bfloat16"};
PyObject* wrap(DType t);                 // gradus.float32, ...: one object for each
bool dtype_at(PyObject* o, DType& out);  // also "f32", "float32", numpy's and torch's, float, ...
bool is_integer_like(PyObject* o);       // has __index__ and is no bool
int64_t integer_at(PyObject* o, std::string_view who);
bool shape_at(PyObject* o, Shape& out);    // an integer, or a sequence of them
Device& device_at(PyObject* o);            // None: the default one; "cpu", "cuda:1", ...
Device& device_named(const std::string&);  // loads its module; never another device

// ---- errors

extern PyObject* error_types[int(ErrorKind::internal) + 1];
void open_errors(nb::module_& m);
void raise_current() noexcept;  // the exception in flight as Python's
// The frame of functions that Python calls by the C API.
template <class F, class R = PyObject*>
R guarded(F&& f, R failed = nullptr) noexcept {
  try {
    return f();
  } catch (...) {
    raise_current();
    return failed;
  }
}
inline nb::object checked(PyObject* o) {  // of the C API: null is an error
  if (!o) nb::raise_python_error();
  return nb::steal(o);
}

// ---- the lock

// Is the interpreter ending? Then its objects are left alone.
inline bool at_end() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}
// Who wants the lock then waits for the end of the process.
inline void stay_at_end() {
  while (at_end()) pause();
}
class Locked {
 public:
  Locked() {
    stay_at_end();
    state_ = PyGILState_Ensure();
  }
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};
// Without the lock while it lives, if `let`; longer work looks for Ctrl-C (interrupts.cpp).
class Unlocked {
 public:
  explicit Unlocked(bool let = true) : state_(let ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (!state_) return;
    stay_at_end();
    PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};
// Is this work of 10 us and more, by its operands?
inline bool is_long(Operands in) {
  int64_t all = 0;
  for (const Tensor& t : in) {
    if (!t.defined() || t.is_number()) continue;
    int64_t n = 1;
    for (const int64_t size : t.sizes()) n *= size;  // which fits: the tensor is there
    all += n;
  }
  return all > 16384;
}
// A Python object that C++ holds, also in other threads and to the end: taken and dropped with the
// lock; at the interpreter's end it is left alone.
class Kept {
 public:
  explicit Kept(nb::handle o) : object_(o.ptr()) { Py_INCREF(object_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept();
  nb::handle get() const { return object_; }

 private:
  PyObject* object_;
};
// A Python function as one of C++. It may be called without the lock.
using Function = std::function<Tensors(const Tensors&)>;
Function function_of(nb::handle callable);
Tensors tensors_of(nb::handle result, std::string_view who);  // a tensor, or a sequence of them
// While ops are watched, or anomalies looked for: the line of Python that runs, for the nodes
// recorded there.
class PythonLine {
 public:
  PythonLine() {
    if (observer || modes.anomaly) [[unlikely]]
      look();
  }

 private:
  void look();
  std::optional<Trace> trace_;
};

// ---- what each file adds to the module
void open_tensor(nb::module_& m);
void open_members(nb::module_& m);
void open_ops(nb::module_& m);
void open_exchange(nb::module_& m);
void open_autograd(nb::module_& m);
void open_functions(nb::module_& m);
void open_transforms(nb::module_& m);
void open_run(nb::module_& m);
void open_train(nb::module_& m);
void open_contract(nb::module_& m);
void open_blocks(nb::module_& m);
void open_audit(nb::module_& m);
void open_program(nb::module_& m);
void open_recorded(nb::module_& m);

// tensor.cpp's slots of others
PyObject* subscript(PyObject* self, PyObject* key);
int assign_subscript(PyObject* self, PyObject* key, PyObject* value);
int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);
PyObject* nested_list(const Tensor& t);
Captured& captured_in(nb::handle step);  // of a _Step
// Foreign memory as a tensor: the exchange table of DLPack, its capsules, the buffer protocol.
bool import_array(PyObject* o, Tensor& out);
Tensors tensors_at(PyObject* sequence);  // of tensors, arrays, numbers: they are waited for at once

}  // namespace gradus::py

namespace nanobind::detail {

template <>
struct type_caster<gradus::Tensor> {
  NB_TYPE_CASTER(gradus::Tensor, const_name("Tensor"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (src.is_none()) return true;
    try {
      return gradus::py::operand_at(src.ptr(), value);
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(gradus::Tensor t, rv_policy, cleanup_list*) noexcept {
    return gradus::py::guarded([&] { return gradus::py::wrap(std::move(t)); });
  }
};
template <>
struct type_caster<gradus::Shape> {
  NB_TYPE_CASTER(gradus::Shape, const_name("tuple[int, ...]"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    try {
      return gradus::py::shape_at(src.ptr(), value);
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(const gradus::Shape& s, rv_policy, cleanup_list*) noexcept {
    PyObject* const tuple = PyTuple_New(Py_ssize_t(s.size()));
    for (size_t i = 0; tuple && i < s.size(); ++i)
      PyTuple_SET_ITEM(tuple, Py_ssize_t(i), PyLong_FromLongLong(s[i]));
    return tuple;
  }
};
template <>
struct type_caster<gradus::DType> {
  NB_TYPE_CASTER(gradus::DType, const_name("dtype"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    try {
      return gradus::py::dtype_at(src.ptr(), value);
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(gradus::DType t, rv_policy, cleanup_list*) noexcept {
    return gradus::py::wrap(t);
  }
};

}  // namespace nanobind::detail
