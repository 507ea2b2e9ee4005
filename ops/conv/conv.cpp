// Convolution. Three primitives, bilinear and closed under differentiation: the derivatives of each
// are the other two.
//   conv         y[n, g, o, s] = sum_{c, k}  x[n, g, c, s * stride + k * dilation] * w[g, o, c, k]
//   conv_weight  w[g, o, c, k] = sum_{n, s}  x[..] * y[..]
//   conv_input   x[n, g, c, i] = sum_{o, s, k: s * stride + k * dilation = i}  y[..] * w[..]
// s, k and i have one component per spatial axis. The first two are one contraction over strided
// views each; the third is one per phase (residue of i modulo the stride), in which it is a
// convolution of padded y with the flipped kernel. Nothing is ever unrolled into a buffer. Padding
// and bias are ops of their own.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/conv/spatial.hpp"
#include "ops/conv/windows.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"

#include <algorithm>
#include <numeric>

namespace gradus::inline v1 {

namespace {

const OpInfo *conv_info, *conv_input_info, *conv_weight_info;

// The joint index space: batch, group, output and input channel, then the spatial positions, then
// the places in the kernel.
enum Label { kBatch, kGroup, kOut, kIn, kSpatial };

struct Space {
  size_t axes;
  Shape sizes;
  size_t at(size_t axis) const { return kSpatial + axis; }
  size_t kernel(size_t axis) const { return kSpatial + axes + axis; }
};
Space space_of(size_t axes, int64_t batch, int64_t groups, int64_t out, int64_t in, const Shape& at,
               const Shape& kernel) {
  Space s{axes, {batch, groups, out, in}};
  for (const Shape* part : {&at, &kernel})
    for (size_t a = 0; a < axes; ++a) s.sizes.push_back((*part)[a]);
  return s;
}
// Strides of an operand over the space, 0 where it lacks a label.
Shape strides_over(const Space& s) { return Shape(s.sizes.size(), 0); }

Shape spatial(const Shape& sizes) { return Shape(sizes.begin() + 2, sizes.end()); }

// An operand that repeats elements is copied: to the contract kernel an axis of stride 0 is one
// that the operand lacks.
Tensor distinct(const Tensor& x) {
  for (size_t i = 0; i < x.sizes().size(); ++i)
    if (x.strides()[i] == 0 && x.sizes()[i] > 1) {
      NoGrad off;
      return contiguous(x.detach());
    }
  return x;
}

// The strides of x, y and w over the space, as the formulas at the top say.
Shape input_strides(const Space& s, const Tensor& x, const Ints& stride, const Ints& dilation) {
  Shape st = strides_over(s);
  st[kBatch] = x.strides()[0];
  st[kGroup] = x.strides()[1] * s.sizes[kIn];
  st[kIn] = x.strides()[1];
  for (size_t a = 0; a < s.axes; ++a) {
    st[s.at(a)] = x.strides()[2 + a] * stride[a];
    st[s.kernel(a)] = x.strides()[2 + a] * dilation[a];
  }
  return st;
}
Shape output_strides(const Space& s, const Tensor& y) {
  Shape st = strides_over(s);
  st[kBatch] = y.strides()[0];
  st[kGroup] = y.strides()[1] * s.sizes[kOut];
  st[kOut] = y.strides()[1];
  for (size_t a = 0; a < s.axes; ++a) st[s.at(a)] = y.strides()[2 + a];
  return st;
}
Shape weight_strides(const Space& s, const Tensor& w) {
  Shape st = strides_over(s);
  st[kGroup] = w.strides()[0] * s.sizes[kOut];
  st[kOut] = w.strides()[0];
  st[kIn] = w.strides()[1];
  for (size_t a = 0; a < s.axes; ++a) st[s.kernel(a)] = w.strides()[2 + a];
  return st;
}

struct StridedOperand {
  Tensor t;
  Shape strides;
  int64_t offset;
};
StridedOperand over(const Tensor& t, const Shape& strides) { return {t, strides, t.offset()}; }

// c = sum of a * b over the labels that are not among the first `n_out` of `order`.
void contract_over(const Space& s, const Ints& order, size_t n_out, const StridedOperand& a,
                   const StridedOperand& b, const StridedOperand& c) {
  auto view = [&](const StridedOperand& x, size_t n) {
    Shape sizes, strides;
    for (size_t i = 0; i < n; ++i) {
      sizes.push_back(s.sizes[size_t(order[i])]);
      strides.push_back(x.strides[size_t(order[i])]);
    }
    return x.t.alias(sizes, strides, x.offset);
  };
  const Tensor va = view(a, order.size()), vb = view(b, order.size()), vc = view(c, n_out);
  if (vc.numel() == 0) return;
  KernelCall(GD_CONTRACT)
      .in(va)
      .in(vb)
      .integer(int64_t(n_out))
      .integer(GD_STANDARD)
      .integer(0)
      .integer(0)
      .number(1)
      .number(0)
      .number(0)
      .number(0)
      .out(vc)
      .run();
}

Ints order_of(const Space& s, std::initializer_list<int64_t> first, bool at,
              std::initializer_list<int64_t> then) {
  Ints order(first);
  for (size_t a = 0; a < s.axes; ++a) order.push_back(int64_t(at ? s.at(a) : s.kernel(a)));
  for (int64_t l : then) order.push_back(l);
  for (size_t a = 0; a < s.axes; ++a) order.push_back(int64_t(at ? s.kernel(a) : s.at(a)));
  return order;
}

// ---- conv: attributes stride, dilation, groups

void conv_forward(OpContext& ctx) {
  const Tensor x = distinct(ctx.inputs[0]), w = distinct(ctx.inputs[1]);
  const Ints &stride = ctx.attrs[0].integers, &dilation = ctx.attrs[1].integers;
  const int64_t groups = ctx.attrs[2].integer;
  Shape sizes{x.size(0), w.size(0)};
  for (size_t a = 0; a < stride.size(); ++a)
    sizes.push_back(windows_in(x.sizes()[2 + a], w.sizes()[2 + a], stride[a], dilation[a]));
  Tensor y = Tensor::empty(sizes, x.dtype(), x.device());
  const Space s = space_of(stride.size(), x.size(0), groups, w.size(0) / groups, w.size(1),
                           spatial(sizes), spatial(w.sizes()));
  contract_over(s, order_of(s, {kBatch, kGroup, kOut}, true, {kIn}), 3 + s.axes,
                over(x, input_strides(s, x, stride, dilation)), over(w, weight_strides(s, w)),
                over(y, output_strides(s, y)));
  ctx.outputs.push_back(y);
  if (ctx.needs(0)) ctx.save_input(1);
  if (ctx.needs(1)) ctx.save_input(0);
}

// ---- conv_weight: attributes size, stride, dilation, groups

void conv_weight_forward(OpContext& ctx) {
  const Tensor x = distinct(ctx.inputs[0]), y = distinct(ctx.inputs[1]);
  const Ints &size = ctx.attrs[0].integers, &stride = ctx.attrs[1].integers,
             &dilation = ctx.attrs[2].integers;
  const int64_t groups = ctx.attrs[3].integer;
  Shape sizes{y.size(1), x.size(1) / groups};
  for (int64_t k : size) sizes.push_back(k);
  Tensor w = Tensor::empty(sizes, x.dtype(), x.device());
  const Space s = space_of(stride.size(), x.size(0), groups, y.size(1) / groups, sizes[1],
                           spatial(y.sizes()), spatial(sizes));
  contract_over(s, order_of(s, {kGroup, kOut, kIn}, false, {kBatch}), 3 + s.axes,
                over(x, input_strides(s, x, stride, dilation)), over(y, output_strides(s, y)),
                over(w, weight_strides(s, w)));
  ctx.outputs.push_back(w);
  if (ctx.needs(0)) ctx.save_input(1);
  if (ctx.needs(1)) ctx.save_input(0);
}

// ---- conv_input: attributes size, stride, dilation, groups

// One residue of one axis: elements i = first + t * stride of x, t < count, are the sums over
// j < places of y[start + t - j * step] * w[kernel + j * kernel_step].
struct Phase {
  int64_t first, count, places, start, step, kernel, kernel_step;
};
std::vector<Phase> phases_of(int64_t n, int64_t kernel, int64_t stride, int64_t dilation) {
  std::vector<Phase> phases;
  const int64_t common = std::gcd(stride, dilation), kernel_step = stride / common;
  for (int64_t r = 0; r < std::min(stride, n); ++r) {
    Phase p{r, (n - r - 1) / stride + 1, 0, 0, dilation / common, 0, kernel_step};
    for (int64_t k = 0; k < std::min(kernel, kernel_step); ++k)
      if (k * dilation % stride == r) {
        p.kernel = k;
        p.places = (kernel - k - 1) / kernel_step + 1;
        p.start = (r - k * dilation) / stride;
      }
    phases.push_back(p);
  }
  return phases;
}

void conv_input_forward(OpContext& ctx) {
  Tensor y = distinct(ctx.inputs[0]);
  const Tensor w = distinct(ctx.inputs[1]);
  const Ints &size = ctx.attrs[0].integers, &stride = ctx.attrs[1].integers,
             &dilation = ctx.attrs[2].integers;
  const int64_t groups = ctx.attrs[3].integer;
  const size_t axes = size.size();
  std::vector<std::vector<Phase>> phases;
  Ints pads;  // what the phases reach beyond y, the last axis first
  bool gaps = false;
  for (size_t a = 0; a < axes; ++a)
    phases.push_back(phases_of(size[a], w.sizes()[2 + a], stride[a], dilation[a]));
  for (size_t a = axes; a-- > 0;) {
    int64_t before = 0, after = 0;
    for (const Phase& p : phases[a]) {
      gaps |= p.places == 0;
      if (p.places == 0) continue;
      before = std::max(before, (p.places - 1) * p.step - p.start);
      after = std::max(after, p.start + p.count - y.sizes()[2 + a]);
    }
    pads.push_back(before);
    pads.push_back(after);
  }
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p > 0; })) {
    NoGrad off;
    y = pad(y.detach(), pads);
  }
  Shape sizes{y.size(0), w.size(1) * groups};
  for (int64_t n : size) sizes.push_back(n);
  Tensor x = gaps ? Tensor::zeros(sizes, y.dtype(), y.device())
                  : Tensor::empty(sizes, y.dtype(), y.device());

  std::vector<size_t> at(axes, 0);  // one phase per axis
  for (;;) {
    Shape counts, places;
    for (size_t a = 0; a < axes; ++a) {
      counts.push_back(phases[a][at[a]].count);
      places.push_back(phases[a][at[a]].places);
    }
    if (numel_of(places) > 0) {
      const Space s =
          space_of(axes, y.size(0), groups, w.size(0) / groups, w.size(1), counts, places);
      StridedOperand vy = over(y, output_strides(s, y)), vw = over(w, weight_strides(s, w)),
                     vx = over(x, input_strides(s, x, stride, dilation));
      for (size_t a = 0; a < axes; ++a) {
        const Phase& p = phases[a][at[a]];
        const int64_t before = pads[2 * (axes - 1 - a)], along = y.strides()[2 + a];
        vy.offset += (before + p.start) * along;
        vy.strides[s.kernel(a)] = -p.step * along;
        vw.offset += p.kernel * w.strides()[2 + a];
        vw.strides[s.kernel(a)] *= p.kernel_step;
        vx.offset += p.first * x.strides()[2 + a];
      }
      contract_over(s, order_of(s, {kBatch, kGroup, kIn}, true, {kOut}), 3 + axes, vy, vw, vx);
    }
    size_t a = axes;
    while (a-- > 0 && ++at[a] == phases[a].size()) at[a] = 0;
    if (a == size_t(-1)) break;
  }
  ctx.outputs.push_back(x);
  if (ctx.needs(0)) ctx.save_input(1);
  if (ctx.needs(1)) ctx.save_input(0);
}

// ---- derivatives. Letters: the operand that a cotangent stands for.

Tensor conv(const Tensor& x, const Tensor& w, const Ints& stride, const Ints& dilation,
            int64_t groups) {
  return apply1(*conv_info, {x, w}, {stride, dilation, groups});
}
Tensor conv_input(const Tensor& y, const Tensor& w, const Ints& size, const Ints& stride,
                  const Ints& dilation, int64_t groups) {
  return apply1(*conv_input_info, {y, w}, {size, stride, dilation, groups});
}
Tensor conv_weight(const Tensor& x, const Tensor& y, const Ints& size, const Ints& stride,
                   const Ints& dilation, int64_t groups) {
  return apply1(*conv_weight_info, {x, y}, {size, stride, dilation, groups});
}
Ints spatial_of(const GradFn& node, size_t k) { return spatial(node.input_metas()[k].sizes); }

Tensor conv_vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  const Ints &stride = node.attr(0).integers, &dilation = node.attr(1).integers;
  const int64_t groups = node.attr(2).integer;
  return k == 0
             ? conv_input(g[0], conj(node.input(1)), spatial_of(node, 0), stride, dilation, groups)
             : conv_weight(conj(node.input(0)), g[0], spatial_of(node, 1), stride, dilation,
                           groups);
}
Tensor conv_input_vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  const Ints &stride = node.attr(1).integers, &dilation = node.attr(2).integers;
  const int64_t groups = node.attr(3).integer;
  return k == 0 ? conv(g[0], conj(node.input(1)), stride, dilation, groups)
                : conv_weight(g[0], conj(node.input(0)), spatial_of(node, 1), stride, dilation,
                              groups);
}
Tensor conv_weight_vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  const Ints &stride = node.attr(1).integers, &dilation = node.attr(2).integers;
  const int64_t groups = node.attr(3).integer;
  return k == 0
             ? conv_input(conj(node.input(1)), g[0], spatial_of(node, 0), stride, dilation, groups)
             : conv(conj(node.input(0)), g[0], stride, dilation, groups);
}
Tensor bilinear_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  Tensor sum;
  for (size_t k = 0; k < 2; ++k) {
    if (!t[k].defined()) continue;
    const Tensor term = k == 0 ? apply1(node.op(), {t[0], node.input(1)}, node.attrs())
                               : apply1(node.op(), {node.input(0), t[1]}, node.attrs());
    sum = sum.defined() ? add(sum, term) : term;
  }
  return sum;
}

// Each element of y takes a product per element of a kernel slice w[o].
Cost cost_of(const OpContext& ctx, const Shape& y, const Shape& w) {
  double products = double(numel_of(y));
  for (size_t i = 1; i < w.size(); ++i) products *= double(w[i]);
  return {2 * products,
          double(ctx.inputs[0].bytes() + ctx.inputs[1].bytes() + ctx.outputs[0].bytes())};
}

// ---- from what people write to the primitives

struct Pair {
  Tensor a, b;
};
Pair promoted(const char* op, const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  const DType dtype = result_dtype(both);
  if (dtype == DType::bool_) refuse_dtype(op, dtype, def::kNumbers);
  return {cast(a, dtype), cast(b, dtype)};
}

void check_ranks(const char* op, const char* name_a, const Tensor& a, const char* name_b,
                 const Tensor& b) {
  if (a.rank() < 3 || a.rank() != b.rank())
    fail(ErrorKind::shape, op, name_a, " has shape ", a.sizes(), ", ", name_b, " ", b.sizes(),
         "; expected the same number of axes, 3 or more");
}
void check_groups(const char* op, int64_t groups, int64_t channels, const char* which) {
  if (groups < 1) fail(ErrorKind::value, op, "groups is ", groups, ", expected 1 or more");
  if (channels % groups != 0)
    fail(ErrorKind::shape, op, channels, " ", which, " channels do not divide into ", groups,
         " groups");
}
void check_channels(const char* op, int64_t channels, int64_t groups, const Shape& w, size_t axis) {
  if (channels != w[axis] * (axis == 1 ? groups : 1))
    fail(ErrorKind::shape, op, "the input has ", channels, " channels, but weight ", w,
         groups == 1
             ? join(" takes ", w[axis])
             : join(" with ", groups, " groups takes ", w[axis] * (axis == 1 ? groups : 1)));
}
// The windows of a kernel over size must be those that y has.
void check_windows(const char* op, const Ints& size, const Shape& kernel, const Shape& y,
                   const Ints& stride, const Ints& dilation) {
  for (size_t a = 0; a < size.size(); ++a) {
    const int64_t fit = kernel[a] < 1 ? 0 : windows_in(size[a], kernel[a], stride[a], dilation[a]);
    if (fit != y[a] || fit == 0)
      fail(ErrorKind::shape, op, "on spatial axis ", int64_t(a), " a kernel of ", kernel[a],
           " has ", fit, " places in ", size[a], " elements, the output has ", y[a]);
  }
}

Tensor conv_weight_door(const char* op, const Tensor& x, const Tensor& y, const Ints& sizes,
                        const Ints& strides, const Ints& dilations, int64_t groups) {
  check_ranks(op, "the input", x, "the output", y);
  const size_t axes = size_t(x.rank()) - 2;
  const Ints stride = per_axis(op, "stride", strides, axes, 1),
             dilation = per_axis(op, "dilation", dilations, axes, 1),
             size = per_axis(op, "size", sizes, axes, 1);
  check_groups(op, groups, x.size(1), "input");
  check_groups(op, groups, y.size(1), "output");
  if (x.size(0) != y.size(0))
    fail(ErrorKind::shape, op, "batch sizes differ: the input is ", x.sizes(), ", the output ",
         y.sizes());
  check_windows(op, spatial(x.sizes()), size, spatial(y.sizes()), stride, dilation);
  const Pair p = promoted(op, x, y);
  return conv_weight(p.a, p.b, size, stride, dilation, groups);
}

OpInfo bilinear(std::string name, std::string doc, std::string formula, const char* a,
                const char* b, std::vector<AttrSpec> attrs) {
  OpInfo o = new_op(std::move(name), "convolution", std::move(doc), std::move(formula), {{a}, {b}},
                    std::move(attrs));
  o.attrs.push_back(ints_attr("stride", Ints{1}, "from place to place of the kernel"));
  o.attrs.push_back(ints_attr("dilation", Ints{1}, "from element to element of the kernel"));
  o.attrs.push_back(int_attr("groups", 1, "blocks of channels that do not mix"));
  o.jvp = bilinear_jvp;
  return o;
}

}  // namespace

Tensor conv_door(const char* op, const Tensor& x, const Tensor& w, const Ints& strides,
                 const Ints& dilations, int64_t groups) {
  check_ranks(op, "the input", x, "weight", w);
  const size_t axes = size_t(x.rank()) - 2;
  const Ints stride = per_axis(op, "stride", strides, axes, 1),
             dilation = per_axis(op, "dilation", dilations, axes, 1);
  check_groups(op, groups, w.size(0), "output");
  check_channels(op, x.size(1), groups, w.sizes(), 1);
  for (size_t a = 0; a < axes; ++a) {
    const int64_t n = x.sizes()[2 + a], k = w.sizes()[2 + a];
    if (k < 1 || windows_in(n, k, stride[a], dilation[a]) == 0)
      fail(ErrorKind::shape, op, "on spatial axis ", int64_t(a), " the padded input has ", n,
           " elements, less than a kernel of ", k, " with dilation ", dilation[a]);
  }
  const Pair p = promoted(op, x, w);
  return conv(p.a, p.b, stride, dilation, groups);
}

Tensor conv_input_door(const char* op, const Tensor& y, const Tensor& w, const Ints& sizes,
                       const Ints& strides, const Ints& dilations, int64_t groups) {
  check_ranks(op, "the input", y, "weight", w);
  const size_t axes = size_t(y.rank()) - 2;
  const Ints stride = per_axis(op, "stride", strides, axes, 1),
             dilation = per_axis(op, "dilation", dilations, axes, 1),
             size = per_axis(op, "size", sizes, axes, 1);
  check_groups(op, groups, w.size(0), "input");
  check_channels(op, y.size(1), groups, w.sizes(), 0);
  check_windows(op, size, spatial(w.sizes()), spatial(y.sizes()), stride, dilation);
  const Pair p = promoted(op, y, w);
  return conv_input(p.a, p.b, size, stride, dilation, groups);
}

void register_conv_primitives() {
  OpInfo o = bilinear("conv", "convolution over all axes but the first two, without padding",
                      "y[n, o, s] = sum_ck x[n, c, s * stride + k * dilation] * weight[o, c, k]",
                      "input", "weight", {});
  o.forward = conv_forward;
  o.vjp = conv_vjp;
  o.cost = [](const OpContext& c) { return cost_of(c, c.outputs[0].sizes(), c.inputs[1].sizes()); };
  o.call = [](Operands in, const Attrs& a) {
    return conv_door("conv", in[0], in[1], a[0].integers, a[1].integers, a[2].integer);
  };
  conv_info = &add_op(std::move(o));

  o = bilinear(
      "conv_input", "the transpose of conv in its input: the transposed convolution",
      "x[n, c, i] = sum over s * stride + k * dilation = i of y[n, o, s] * weight[o, c, k]",
      "output", "weight", {ints_attr("size", "spatial sizes of the result")});
  o.forward = conv_input_forward;
  o.vjp = conv_input_vjp;
  o.cost = [](const OpContext& c) { return cost_of(c, c.inputs[0].sizes(), c.inputs[1].sizes()); };
  o.call = [](Operands in, const Attrs& a) {
    return conv_input_door("conv_input", in[0], in[1], a[0].integers, a[1].integers, a[2].integers,
                           a[3].integer);
  };
  conv_input_info = &add_op(std::move(o));

  o = bilinear("conv_weight", "the transpose of conv in its weight",
               "w[o, c, k] = sum_ns input[n, c, s * stride + k * dilation] * y[n, o, s]", "input",
               "output", {ints_attr("size", "spatial sizes of the kernel")});
  o.forward = conv_weight_forward;
  o.vjp = conv_weight_vjp;
  o.cost = [](const OpContext& c) { return cost_of(c, c.inputs[1].sizes(), c.outputs[0].sizes()); };
  o.call = [](Operands in, const Attrs& a) {
    return conv_weight_door("conv_weight", in[0], in[1], a[0].integers, a[1].integers,
                            a[2].integers, a[3].integer);
  };
  conv_weight_info = &add_op(std::move(o));
}

}  // namespace gradus
