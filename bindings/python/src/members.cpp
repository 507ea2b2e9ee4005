// What tensors have under a name that is no op: shape, dtype, values, history.
#include "bindings/python/src/python.hpp"
#include "engine/hooks.hpp"
#include "engine/in_place.hpp"
#include "ops/base/shape.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::py {

namespace {

nb::handle type() { return nb::handle(reinterpret_cast<PyObject*>(tensor_type)); }

template <class F, class... X>
void method(const char* name, F&& f, X&&... extra) {
  nb::cpp_function_def(std::forward<F>(f), nb::scope(type()), nb::name(name), nb::is_method(),
                       std::forward<X>(extra)...);
}
template <class F>
void property(const char* name, F&& f, const char* doc, nb::object set = nb::none()) {
  const nb::object get = nb::cpp_function(std::forward<F>(f), nb::is_method());
  type().attr(name) = nb::module_::import_("builtins").attr("property")(get, set, nb::none(), doc);
}

PyObject* number_of(DType t, const char* at) {
  PyObject* out = nullptr;
  visit_dtype(int32_t(t), [&](auto zero) {
    using T = decltype(zero);
    T x;
    std::memcpy(&x, at, sizeof x);
    if constexpr (std::is_same_v<T, bool>)
      out = PyBool_FromLong(x);
    else if constexpr (std::is_integral_v<T>)
      out = PyLong_FromLongLong(x);
    else if constexpr (std::is_same_v<T, c64> || std::is_same_v<T, c128>)
      out = PyComplex_FromDoubles(double(x.re), double(x.im));
    else
      out = PyFloat_FromDouble(double(float(x)) == double(x) ? double(float(x)) : double(x));
  });
  return out;
}
PyObject* nested(const char*& at, DType t, const Shape& sizes, size_t axis) {
  if (axis == sizes.size()) {
    PyObject* const o = number_of(t, at);
    at += itemsize(t);
    return o;
  }
  PyObject* const list = PyList_New(Py_ssize_t(sizes[axis]));
  for (int64_t i = 0; list && i < sizes[axis]; ++i)
    PyList_SET_ITEM(list, i, nested(at, t, sizes, axis + 1));
  return list;
}
nb::object item(const Tensor& t) {
  if (t.numel() != 1)
    fail(ErrorKind::value, "item", "one element expected, the shape is ", t.sizes(),
         "; tolist() gives all");
  char bytes[16];
  t.copy_to_host(bytes);
  return nb::steal(number_of(t.dtype(), bytes));
}

// Real numbers that are whole end in a point, as PyTorch's do: one sees that they are no integers.
// Columns stay columns.
std::string pointed(const std::string& values) {
  static constexpr const char* kBetween = "[], \n";
  const auto each = [&](auto&& f) {
    for (size_t at = 0, end; (at = values.find_first_not_of(kBetween, at)) != values.npos;
         at = end) {
      end = std::min(values.find_first_of(kBetween, at), values.size());
      if (values[at] != '.') f(at, end, values.find_first_not_of("-0123456789", at) >= end);
    }
  };
  size_t width = 0, wider = 0, from = 0;
  each([&](size_t at, size_t end, bool whole) {
    width = std::max(width, end - at);
    wider = std::max(wider, end - at + whole);
  });
  std::string out;
  each([&](size_t at, size_t end, bool whole) {
    out.append(values, from, at - from - (whole && wider == width));
    if (!whole && wider > width) out += ' ';
    out.append(values, at, end - at);
    if (whole) out += '.';
    from = end;
  });
  return out.append(values, from);
}

std::string repr(const Tensor& t) {
  const std::string values = is_real_float(t.dtype()) ? pointed(t.to_string()) : t.to_string();
  std::string text = "tensor(";
  for (const char c : values) {  // further rows stand below the first
    text += c;
    if (c == '\n') text += "       ";
  }
  if (!(t.dtype() == DType::f32 || t.dtype() == DType::i64 || t.dtype() == DType::bool_) ||
      t.numel() == 0)
    text += join(", dtype=", kLongNames[int(t.dtype())]);
  if (t.numel() == 0 && t.rank() != 1) text += join(", size=", t.sizes());
  if (t.device().name() != "cpu") text += ", device='" + t.device().name() + "'";
  if (t.grad_fn())
    text += join(", grad_fn=<", t.grad_fn()->op().name, ">");
  else if (t.requires_grad())
    text += ", requires_grad=True";
  return text + ")";
}

nb::bytes bytes_of(const Tensor& t) {
  std::string bytes(t.bytes(), '\0');
  t.copy_to_host(bytes.data());
  return nb::bytes(bytes.data(), bytes.size());
}
}  // namespace

PyObject* nested_list(const Tensor& t) {
  std::string bytes(t.bytes(), '\0');
  t.copy_to_host(bytes.data());
  const char* at = bytes.data();
  return nested(at, t.dtype(), t.sizes(), 0);
}

void open_members(nb::module_& m) {
  property(
      "shape", [](const Tensor& t) { return t.sizes(); }, "The extents of the axes, a tuple.");
  property(
      "dtype", [](const Tensor& t) { return t.dtype(); }, "The type of the elements.");
  property(
      "device", [](const Tensor& t) { return t.device().name(); },
      "The device's name: \"cpu\", \"cuda:1\".");
  property(
      "ndim", [](const Tensor& t) { return t.rank(); }, "How many axes there are.");
  property(
      "itemsize", [](const Tensor& t) { return itemsize(t.dtype()); }, "Bytes of one element.");
  property(
      "nbytes", [](const Tensor& t) { return t.bytes(); }, "Bytes of all elements.");
  property(
      "requires_grad", [](const Tensor& t) { return t.requires_grad(); },
      "Is a gradient asked for?",
      nb::cpp_function([](Tensor t, bool on) { t.set_requires_grad(on); }, nb::is_method()));
  property(
      "is_leaf", [](const Tensor& t) { return t.is_leaf(); },
      "True if no op made it that was recorded.");
  property(
      "grad", [](const Tensor& t) { return t.grad(); },
      "The gradient that backward() left, or None.",
      nb::cpp_function([](Tensor t, Tensor g) { t.set_grad(g); }, nb::is_method(),
                       nb::arg("value").none()));
  property(
      "version", [](const Tensor& t) { return t.version(); },
      "How many times its memory was written in place.");
  property(
      "data", [](const Tensor& t) { return t.detach(); }, "The same memory without history.",
      nb::cpp_function(
          [](nb::handle self, const Tensor& v) {
            const Tensor& t = self_in(self);
            if (v.sizes() != t.sizes() || v.dtype() != t.dtype() || &v.device() != &t.device())
              fail(ErrorKind::value, "data", "takes ", t.dtype(), " ", t.sizes(), " on ",
                   t.device().name(), ", got ", v.dtype(), " ", v.sizes(), " on ",
                   v.device().name(), "; make a new tensor or Parameter instead");
            copy_(t.detach(), v);
          },
          nb::is_method()));
  property(
      "T",
      [](const Tensor& t) {
        if (t.rank() > 2)
          fail(ErrorKind::shape, "T", "of a matrix; this has ", t.rank(),
               " axes; mT is that of the last two");
        return t.rank() == 2 ? transpose(t, 0, 1) : t;
      },
      "The transpose of a matrix.");
  property(
      "mT", [](const Tensor& t) { return transpose(t, -2, -1); }, "The last two axes exchanged.");
  property(
      "mH", [](const Tensor& t) { return conj(transpose(t, -2, -1)); }, "mT, conjugated.");

  method(
      "size",
      [](const Tensor& t, std::optional<int64_t> dim) {
        return dim ? nb::cast(t.size(*dim)) : nb::cast(t.sizes());
      },
      nb::arg("dim") = nb::none(), "The shape, or one axis' extent.");
  method(
      "stride",
      [](const Tensor& t, std::optional<int64_t> dim) {
        return dim ? nb::cast(t.strides()[size_t(normal_axis("stride", *dim, t.rank()))])
                   : nb::cast(t.strides());
      },
      nb::arg("dim") = nb::none(), "The strides, in elements.");
  method("storage_offset", [](const Tensor& t) { return t.offset(); });
  method(
      "numel", [](const Tensor& t) { return t.numel(); }, "How many elements there are.");
  method("dim", [](const Tensor& t) { return t.rank(); });
  method("is_contiguous", [](const Tensor& t) { return t.is_contiguous(); });
  method(
      "data_ptr",
      [](const Tensor& t) {
        return reinterpret_cast<uintptr_t>(t.storage().data()) +
               uintptr_t(t.offset()) * itemsize(t.dtype());
      },
      "Where the first element lies.");
  method(
      "item", [](const Tensor& t) { return item(t); }, "The one element, as a number of Python.");
  method(
      "tolist", [](const Tensor& t) { return checked(nested_list(t)); },
      "All elements, in nested lists.");
  method("__repr__", [](const Tensor& t) { return repr(t); });
  method("_bytes", [](const Tensor& t) { return bytes_of(t); });

  method(
      "requires_grad_",
      [](nb::object self, bool on) {
        Tensor(self_in(self)).set_requires_grad(on);
        return self;
      },
      nb::arg("requires_grad") = true, "Asks for a gradient; gives the tensor itself.");
  method(
      "retain_grad", [](const Tensor& t) { t.retain_grad(); },
      "Keeps .grad of a tensor that is no leaf.");
  method(
      "detach", [](const Tensor& t) { return t.detach(); }, "The same memory without history.");
  method("detach_", [](nb::object self) {
    Tensor(self_in(self)).detach_();
    return self;
  });
  method(
      "fill_",
      [](nb::object self, const Tensor& value) {
        fill_(self_in(self), value);
        return self;
      },
      nb::arg("value"), "One value everywhere, in place.");
  method(
      "copy_",
      [](nb::object self, const Tensor& src) {
        const Tensor& t = self_in(self);
        copy_(t,
              &src.device() == &t.device() || src.is_number() ? src : to_device(src, t.device()));
        return self;
      },
      nb::arg("src"), "The elements of another tensor, in place; broadcasts and casts.");
  method("_cast", [](const Tensor& t, DType dtype) { return cast(t, dtype); });
  method(
      "_to_device",
      [](const Tensor& t, nb::handle device) {
        Device& d = device_at(device.ptr());
        const Unlocked unlocked;
        return to_device(t, d);
      },
      nb::arg().none());
  m.def(
      "tensor",
      [](nb::handle data, std::optional<DType> dtype, nb::handle device, bool requires_grad) {
        Tensor t = tensor_from(data.ptr(), dtype, device_at(device.ptr()));
        if (requires_grad) t.set_requires_grad();
        return t;
      },
      nb::arg("data"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("requires_grad") = false,
      "A tensor of numbers, nested lists or arrays, with memory of its own. Without a dtype "
      "integers are int64,\n"
      "other real numbers float32, complex ones complex64; arrays keep theirs.");
  m.def(
      "_from_bytes",
      [](nb::bytes bytes, const Shape& shape, DType dtype, nb::handle device) {
        if (size_t(numel_of(shape)) * itemsize(dtype) != bytes.size())
          fail(ErrorKind::value, "unpickle", "the shape does not fit the bytes");
        return Tensor::from_host(bytes.c_str(), shape, dtype, device_at(device.ptr()));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("result_type", [](const Tensors& operands) { return result_dtype(operands); });
  m.def(
      "empty",
      [](const Shape& size, DType dtype, nb::handle device, bool requires_grad) {
        Tensor t = Tensor::empty(size, dtype, device_at(device.ptr()));
        if (requires_grad) t.set_requires_grad();
        return t;
      },
      nb::arg("size"), nb::kw_only(), nb::arg("dtype") = DType::f32, nb::arg("device") = nb::none(),
      nb::arg("requires_grad") = false, "A tensor whose elements are not set.");
}

}  // namespace gradus::py
