// Sliding windows, a view whose elements overlap, and their transpose, fold. Each is the derivative
// of the other. And what convolution and pooling share.
#include "ops/conv/windows.hpp"

#include "engine/kernel_call.hpp"
#include "ops/base/registry.hpp"
#include "ops/conv/spatial.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

const OpInfo *window_info, *fold_info;

// Attributes of both: dim, the extent that the other one gives back (size or n), step, dilation.
enum { kDim, kExtent, kStep, kDilation };

Tensor window_raw(const Tensor& x, int64_t dim, int64_t size, const Attrs& like) {
  return apply1(*window_info, {x}, {dim, size, like[kStep], like[kDilation]});
}
Tensor fold_raw(const Tensor& x, int64_t dim, int64_t n, const Attrs& like) {
  return apply1(*fold_info, {x}, {dim, n, like[kStep], like[kDilation]});
}

void check_steps(const char* op, int64_t step, int64_t dilation) {
  if (step < 1) fail(ErrorKind::value, op, "step is ", step, ", expected 1 or more");
  if (dilation < 1) fail(ErrorKind::value, op, "dilation is ", dilation, ", expected 1 or more");
}

void window_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  const size_t d = size_t(ctx.attrs[kDim].integer);
  const int64_t size = ctx.attrs[kExtent].integer, step = ctx.attrs[kStep].integer,
                dilation = ctx.attrs[kDilation].integer;
  Shape sizes = x.sizes(), strides = x.strides();
  sizes[d] = windows_in(sizes[d], size, step, dilation);
  sizes.push_back(size);
  // Steps longer than the axis are never taken.
  const int64_t n = x.sizes()[d];
  strides.push_back(strides[d] * std::min(dilation, n));
  strides[d] *= std::min(step, n);
  ctx.outputs.push_back(x.alias(sizes, strides, x.offset()));
}

// One addition per place in the window: no two windows meet there, and the order of the sums is
// fixed.
void fold_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  const size_t d = size_t(ctx.attrs[kDim].integer);
  const int64_t step = ctx.attrs[kStep].integer, dilation = ctx.attrs[kDilation].integer;
  Shape sizes = x.sizes(), from_strides = x.strides();
  const int64_t places = sizes.back(), windows = sizes[d], place_stride = from_strides.back();
  sizes.pop_back();
  from_strides.pop_back();
  sizes[d] = ctx.attrs[kExtent].integer;
  const Tensor y = Tensor::zeros(sizes, x.dtype(), x.device());
  sizes[d] = windows;
  Shape strides = y.strides();
  const int64_t stride = strides[d];
  strides[d] *= std::min(step, ctx.attrs[kExtent].integer);
  for (int64_t k = 0; k < places && x.numel() > 0; ++k) {
    const Tensor from = x.alias(sizes, from_strides, x.offset() + k * place_stride),
                 to = y.alias(sizes, strides, k * dilation * stride);
    KernelCall(GD_POINTWISE, get_op("add").statement).in(to).in(from).out(to).run();
  }
  ctx.outputs.push_back(y);
}

OpInfo window_op() {
  OpInfo o = new_op("window", "view", "sliding windows along an axis, as a new last axis; a view",
                    "y[i, .., j] = x[i * step + j * dilation, ..]", {{"x"}},
                    {int_attr("dim", "axis"), int_attr("size", "elements of a window"),
                     int_attr("step", 1, "from window to window"),
                     int_attr("dilation", 1, "from element to element of a window")});
  o.is_view = true;
  o.forward = window_forward;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    const int64_t dim = node.attr(kDim).integer;
    return fold_raw(g[0], dim, node.input_metas()[0].sizes[size_t(dim)], node.attrs());
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return apply1(*window_info, {t[0]}, node.attrs());
  };
  o.call = [](Operands in, const Attrs& a) {
    return window(in[0], a[kDim].integer, a[kExtent].integer, a[kStep].integer,
                  a[kDilation].integer);
  };
  return o;
}

OpInfo fold_op() {
  OpInfo o = new_op(
      "fold", "window", "overlapping windows, the last axis, summed into an axis of n elements",
      "y[m, ..] = sum of x[i, .., j] with i * step + j * dilation = m", {{"x"}},
      {int_attr("dim", "axis of the windows"), int_attr("n", "its size in the result"),
       int_attr("step", 1, "from window to window"),
       int_attr("dilation", 1, "from element to element of a window")});
  o.forward = fold_forward;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return window_raw(g[0], node.attr(kDim).integer, node.input_metas()[0].sizes.back(),
                      node.attrs());
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return apply1(*fold_info, {t[0]}, node.attrs());
  };
  o.call = [](Operands in, const Attrs& a) {
    return fold(in[0], a[kDim].integer, a[kExtent].integer, a[kStep].integer, a[kDilation].integer);
  };
  return o;
}

}  // namespace

int64_t windows_in(int64_t n, int64_t size, int64_t step, int64_t dilation) {
  // n <= (size - 1) * dilation, without overflow
  if (size > 1 && dilation > (n - 1) / (size - 1)) return 0;
  return n < 1 ? 0 : (n - 1 - (size - 1) * dilation) / step + 1;
}

Ints per_axis(const char* op, const char* name, const Ints& value, size_t axes, int64_t least) {
  Ints each = value;
  if (each.size() == 1) each.resize(axes, value[0]);
  if (each.size() != axes)
    fail(ErrorKind::value, op, name, " is ", to_text(AttrValue(value)), ", expected 1 or ",
         int64_t(axes), " numbers");
  for (int64_t v : each)
    if (v < least)
      fail(ErrorKind::value, op, name, " is ", to_text(AttrValue(value)), ", expected ", least,
           " or more");
  for (int64_t v : each)
    if (v > INT32_MAX)
      fail(ErrorKind::value, op, name, " is ", to_text(AttrValue(value)), ", too large");
  return each;
}

Tensor with_batch(const char* op, const Tensor& x, size_t axes) {
  const int64_t full = int64_t(axes) + 2;
  if (x.rank() != full && x.rank() != full - 1)
    fail(ErrorKind::shape, op, "the input has shape ", x.sizes(), ", expected ", full, " axes (n, ",
         "channels, spatial...) or ", full - 1, " without n");
  return x.rank() == full ? x : unsqueeze(x, 0);
}

Tensor window(const Tensor& x, int64_t dim, int64_t size, int64_t step, int64_t dilation) {
  const int64_t d = normal_axis("window", dim, x.rank()), n = x.sizes()[size_t(d)];
  check_steps("window", step, dilation);
  if (size < 1) fail(ErrorKind::value, "window", "size is ", size, ", expected 1 or more");
  if (windows_in(n, size, step, dilation) == 0)
    fail(ErrorKind::shape, "window", "axis ", d, " of ", x.sizes(), " is shorter than a window (",
         size, " elements, dilation ", dilation, ")");
  return apply1(*window_info, {x}, {d, size, step, dilation});
}

Tensor unfold(const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
  return window(x, dimension, size, step);
}

Tensor fold(const Tensor& x, int64_t dim, int64_t n, int64_t step, int64_t dilation) {
  if (x.rank() < 2)
    fail(ErrorKind::shape, "fold", "the input has shape ", x.sizes(),
         ", expected an axis of windows and, as the last axis, their elements");
  const int64_t d = normal_axis("fold", dim, x.rank());
  check_steps("fold", step, dilation);
  if (d == x.rank() - 1)
    fail(ErrorKind::index, "fold", "axis ", d, " holds the elements of the windows");
  const int64_t fits = x.size(-1) < 1 ? 0 : windows_in(n, x.size(-1), step, dilation);
  if (fits != x.size(d))
    fail(ErrorKind::shape, "fold", "axis ", d, " of ", x.sizes(), " has ", x.size(d),
         " windows, but ", n, " elements have ", fits);
  return apply1(*fold_info, {x}, {d, n, step, dilation});
}

void register_windows() {
  window_info = &add_op(window_op());
  fold_info = &add_op(fold_op());
  add_composition("unfold", "view", "sliding windows along an axis, as a new last axis; a view",
                  "y[i, .., j] = x[i * step + j, ..]", {{"x"}},
                  {int_attr("dimension", "axis"), int_attr("size", "elements of a window"),
                   int_attr("step", "from window to window")},
                  [](Operands in, const Attrs& a) {
                    return unfold(in[0], a[0].integer, a[1].integer, a[2].integer);
                  });
  register_convolutions();
  register_pools();
}

}  // namespace gradus
