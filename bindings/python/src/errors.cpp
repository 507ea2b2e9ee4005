// Errors by kind, Python functions within C++, lines of Python, Ctrl-C.
#include "bindings/python/src/python.hpp"

#include <frameobject.h>

namespace gradus::inline v1::py {

PyObject* error_types[int(ErrorKind::internal) + 1] = {};

namespace {

// gradus.Error, and for each kind a class that is also Python's own of that kind.
struct Kind {
  ErrorKind kind;
  const char* name;
  PyObject* base;
};

void raise(const Error& e) noexcept {
  if (PyErr_Occurred()) {  // a signal's, or a callback's: said already
    if (e.kind() == ErrorKind::interrupted) return;
    PyErr_Clear();
  }
  if (e.kind() == ErrorKind::interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return;
  }
  PyObject* const type = error_types[int(e.kind())];
  PyObject* const made = PyObject_CallFunction(type, "s", e.what());
  if (!made) return;
  PyObject* const op = PyUnicode_FromStringAndSize(e.op().data(), Py_ssize_t(e.op().size()));
  if (!op || PyObject_SetAttrString(made, "op", op) != 0) PyErr_Clear();
  Py_XDECREF(op);
  PyErr_SetObject(type, made);
  Py_DECREF(made);
}

}  // namespace

void raise_current() noexcept {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const Error& e) {
    raise(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_SystemError, "an exception of no known type");
  }
}

void open_errors(nb::module_& m) {
  PyObject* const base = PyErr_NewExceptionWithDoc(
      "gradus.Error", "Base of all of gradus's errors; `op` is the op or function that failed.",
      PyExc_Exception, nullptr);
  m.attr("Error") = nb::borrow(base);
  const Kind kinds[] = {{ErrorKind::shape, "ShapeError", PyExc_ValueError},
                        {ErrorKind::dtype, "DTypeError", PyExc_TypeError},
                        {ErrorKind::value, "ValueError", PyExc_ValueError},
                        {ErrorKind::index, "IndexError", PyExc_IndexError},
                        {ErrorKind::autograd, "AutogradError", PyExc_RuntimeError},
                        {ErrorKind::config, "ConfigError", PyExc_ValueError},
                        {ErrorKind::io, "IOError", PyExc_OSError},
                        {ErrorKind::device, "DeviceError", PyExc_RuntimeError},
                        {ErrorKind::memory, "MemoryError", PyExc_MemoryError},
                        {ErrorKind::numeric, "NumericError", PyExc_ArithmeticError},
                        {ErrorKind::internal, "InternalError", PyExc_RuntimeError}};
  for (const Kind& k : kinds) {
    const nb::object bases = nb::make_tuple(nb::borrow(base), nb::borrow(k.base));
    PyObject* const type =
        PyErr_NewException((std::string("gradus.") + k.name).c_str(), bases.ptr(), nullptr);
    if (!type) nb::raise_python_error();
    error_types[int(k.kind)] = type;
    m.attr(k.name) = nb::borrow(type);
  }
  error_types[int(ErrorKind::interrupted)] = PyExc_KeyboardInterrupt;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      raise(e);
    }
  });
}

Kept::~Kept() {
  if (at_end()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(object_);
  PyGILState_Release(state);
}

Function function_of(nb::handle callable) {
  return [kept = std::make_shared<Kept>(callable)](const Tensors& in) {
    const nb::gil_scoped_acquire locked;
    nb::object arguments = nb::steal(PyTuple_New(Py_ssize_t(in.size())));
    for (size_t i = 0; i < in.size(); ++i)
      PyTuple_SET_ITEM(arguments.ptr(), Py_ssize_t(i), wrap(in[i]));
    return tensors_of(checked(PyObject_CallObject(kept->get().ptr(), arguments.ptr())), "function");
  };
}

// The innermost line that is not of this package.
void PythonLine::look() {
  if (!PyGILState_Check()) return;
  PyFrameObject* frame = PyEval_GetFrame();
  nb::object at = nb::borrow(reinterpret_cast<PyObject*>(frame));
  while (at.is_valid() && !at.is_none()) {
    const std::string file = nb::cast<std::string>(at.attr("f_code").attr("co_filename"));
    if (file.find("/gradus/") == std::string::npos) {
      trace_.emplace(
          join(file.substr(file.rfind('/') + 1), ":", nb::cast<int64_t>(at.attr("f_lineno"))));
      return;
    }
    at = at.attr("f_back");
  }
}

}  // namespace gradus::py
