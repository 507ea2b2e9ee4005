// Python's values as the engine's.
#include "bindings/python/src/python.hpp"

#include "engine/config/device_config.hpp"
#include "ops/ops.hpp"

#include <cmath>
#include <map>

namespace gradus::inline v1::py {

namespace {

struct DTypeObject {
  DType dtype;
};
PyObject* dtypes[GD_DTYPE_COUNT] = {};

// Numbers of numpy that are no Python numbers: they say themselves what they are.
bool numpy_number(PyObject* o, Tensor& out) {
  const char* const type = Py_TYPE(o)->tp_name;
  if (std::string_view(type).substr(0, 6) != "numpy.") return false;
  if (std::string_view(type) == "numpy.ndarray") return false;
  nb::object item = nb::steal(PyObject_CallMethod(o, "item", nullptr));
  if (!item.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return item.ptr() != o && operand_at(item.ptr(), out);
}

// The numbers of nested lists, row by row.
struct Numbers {
  Shape shape;
  std::vector<PyObject*> leaves;  // borrowed from ...
  std::vector<nb::object> held;
  void read(PyObject* o, size_t depth) {
    if (PyList_Check(o) || PyTuple_Check(o)) {
      held.push_back(checked(PySequence_Tuple(o)));  // the list may change meanwhile
      o = held.back().ptr();
      const Py_ssize_t n = PyTuple_GET_SIZE(o);
      if (depth == shape.size()) {
        if (!leaves.empty()) refuse(depth);
        shape.push_back(n);
      } else if (shape[depth] != n) {
        refuse(depth);
      }
      if (shape.size() > 64) fail(ErrorKind::value, "tensor", "lists within lists without an end");
      for (Py_ssize_t i = 0; i < n; ++i) read(PySequence_Fast_GET_ITEM(o, i), depth + 1);
      return;
    }
    if (depth != shape.size()) refuse(depth);
    leaves.push_back(o);
  }
  [[noreturn]] static void refuse(size_t depth) {
    fail(ErrorKind::shape, "tensor", "the lists at depth ", int64_t(depth),
         " differ in length or depth; every row needs the same shape");
  }
};

}  // namespace

PyObject* wrap(DType t) {
  PyObject* const o = int(t) >= 0 && int(t) < GD_DTYPE_COUNT
                          ? nb::borrow(dtypes[int(t)]).release().ptr()
                          : nb::cast(DTypeObject{t}).release().ptr();
  return o;
}

bool dtype_at(PyObject* o, DType& out) {
  DTypeObject* known = nullptr;
  if (nb::try_cast(nb::handle(o), known)) {
    out = known->dtype;
    return true;
  }
  std::string name;
  if (PyUnicode_Check(o)) {
    name = nb::cast<std::string>(nb::handle(o));
  } else if (PyType_Check(o)) {
    name = nb::cast<std::string>(nb::handle(o).attr("__name__"));
    if (name == "float") name = "float64";
    if (name == "int") name = "int64";
    if (name == "complex") name = "complex128";
    if (name == "bool_") name = "bool";
  } else if (o != Py_None && PyObject_HasAttrString(o, "itemsize")) {  // numpy's, torch's
    name = nb::cast<std::string>(nb::str(nb::handle(o)));
    name = name.substr(name.rfind('.') + 1);
  } else {
    return false;
  }
  try {
    out = parse_dtype(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_integer_like(PyObject* o) {
  if (PyLong_CheckExact(o)) return true;
  if (is_tensor(o))
    return tensor_in(o).rank() == 0 && is_integer(tensor_in(o).dtype()) &&
           tensor_in(o).dtype() != DType::bool_;
  return PyIndex_Check(o) && !PyBool_Check(o) &&
         !PySequence_Check(o);  // arrays have __index__, too
}
int64_t integer_at(PyObject* o, std::string_view who) {
  const nb::object n = nb::steal(PyNumber_Index(o));
  const long long value = n.is_valid() ? PyLong_AsLongLong(n.ptr()) : -1;
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail(ErrorKind::value, who, "expected a whole number of 64 bits, got ",
         nb::cast<std::string>(nb::repr(nb::handle(o))));
  }
  return value;
}

bool shape_at(PyObject* o, Shape& out) {
  out.clear();
  const auto add = [&](PyObject* n) {
    if (!PyIndex_Check(n) || PyBool_Check(n)) return false;  // x.sum(True) means another argument
    const Py_ssize_t value = PyNumber_AsSsize_t(n, PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    out.push_back(value);
    return true;
  };
  if (PyLong_Check(o)) return add(o);
  if (PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      if (!add(PyTuple_GET_ITEM(o, i))) return false;
    return true;
  }
  if (PyIndex_Check(o) && !PyList_Check(o)) return add(o);
  if (PyUnicode_Check(o) || !PySequence_Check(o)) return false;
  const nb::object list = nb::steal(PySequence_Tuple(o));
  if (!list.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return shape_at(list.ptr(), out);
}

Device& device_named(const std::string& name) {
  static std::map<std::string, Device*> known;  // by the interpreter's lock; no files, which change
  if (const auto it = known.find(name); it != known.end()) return *it->second;
  DeviceConfig config = parse_device_config(name, "device");
  config.fallback = DeviceConfig::Fallback::error;
  Device& device = *open_configured(config).device;
  if (name.find('.') == name.npos && name.find('{') == name.npos) known[name] = &device;
  return device;
}

Device& device_at(PyObject* o) {
  if (!o || o == Py_None) return default_device();
  if (PyUnicode_Check(o)) return device_named(nb::cast<std::string>(nb::handle(o)));
  const std::string name = nb::cast<std::string>(nb::str(nb::handle(o)));  // torch.device
  if (name.size() > 40)
    fail(ErrorKind::config, "device", "expected a name such as \"cuda:0\", got a ",
         Py_TYPE(o)->tp_name);
  return device_named(name);
}

const Tensor& self_in(nb::handle self) {
  if (!is_tensor(self.ptr()))
    fail(ErrorKind::dtype, "Tensor", "a method of tensors was called on a ",
         Py_TYPE(self.ptr())->tp_name);
  return tensor_in(self.ptr());
}

bool operand_at(PyObject* o, Tensor& out) {
  if (is_tensor(o)) {
    out = tensor_in(o);
    return true;
  }
  if (PyFloat_Check(o)) {
    out = Tensor(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyBool_Check(o)) {
    out = Tensor(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) {
    int over = 0;
    const long long n = PyLong_AsLongLongAndOverflow(o, &over);
    out = over ? Tensor(PyLong_AsDouble(o)) : Tensor(int64_t(n));
    if (over && PyErr_Occurred()) nb::raise_python_error();
    return true;
  }
  if (PyComplex_Check(o)) {
    const std::complex<double> z(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    // In c64 where that holds it; beside f64 it becomes c128.
    const auto fits = [](double x) { return !std::isfinite(x) || double(float(x)) == x; };
    out = Tensor::full({}, z, fits(z.real()) && fits(z.imag()) ? DType::c64 : DType::c128);
    return true;
  }
  if (o == Py_None || PyUnicode_Check(o) || PyList_Check(o) || PyTuple_Check(o)) return false;
  return numpy_number(o, out) || import_array(o, out);
}

Tensor operand_at(PyObject* o, std::string_view who, std::string_view what) {
  Tensor t;
  if (operand_at(o, t)) return t;
  std::string hint;
  if (PyList_Check(o) || PyTuple_Check(o)) hint = "; gradus.tensor() makes one of a list";
  if (PyObject_HasAttrString(o, "with_data")) hint = "; x.data has its numbers";
  fail(ErrorKind::dtype, who, what, ": expected a tensor, a number or an array, got ",
       Py_TYPE(o)->tp_name, hint);
}

Tensor tensor_from(PyObject* data, std::optional<DType> dtype, Device& device) {
  const auto finished = [&](Tensor t) {
    if (dtype && t.dtype() != *dtype) t = cast(t, *dtype);
    return &t.device() == &device ? t : to_device(t, device);
  };
  const auto need_complex = [&](bool given) {
    if (given && dtype && !is_complex(*dtype))
      fail(ErrorKind::dtype, "tensor", "complex numbers as ", *dtype,
           " would lose their imaginary part");
  };
  need_complex(PyComplex_Check(data));
  if (!PyList_Check(data) && !PyTuple_Check(data)) {
    Tensor t;
    if (PyLong_CheckExact(data)) integer_at(data, "tensor");  // one that 64 bits hold
    if (!operand_at(data, t)) {
      if (PyUnicode_Check(data) || !PySequence_Check(data))
        fail(ErrorKind::dtype, "tensor", "expected numbers, lists of them or an array, got ",
             Py_TYPE(data)->tp_name);
      return tensor_from(checked(PySequence_List(data)).ptr(), dtype, device);
    }
    if (t.is_number() && dtype) check_holds("tensor", *dtype, t);
    if (t.is_number())
      return materialise(t,
                         dtype                     ? *dtype
                         : t.dtype() == DType::f64 ? DType::f32
                                                   : t.dtype(),
                         device);
    return finished(t.detach().clone_data());
  }
  Numbers numbers;
  numbers.read(data, 0);
  if (!numbers.leaves.empty() && !PyNumber_Check(numbers.leaves[0]))
    fail(ErrorKind::dtype, "tensor", "expected numbers, got ", Py_TYPE(numbers.leaves[0])->tp_name);
  bool any_tensor = false, any_complex = false, any_real = false,
       all_bool = !numbers.leaves.empty();
  for (PyObject* o : numbers.leaves) {
    any_complex |= PyComplex_Check(o);
    any_real |= bool(PyFloat_Check(o));
    all_bool &= bool(PyBool_Check(o));
    any_tensor |= !PyFloat_Check(o) && !PyLong_Check(o) && !PyComplex_Check(o);
  }
  if (any_tensor) {  // also numpy's numbers: each as a tensor of its own
    Tensors parts;
    for (PyObject* o : numbers.leaves) {
      Tensor t = operand_at(o, "tensor", "element");
      parts.push_back(t.is_number()
                          ? materialise(t, t.dtype() == DType::f64 ? DType::f32 : t.dtype(), device)
                          : to_device(t.detach(), device));
    }
    const DType common = dtype ? *dtype : result_dtype(parts);
    for (Tensor& t : parts) t = cast(t, common);
    const Tensor all = stack(parts);
    Shape shape = numbers.shape;
    for (int64_t i = 1; i < all.rank(); ++i) shape.push_back(all.size(i));
    return reshape(all, shape);
  }
  need_complex(any_complex);
  if (any_complex) {
    std::vector<c128> values;
    for (PyObject* o : numbers.leaves)
      values.push_back({PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)});
    return finished(cast(Tensor::from(values, numbers.shape, device), dtype.value_or(DType::c64)));
  }
  if (any_real || (numbers.leaves.empty() && !dtype) ||
      (dtype && is_floating(*dtype) && !numbers.leaves.empty())) {
    std::vector<double> values;
    for (PyObject* o : numbers.leaves) values.push_back(PyFloat_AsDouble(o));
    if (PyErr_Occurred()) nb::raise_python_error();
    return finished(cast(Tensor::from(values, numbers.shape, device), dtype.value_or(DType::f32)));
  }
  std::vector<int64_t> values;
  for (PyObject* o : numbers.leaves) values.push_back(PyLong_AsLongLong(o));
  if (PyErr_Occurred()) nb::raise_python_error();
  if (dtype && *dtype != DType::bool_ && is_integer(*dtype))
    for (const int64_t n : values) check_holds("tensor", *dtype, Tensor(n));
  const DType own = all_bool ? DType::bool_ : DType::i64;
  return finished(cast(Tensor::from(values, numbers.shape, device), dtype.value_or(own)));
}

Tensors tensors_of(nb::handle result, std::string_view who) {
  Tensors out;
  if (PyList_Check(result.ptr()) || PyTuple_Check(result.ptr())) {
    for (nb::handle o : result)
      out.push_back(o.is_none() ? Tensor() : operand_at(o.ptr(), who, "element"));
  } else if (!result.is_none()) {
    out.push_back(operand_at(result.ptr(), who, "result"));
  }
  return out;
}

void open_dtypes(nb::module_& m) {
  nb::class_<DTypeObject>(m, "dtype",
                          "The type of a tensor's elements; there is one object for each.")
      .def("__repr__",
           [](const DTypeObject& d) {
             return join("gradus.", int(d.dtype) < GD_DTYPE_COUNT ? kLongNames[int(d.dtype)]
                                                                  : dtype_name(d.dtype));
           })
      .def(
          "__eq__",
          [](const DTypeObject& d, nb::handle other) {
            DType o;
            return !other.is_none() && dtype_at(other.ptr(), o) && o == d.dtype;
          },
          nb::arg("other").none())
      .def("__hash__", [](const DTypeObject& d) { return size_t(d.dtype) + 7919; })
      .def("__reduce__", [](const DTypeObject& d) { return std::string(kLongNames[int(d.dtype)]); })
      .def_prop_ro("name",
                   [](const DTypeObject& d) { return std::string(kLongNames[int(d.dtype)]); })
      .def_prop_ro("itemsize", [](const DTypeObject& d) { return itemsize(d.dtype); })
      .def_prop_ro("is_floating_point", [](const DTypeObject& d) { return is_real_float(d.dtype); })
      .def_prop_ro("is_complex", [](const DTypeObject& d) { return is_complex(d.dtype); });
  for (int i = 0; i < GD_DTYPE_COUNT; ++i) {
    nb::object o = nb::cast(DTypeObject{DType(i)});
    m.attr(kLongNames[i]) = o;
    dtypes[i] = o.release().ptr();
  }
}

}  // namespace gradus::py
