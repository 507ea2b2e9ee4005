// References, arguments, and views as tensors.
#include "kernels/torch/tensor.hpp"

#include <cstring>

namespace gradus::inline v1::torch {
namespace {

void check(int32_t status, const char* what) {
  if (status == 0) return;
  const char* const said = library().last_error ? library().last_error() : nullptr;
  calls::refuse(GD_INTERNAL, status, "torch %s: %s", what,
                said && *said ? said : "libtorch refuses it, without a word");
}

template <class T>
Value bits(T x) {
  Value out = 0;
  std::memcpy(&out, &x, sizeof x);
  return out;
}

Value list(size_t n, const auto& element) {
  ListHandle out = nullptr;
  check(library().new_list(n, &out), "list");
  for (size_t i = 0; i < n; ++i) check(library().push_back(out, element(i)), "list");
  return bits(out);
}

}  // namespace

Tensor::~Tensor() {
  if (handle_) library().delete_tensor(handle_);
}

Value value(Tensor&& t) { return bits(t.release()); }
Value value(const Tensor& t) {
  TensorHandle out = nullptr;
  check(library().new_handle(t.get(), &out), "handle");
  return bits(out);
}
Value value(double x) { return bits(x); }
Value value(const std::string& text) {
  StringHandle out = nullptr;
  check(library().new_string(text.data(), text.size(), &out), "string");
  return bits(out);
}
Value value(const std::vector<int64_t>& numbers) {
  return list(numbers.size(), [&](size_t i) { return value(numbers[i]); });
}
Value value(std::vector<Tensor>&& tensors) {
  return list(tensors.size(), [&](size_t i) { return value(std::move(tensors[i])); });
}
Value some(Value v) {
  Value* out = nullptr;
  // Before 2.13 the callee deletes what its caller made with new.
  if (library().new_value)
    check(library().new_value(&out), "value");
  else
    out = new Value;
  *out = v;
  return bits(out);
}

Tensor aten(const char* name, const char* overload, std::initializer_list<Value> arguments) {
  Value stack[16] = {};
  std::copy(arguments.begin(), arguments.end(), stack);
  check(library().call((std::string("aten::") + name).c_str(), overload, stack, kTarget), name);
  TensorHandle result = nullptr;
  std::memcpy(&result, stack, sizeof result);
  return Tensor(result);
}

namespace {

Tensor from_blob(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                 DType dtype) {
  const Library& l = library();
  constexpr int64_t kNothing = 0;
  TensorHandle out = nullptr;
  check(l.from_blob(data, rank, rank ? sizes : &kNothing, rank ? strides : &kNothing, 0,
                    l.dtype[int(dtype)](), l.cpu(), -1, &out, l.strided(), nullptr, 0, nullptr,
                    nullptr),
        "view");
  return Tensor(out);
}

}  // namespace

Memory memory_of(const gd_view& v) {
  std::vector<int64_t> strides(v.strides, v.strides + v.rank), turned;
  const DType t = DType(v.dtype);
  char* start = calls::start_of(v);
  for (int i = 0; i < v.rank; ++i) {
    if (strides[size_t(i)] >= 0) continue;
    if (v.sizes[i] > 0) start += (v.sizes[i] - 1) * strides[size_t(i)] * int64_t(itemsize(t));
    strides[size_t(i)] = -strides[size_t(i)];
    turned.push_back(i);
  }
  return {from_blob(start, v.rank, v.sizes, strides.data(), t), std::move(turned)};
}

Tensor read(const gd_view& v) {
  Memory m = memory_of(v);
  if (m.turned.empty()) return std::move(m.tensor);
  return aten("flip", "", {value(std::move(m.tensor)), value(m.turned)});
}

void write(const gd_view& out, const Tensor& y) {
  const Memory m = memory_of(out);
  Value from = value(y);
  if (!m.turned.empty()) from = value(aten("flip", "", {from, value(m.turned)}));
  aten("copy_", "", {value(m.tensor), from, value(false)});
}

Tensor number(const c128& x, bool complex) {
  // A copy: the argument does not outlive the call.
  double parts[] = {x.re, x.im};
  return aten(
      "clone", "",
      {value(from_blob(parts, 0, nullptr, nullptr, complex ? DType::c128 : DType::f64)), kNone});
}

namespace {
Tensor subtracted(const Tensor& a, const Tensor& b, double alpha) {
  TensorHandle out = nullptr;
  check(library().subtract(a.get(), b.get(), alpha, &out), "subtract");
  return Tensor(out);
}
}  // namespace
Tensor add(const Tensor& a, const Tensor& b) { return subtracted(a, b, -1); }
Tensor sub(const Tensor& a, const Tensor& b) { return subtracted(a, b, 1); }

Tensor cast(const Tensor& t, DType dtype) {
  return aten("to", "dtype",
              {value(t), Value(library().dtype[int(dtype)]()), value(false), value(false), kNone});
}

}  // namespace gradus::torch
