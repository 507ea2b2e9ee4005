// Ops that put tensors side by side: cat, stack, pad.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

const OpInfo *cat_info, *pad_info;

// The part of y along an axis, without history.
Tensor part(const Tensor& y, size_t dim, int64_t start, int64_t length) {
  Shape sizes = y.sizes();
  sizes[dim] = length;
  return y.alias(sizes, y.strides(), y.offset() + start * y.strides()[dim]);
}
void write(const Tensor& x, const Tensor& to) {
  if (x.numel() > 0) KernelCall(GD_COPY).in(x).out(to).run();
}

void cat_forward(OpContext& ctx) {
  const size_t dim = size_t(ctx.attrs[0].integer);
  Shape sizes = ctx.inputs[0].sizes();
  sizes[dim] = 0;
  for (const Tensor& x : ctx.inputs) sizes[dim] += x.sizes()[dim];
  Tensor y = Tensor::empty(sizes, ctx.inputs[0].dtype(), ctx.inputs[0].device());
  int64_t at = 0;
  for (const Tensor& x : ctx.inputs) {
    write(x, part(y, dim, at, x.sizes()[dim]));
    at += x.sizes()[dim];
  }
  ctx.outputs.push_back(y);
}

Tensor cat_vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  const int64_t dim = node.attr(0).integer;
  int64_t start = 0;
  for (size_t i = 0; i < k; ++i) start += node.input_metas()[i].sizes[size_t(dim)];
  return slice(g[0], dim, start, start + node.input_metas()[k].sizes[size_t(dim)]);
}

Tensor cat_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  Tensors parts;
  for (size_t k = 0; k < t.size(); ++k) {
    const TensorMeta& m = node.input_metas()[k];
    parts.push_back(t[k].defined() ? t[k] : Tensor::zeros(m.sizes, m.dtype, *m.device));
  }
  return cat(parts, node.attr(0).integer);
}

// Widths in PyTorch's order, for all axes, as (before, after) per axis from the first.
Ints by_axis(const Ints& pad) {
  Ints pads;
  for (size_t i = pad.size(); i > 0; i -= 2) {
    pads.push_back(pad[i - 2]);
    pads.push_back(pad[i - 1]);
  }
  return pads;
}

// Negative widths cut.
void pad_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  const Ints pads = by_axis(ctx.attrs[0].integers);
  Shape sizes = x.sizes(), inner_sizes;
  int64_t from = x.offset(), to = 0;
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] += pads[2 * i] + pads[2 * i + 1];
  Tensor y = Tensor::full(sizes, ctx.attrs[1].number, x.dtype(), x.device());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t before = pads[2 * i], after = pads[2 * i + 1];
    inner_sizes.push_back(x.sizes()[i] + std::min<int64_t>(before, 0) +
                          std::min<int64_t>(after, 0));
    from += std::max<int64_t>(-before, 0) * x.strides()[i];
    to += std::max<int64_t>(before, 0) * y.strides()[i];
  }
  if (numel_of(inner_sizes) > 0)
    write(x.alias(inner_sizes, x.strides(), from), y.alias(inner_sizes, y.strides(), to));
  ctx.outputs.push_back(y);
}

Tensor pad_raw(const Tensor& x, const Ints& pads, double value) {
  return apply1(*pad_info, {x}, {pads, value});
}

OpInfo cat_op() {
  OpInfo o = new_op("cat", "join", "tensors joined along an axis", "y = [x0, x1, ...]",
                    {{"tensors", true}}, {int_attr("dim", 0, "axis")});
  o.forward = cat_forward;
  o.vjp = cat_vjp;
  o.jvp = cat_jvp;
  o.call = [](Operands in, const Attrs& a) { return cat(list(in), a[0].integer); };
  return o;
}

OpInfo pad_op() {
  OpInfo o = new_op("pad", "join", "a border of one value; negative widths cut",
                    "y = value around x", {{"x"}},
                    {ints_attr("pad", "last axis before, after, then the axis before it, ..."),
                     number_attr("value", 0, "of the border")});
  o.forward = pad_forward;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    Ints back;
    for (int64_t p : node.attr(0).integers) back.push_back(-p);
    return pad_raw(g[0], back, 0);
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return pad_raw(t[0], node.attr(0).integers, 0);
  };
  o.call = [](Operands in, const Attrs& a) { return pad(in[0], a[0].integers, a[1].number); };
  return o;
}

}  // namespace

void register_join() {
  cat_info = &add_op(cat_op());
  pad_info = &add_op(pad_op());
  add_composition("stack", "join", "tensors joined along a new axis", "y[k] = xk",
                  {{"tensors", true}}, {int_attr("dim", 0, "its place")},
                  [](Operands in, const Attrs& a) { return stack(list(in), a[0].integer); });
}

// A tensor of shape (0,) adds nothing to tensors of any rank, as in PyTorch, where it is what lists
// of parts begin with; its dtype counts.
Tensor cat(const Tensors& xs, int64_t dim) {
  if (xs.empty()) fail(ErrorKind::value, "cat", "no tensors were given");
  const auto nothing = [](const Tensor& x) { return x.sizes() == Shape{0}; };
  const size_t first = size_t(std::find_if_not(xs.begin(), xs.end(), nothing) - xs.begin());
  if (first == xs.size()) dim = 0;
  const Tensor& like = xs[first == xs.size() ? 0 : first];
  const int64_t d = normal_axis("cat", dim, like.rank());
  const DType dtype = result_dtype(xs);
  Tensors same;
  for (size_t k = 0; k < xs.size(); ++k) {
    if (nothing(xs[k]) && like.rank() != 1) continue;
    const Shape &a = like.sizes(), &b = xs[k].sizes();
    bool fits = a.size() == b.size();
    for (size_t i = 0; fits && i < a.size(); ++i) fits = int64_t(i) == d || a[i] == b[i];
    if (!fits)
      fail(ErrorKind::shape, "cat", "tensor ", int64_t(k), " has shape ", b, ", tensor ",
           int64_t(first), " ", a, "; they may differ on axis ", d, " only");
    same.push_back(cast(xs[k], dtype));
  }
  return apply1(*cat_info, same, {d});
}

Tensor stack(const Tensors& xs, int64_t dim) {
  if (xs.empty()) fail(ErrorKind::value, "stack", "no tensors were given");
  Tensors rows;
  for (size_t k = 0; k < xs.size(); ++k) {
    if (!(xs[k].sizes() == xs[0].sizes()))
      fail(ErrorKind::shape, "stack", "tensor ", int64_t(k), " has shape ", xs[k].sizes(),
           ", tensor 0 ", xs[0].sizes());
    rows.push_back(unsqueeze(xs[k], normal_axis("stack", dim, xs[0].rank() + 1)));
  }
  return cat(rows, normal_axis("stack", dim, xs[0].rank() + 1));
}

Tensor pad(const Tensor& x, const Ints& pad, double value) {
  if (pad.size() % 2 || int64_t(pad.size()) > 2 * x.rank())
    fail(ErrorKind::shape, "pad", "a tensor with ", x.rank(), " axes takes up to ", 2 * x.rank(),
         " widths in pairs, got ", int64_t(pad.size()));
  Ints pads = pad;
  pads.resize(size_t(2 * x.rank()), 0);
  for (size_t i = 0; i < pad.size(); i += 2) {
    const size_t axis = size_t(x.rank()) - 1 - i / 2;
    int64_t size = x.sizes()[axis];
    if (__builtin_add_overflow(size, pad[i], &size) ||
        __builtin_add_overflow(size, pad[i + 1], &size) || pad[i] == INT64_MIN ||
        pad[i + 1] == INT64_MIN)
      fail(ErrorKind::shape, "pad", "widths ", pad[i], " and ", pad[i + 1], " on axis ",
           int64_t(axis), " overflow");
    // What is cut from either end must be there.
    if (x.sizes()[axis] + std::min<int64_t>(pad[i], 0) + std::min<int64_t>(pad[i + 1], 0) < 0)
      fail(ErrorKind::shape, "pad", "cuts more than axis ", int64_t(axis), " of ", x.sizes(),
           " has");
  }
  check_holds("pad", x.dtype(), value);
  return pad_raw(x, pads, value);
}

}  // namespace gradus
