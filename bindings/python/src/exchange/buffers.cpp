// The buffer protocol, both ways: memoryview, bytes, array.array, and numpy's shorter way.
#include "bindings/python/src/exchange/exchange.hpp"

namespace gradus::inline v1::py {

namespace {

Tensor transposed(const Tensor& t) {
  const Shape sizes(std::reverse_iterator(t.sizes().end()),
                    std::reverse_iterator(t.sizes().begin()));
  const Shape strides(std::reverse_iterator(t.strides().end()),
                      std::reverse_iterator(t.strides().begin()));
  return t.alias(sizes, strides, t.offset());
}
// What a buffer points to as long as it is used.
struct Layout {
  Shape shape, strides;
  Tensor tensor;
};
static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
constexpr const char* kFormats[] = {"f", "d", "Zf", "Zd", "i",
                                    "l", "B", "?",  "e",  nullptr};  // by dtype

// What numpy calls a buffer's format.
std::string name_of(std::string_view format) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"b", "int8"},       {"h", "int16"},       {"H", "uint16"},  {"I", "uint32"},
      {"i", "int32"},      {"l", "int64"},       {"q", "int64"},   {"L", "uint64"},
      {"Q", "uint64"},     {"e", "float16"},     {"f", "float32"}, {"d", "float64"},
      {"g", "longdouble"}, {"Zg", "clongdouble"}};
  std::string order;
  if (format.starts_with('>')) order = "big-endian ";
  if (format.starts_with('>') || format.starts_with('<')) format.remove_prefix(1);
  for (const auto& [code, name] : kNames)
    if (format == code) return order + name;
  return order + "what a buffer calls \"" + std::string(format) + "\"";
}

}  // namespace

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
    if (v.suboffsets || size_t(v.itemsize) != itemsize(DType(i))) break;
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
  const Py_ssize_t size = v.itemsize;
  const std::string kept(format);  // the buffer's own text goes with it
  format = kept;
  release();
  fail(ErrorKind::dtype, "tensor", "an array of ", name_of(format), ", items of ", int64_t(size),
       " bytes in this layout, can't be a tensor, whose dtypes are float16 to float64, complex64, "
       "complex128, int32, int64, uint8 and bool; a.astype(\"",
       format.find_first_of("FDGZ") != format.npos   ? "complex128"
       : format.find_first_of("efdg") != format.npos ? "float64"
                                                     : "int64",
       "\") makes a copy of one of them");
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
        const auto asked = [flags](int bits) { return (flags & bits) == bits; };
        const bool rows = t.is_contiguous();
        const bool columns = t.rank() <= 1 ? rows : transposed(t).is_contiguous();
        if ((!asked(PyBUF_STRIDES) && !rows) || (asked(PyBUF_C_CONTIGUOUS) && !rows) ||
            (asked(PyBUF_F_CONTIGUOUS) && !columns) ||
            (asked(PyBUF_ANY_CONTIGUOUS) && !rows && !columns))
          return refuse(
              "the tensor's memory is not laid out as asked for: x.contiguous() is row-major");
        const bool writable = show_as(t, !(flags & PyBUF_WRITABLE));
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
        view->format = asked(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
        view->ndim = asked(PyBUF_ND) ? int(t.rank()) : 1;
        view->shape = asked(PyBUF_ND) ? layout->shape.data() : nullptr;
        view->strides = asked(PyBUF_STRIDES) ? layout->strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = layout.release();
        view->obj = nb::borrow(self).release().ptr();
        return 0;
      },
      -1);
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Layout*>(view->internal); }

}  // namespace gradus::py
