// The bridge to xtensor: a CPU tensor as a strided xtensor view, and back, without a copy. xtensor
// is the host-side array of tests, oracles and tools. Costs seconds of compile time: include it in
// few files.
#pragma once
#include "engine/tensor.hpp"

#include <xtensor/xadapt.hpp>
#include <xtensor/xstrided_view.hpp>

namespace gradus::inline v1 {

// A view of t's elements; dtype must be T's and the device's memory must be the host's. Lives as
// long as t's storage. Writing through it is a write into t: call prepare_write(t, ...) first.
template <class T>
auto as_xtensor(const Tensor& t) {
  if (t.dtype() != dtype_of<T>)
    fail(ErrorKind::dtype, "as_xtensor", "the tensor is ", t.dtype(), ", asked for ", dtype_of<T>);
  if (!t.device().host_memory())
    fail(ErrorKind::device, "as_xtensor", "the memory of ", t.device().name(),
         " is not the host's");
  for (KernelWrapper* w : t.device().wrappers()) w->unseen("values are read on the host");
  if (streams_used) in_order(*t.storage().buffer(), false);
  // Adapt the whole storage in one dimension: xtensor checks lengths there and nowhere else.
  const size_t n = t.storage().bytes() / sizeof(T);
  auto flat = xt::adapt(static_cast<T*>(t.storage().data()), n, xt::no_ownership(),
                        std::array<size_t, 1>{n});
  xt::dynamic_shape<size_t> sizes(t.sizes().begin(), t.sizes().end());
  xt::dynamic_shape<std::ptrdiff_t> strides(t.strides().begin(), t.strides().end());
  return xt::strided_view(std::move(flat), std::move(sizes), std::move(strides), size_t(t.offset()),
                          xt::layout_type::dynamic);
}

// A tensor with the values of any xtensor expression.
template <class E>
Tensor from_xtensor(const E& expression, Device& device = default_device()) {
  using T = typename E::value_type;
  const xt::xarray<T, xt::layout_type::row_major> dense = expression;
  return Tensor::from_host(dense.data(), Shape(dense.shape().begin(), dense.shape().end()),
                           dtype_of<T>, device);
}

}  // namespace gradus
