// Tensors: from memory and to memory, what they are, and the common functions, typed.
#include "bindings/c/door.hpp"
#include "engine/random.hpp"
#include "ops/ops.hpp"

using namespace gradus;
using namespace gradus::c;

namespace {

template <class F>
gradus_status make(const char* function, gradus_tensor* out, F&& f) {
  return result(function, out, [&] { return handle_of(f()); });
}
template <class F>
gradus_status unary(const char* function, gradus_tensor x, gradus_tensor* out, F&& f) {
  return make(function, out, [&] { return f(InUse(x, "x")); });
}
template <class F>
gradus_status binary(const char* function, gradus_tensor a, gradus_tensor b, gradus_tensor* out,
                     F&& f) {
  return make(function, out, [&] { return f(InUse(a, "a"), InUse(b, "b")); });
}
// What a property of a tensor is.
template <class T, class F>
gradus_status tell(const char* function, gradus_tensor t, T* out, F&& f) {
  return result(function, out, [&] { return f(InUse(t, "t")); });
}

void give_list(const Shape& list, int64_t* to, size_t capacity, size_t* ndim) {
  need(ndim, "ndim") = list.size();
  if (capacity < list.size())
    throw Refusal{GRADUS_VALUE, join("room for ", capacity, " numbers, the tensor has ",
                                     int64_t(list.size()), " axes")};
  std::ranges::copy(list, array(to, list.size(), "sizes").begin());
}

}  // namespace

gradus_status gradus_from_data(const void* data, int32_t dtype, const int64_t* shape, size_t ndim,
                               gradus_tensor* out) {
  return make("gradus_from_data", out, [&] {
    const Shape sizes = shape_at(shape, ndim);
    if (numel_of(sizes) > 0) need(static_cast<const char*>(data), "data");
    if (dtype_at(dtype) == DType::bool_)  // whatever is not 0 is true
      return ne(Tensor::from_host(data, sizes, DType::u8), 0);
    return Tensor::from_host(data, sizes, dtype_at(dtype));
  });
}

gradus_status gradus_lend(void* data, size_t bytes, int32_t dtype, const int64_t* shape,
                          const int64_t* strides, size_t ndim, int64_t offset,
                          gradus_destroy_fn release, void* user, gradus_tensor* out) {
  return door("gradus_lend", [&] {
    need(out, "out");
    const Shape sizes = shape_at(shape, ndim);
    const Shape steps = strides ? shape_at(strides, ndim, "strides") : contiguous_strides(sizes);
    if (dtype == GRADUS_BOOL && data)
      for (const uint8_t byte : std::span(static_cast<const uint8_t*>(data), bytes))
        if (byte > 1) throw Refusal{GRADUS_VALUE, join("a bool is 0 or 1, one of these is ", byte)};
    const auto owned = user_of(user, release);
    const Tensor t = Tensor::lend(data, bytes, sizes, steps, offset, dtype_at(dtype),
                                  open_device("cpu"), [owned] {});
    *out = handle_of(t);
    owned->ours = true;
  });
}

gradus_status gradus_to_data(gradus_tensor t, void* to, size_t bytes) {
  return door("gradus_to_data", [&] {
    const Tensor x = tensor_of(t, "t");
    if (bytes != x.bytes())
      throw Refusal{GRADUS_VALUE, join("room for ", bytes, " bytes, ", x.dtype(), " ", x.sizes(),
                                       " takes ", x.bytes())};
    if (bytes > 0) x.copy_to_host(&need(static_cast<char*>(to), "to"));
  });
}

gradus_status gradus_data(gradus_tensor t, const void** out) {
  return tell("gradus_data", t, out, [](const Tensor& x) -> const void* {
    if (!x.device().host_memory())
      fail(ErrorKind::device, "data", "the tensor is on ", x.device().name(),
           ", whose memory the host can't read; gradus_cpu() copies it");
    x.device().synchronize();
    if (streams_used) in_order(*x.storage().buffer(), false);
    const auto* const first = static_cast<const char*>(x.storage().data());
    return first ? first + x.offset() * int64_t(itemsize(x.dtype())) : first;
  });
}

gradus_status gradus_item(gradus_tensor t, double* out) {
  return tell("gradus_item", t, out, [](const Tensor& x) { return x.item(); });
}
gradus_status gradus_number(double value, gradus_tensor* out) {
  return make("gradus_number", out, [&] { return Tensor(value); });
}
gradus_status gradus_zeros(const int64_t* shape, size_t ndim, int32_t dtype, gradus_tensor* out) {
  return make("gradus_zeros", out, [&] { return zeros(shape_at(shape, ndim), dtype_at(dtype)); });
}
gradus_status gradus_ones(const int64_t* shape, size_t ndim, int32_t dtype, gradus_tensor* out) {
  return make("gradus_ones", out, [&] { return ones(shape_at(shape, ndim), dtype_at(dtype)); });
}
gradus_status gradus_full(const int64_t* shape, size_t ndim, double value, int32_t dtype,
                          gradus_tensor* out) {
  return make("gradus_full", out,
              [&] { return full(shape_at(shape, ndim), value, dtype_at(dtype)); });
}
gradus_status gradus_arange(double start, double end, double step, int32_t dtype,
                            gradus_tensor* out) {
  return make("gradus_arange", out, [&] { return arange(start, end, step, dtype_at(dtype)); });
}
gradus_status gradus_randn(const int64_t* shape, size_t ndim, int32_t dtype, gradus_tensor* out) {
  return make("gradus_randn", out, [&] { return randn(shape_at(shape, ndim), dtype_at(dtype)); });
}
gradus_status gradus_manual_seed(uint64_t seed) {
  return door("gradus_manual_seed", [&] { manual_seed(seed); });
}

gradus_status gradus_shape(gradus_tensor t, int64_t* sizes, size_t capacity, size_t* ndim) {
  return door("gradus_shape", [&] { give_list(tensor_of(t, "t").sizes(), sizes, capacity, ndim); });
}
gradus_status gradus_strides(gradus_tensor t, int64_t* strides, size_t capacity, size_t* ndim) {
  return door("gradus_strides",
              [&] { give_list(tensor_of(t, "t").strides(), strides, capacity, ndim); });
}
gradus_status gradus_ndim(gradus_tensor t, size_t* out) {
  return tell("gradus_ndim", t, out, [](const Tensor& x) { return x.sizes().size(); });
}
gradus_status gradus_numel(gradus_tensor t, int64_t* out) {
  return tell("gradus_numel", t, out, [](const Tensor& x) { return x.numel(); });
}
gradus_status gradus_dtype(gradus_tensor t, int32_t* out) {
  return tell("gradus_dtype", t, out, [](const Tensor& x) { return int32_t(x.dtype()); });
}
gradus_status gradus_device(gradus_tensor t, int32_t* out) {
  return tell("gradus_device", t, out, [](const Tensor& x) { return number_of(x.device()); });
}
gradus_status gradus_is_cuda(gradus_tensor t, int32_t* out) {
  return tell("gradus_is_cuda", t, out,
              [](const Tensor& x) { return int32_t(x.device().kind() == "cuda"); });
}
gradus_status gradus_text(gradus_tensor t, char* text, size_t capacity, size_t* length) {
  return door("gradus_text", [&] {
    const std::string all = tensor_of(t, "t").to_string();
    if (length) *length = all.size();
    if (capacity == 0) return;
    need(text, "text");
    const size_t n = std::min(all.size(), capacity - 1);
    std::memcpy(text, all.data(), n);
    text[n] = 0;
  });
}

// ---- functions

gradus_status gradus_add(gradus_tensor a, gradus_tensor b, gradus_tensor* out) {
  return binary("gradus_add", a, b, out, add);
}
gradus_status gradus_sub(gradus_tensor a, gradus_tensor b, gradus_tensor* out) {
  return binary("gradus_sub", a, b, out, sub);
}
gradus_status gradus_mul(gradus_tensor a, gradus_tensor b, gradus_tensor* out) {
  return binary("gradus_mul", a, b, out, mul);
}
gradus_status gradus_div(gradus_tensor a, gradus_tensor b, gradus_tensor* out) {
  return binary("gradus_div", a, b, out,
                [](const Tensor& x, const Tensor& y) { return div(x, y); });
}
gradus_status gradus_matmul(gradus_tensor a, gradus_tensor b, gradus_tensor* out) {
  return binary("gradus_matmul", a, b, out, matmul);
}
gradus_status gradus_neg(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_neg", x, out, neg);
}
gradus_status gradus_exp(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_exp", x, out, [](const Tensor& t) { return exp(t); });
}
gradus_status gradus_log(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_log", x, out, [](const Tensor& t) { return log(t); });
}
gradus_status gradus_sqrt(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_sqrt", x, out, [](const Tensor& t) { return sqrt(t); });
}
gradus_status gradus_relu(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_relu", x, out, relu);
}
gradus_status gradus_sigmoid(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_sigmoid", x, out, sigmoid);
}
gradus_status gradus_tanh(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_tanh", x, out, [](const Tensor& t) { return tanh(t); });
}
gradus_status gradus_softmax(gradus_tensor x, int64_t dim, gradus_tensor* out) {
  return unary("gradus_softmax", x, out, [&](const Tensor& t) { return softmax(t, dim); });
}
gradus_status gradus_sum(gradus_tensor x, const int64_t* dims, size_t n_dims, int32_t keepdim,
                         gradus_tensor* out) {
  return unary("gradus_sum", x, out, [&](const Tensor& t) {
    return sum(t, shape_at(dims, n_dims, "dims"), keepdim != 0);
  });
}
gradus_status gradus_mean(gradus_tensor x, const int64_t* dims, size_t n_dims, int32_t keepdim,
                          gradus_tensor* out) {
  return unary("gradus_mean", x, out, [&](const Tensor& t) {
    return mean(t, shape_at(dims, n_dims, "dims"), keepdim != 0);
  });
}
gradus_status gradus_reshape(gradus_tensor x, const int64_t* shape, size_t ndim,
                             gradus_tensor* out) {
  return unary("gradus_reshape", x, out,
               [&](const Tensor& t) { return reshape(t, shape_at(shape, ndim)); });
}
gradus_status gradus_transpose(gradus_tensor x, int64_t dim0, int64_t dim1, gradus_tensor* out) {
  return unary("gradus_transpose", x, out,
               [&](const Tensor& t) { return transpose(t, dim0, dim1); });
}
gradus_status gradus_permute(gradus_tensor x, const int64_t* dims, size_t n_dims,
                             gradus_tensor* out) {
  return unary("gradus_permute", x, out,
               [&](const Tensor& t) { return permute(t, shape_at(dims, n_dims, "dims")); });
}
gradus_status gradus_expand(gradus_tensor x, const int64_t* shape, size_t ndim,
                            gradus_tensor* out) {
  return unary("gradus_expand", x, out,
               [&](const Tensor& t) { return expand(t, shape_at(shape, ndim)); });
}
gradus_status gradus_select(gradus_tensor x, int64_t dim, int64_t index, gradus_tensor* out) {
  return unary("gradus_select", x, out, [&](const Tensor& t) { return select(t, dim, index); });
}
gradus_status gradus_slice(gradus_tensor x, int64_t dim, int64_t start, int64_t end, int64_t step,
                           gradus_tensor* out) {
  return unary("gradus_slice", x, out,
               [&](const Tensor& t) { return slice(t, dim, start, end, step); });
}
gradus_status gradus_cast(gradus_tensor x, int32_t dtype, gradus_tensor* out) {
  return unary("gradus_cast", x, out, [&](const Tensor& t) { return cast(t, dtype_at(dtype)); });
}
gradus_status gradus_clone(gradus_tensor x, gradus_tensor* out) {
  return unary("gradus_clone", x, out, [](const Tensor& t) { return clone(t); });
}
gradus_status gradus_copy(gradus_tensor to, gradus_tensor from) {
  return door("gradus_copy", [&] { copy_(tensor_of(to, "to"), tensor_of(from, "from")); });
}
