// The one way from a payload to the dense tensor, as an op: zeros, and the payload written along
// its axes' common diagonals. Its transpose reads these diagonals, as views.
#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "ops/base/registry.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/diagonal/structure.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

const OpInfo* to_dense_info;

Shape dense_sizes(const Shape& payload, const Ints& classes) {
  Shape sizes;
  for (const int64_t c : classes) sizes.push_back(payload[size_t(c)]);
  return sizes;
}

void forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  const Ints& classes = ctx.attrs[0].integers;
  const Shape sizes = dense_sizes(x.sizes(), classes), steps = contiguous_strides(sizes);
  Shape along(x.sizes().size(), 0);  // a step of a class is one of all its axes
  for (size_t axis = 0; axis < classes.size(); ++axis) along[size_t(classes[axis])] += steps[axis];
  const Tensor y = Tensor::zeros(sizes, x.dtype(), x.device());
  if (x.numel() > 0) KernelCall(GD_COPY).in(x).out(y.alias(x.sizes(), along, 0)).run();
  ctx.outputs.push_back(y);
}

Outputs batch(const BatchCall& call) {
  Ints classes{0};
  for (const int64_t c : call.attrs[0].integers) classes.push_back(c + 1);
  return apply(call.op, call.in, {classes});
}

}  // namespace

Tensor along_classes(const Tensor& dense, const Ints& classes) {
  Labels labels, order;
  for (const int64_t c : classes) {
    labels.push_back(c);
    while (int64_t(order.size()) <= c) order.push_back(int64_t(order.size()));
  }
  return einsum({dense}, {labels}, order);
}

Tensor to_dense(const Tensor& payload, const Ints& classes) {
  check_classes("to_dense", payload, classes);
  if (int64_t(classes.size()) == payload.rank()) return permute(payload, classes);
  return apply1(*to_dense_info, {payload}, {classes});
}

void register_to_dense() {
  OpInfo o = new_op(
      "to_dense", "view", "zeros, and x where the axes of a class have one index: x on diagonals",
      "y[i0, i1, ..] = x[k0, k1, ..] if every i_a = k_classes[a], else 0", {{"x"}},
      {ints_attr("classes", {}, "of each axis of y, which axis of x it runs along; none: y is x")});
  o.forward = forward;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return along_classes(g[0], node.attrs()[0].integers);
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return apply1(*to_dense_info, {t[0]}, node.attrs());
  };
  o.batch = batch;
  o.call = [](Operands in, const Attrs& a) -> Tensor {
    return a[0].integers.empty() ? in[0] : to_dense(in[0], a[0].integers);
  };
  to_dense_info = &add_op(std::move(o));
}

}  // namespace gradus
