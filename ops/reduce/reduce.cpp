// Reductions. Primitives: sum, amax, amin, argmax, cumsum. The others are made of ops, so their
// derivatives come by themselves, to any order.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "engine/graph.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace {

const OpInfo *sum_info, *amax_info, *amin_info, *argmax_info, *argmin_info, *cumsum_info;

// Attributes of the reduction primitives: axes (sorted, never negative), keepdim.
Ints axes_of(const Attrs& a) {
  return a[0].type == AttrValue::Type::integer ? Ints{a[0].integer} : a[0].integers;
}
bool keepdim_of(const Attrs& a) { return a[1].integer != 0; }

// Runs the slot into a fresh tensor; the kernel sees reduced axes with size 1.
Tensor reduce(const Tensor& x, gd_reduction kind, const Attrs& attrs, DType out,
              int64_t axis = -1) {
  const Ints axes = axes_of(attrs);
  const Shape kept = reduced_shape(x.sizes(), axes, true);
  Tensor y = Tensor::empty(keepdim_of(attrs) ? kept : reduced_shape(x.sizes(), axes, false), out,
                           x.device());
  if (y.numel() == 0) return y;
  KernelCall call(GD_REDUCE, kind);
  call.in(x);
  if (axis >= 0) call.integer(axis);
  call.out(y, kept, contiguous_strides(kept)).run();
  return y;
}
// g of a reduction's output, as a view that broadcasts over the input.
Tensor with_axes(const GradFn& node, const Tensor& g) {
  return reshape(g, reduced_shape(node.input_metas()[0].sizes, node.attrs()[0].integers, true));
}

Tensor sum_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return expand(with_axes(node, g[0]), node.input_metas()[0].sizes);
}
Tensor sum_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return sum(t[0], node.attr(0).integers, keepdim_of(node.attrs()));
}

// 16-bit floats count and divide in f32: a count above 65504 would be infinite.
DType wide(DType t) { return is_half(t) ? DType::f32 : t; }

// The winners' weights: 1 / (number of winners) on each, 0 elsewhere. PyTorch's even split.
Tensor winners(GradFn& node) {
  const Tensor x = node.input(0);
  const Tensor hit = cast(eq(x, with_axes(node, node.output(0))), wide(x.dtype()));
  return div(hit, sum(hit, node.attr(0).integers, true));
}
Tensor extremum_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return cast(mul(winners(node), with_axes(node, g[0])), g[0].dtype());
}
Tensor extremum_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return cast(sum(mul(winners(node), t[0]), node.attr(0).integers, keepdim_of(node.attrs())),
              t[0].dtype());
}

template <gd_reduction kind>
void extremum_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  for (int64_t a : axes_of(ctx.attrs))
    if (x.sizes()[size_t(a)] == 0)
      fail(ErrorKind::shape, ctx.op.name, "axis ", a, " of ", x.sizes(),
           " is empty and has no extremum");
  if (is_complex(x.dtype())) refuse_unordered(ctx.op.name, x.dtype());
  ctx.outputs.push_back(reduce(x, kind, ctx.attrs, x.dtype()));
  ctx.save_input(0);
  ctx.save_output(0);
}

OpInfo reduction(std::string name, std::string doc, std::string formula) {
  OpInfo o = new_op(std::move(name), "reduction", std::move(doc), std::move(formula), {{"x"}},
                    {dims_attr(), keepdim_attr()});
  o.cost = [](const OpContext& ctx) {
    return Cost{double(ctx.inputs[0].numel()),
                double(ctx.inputs[0].bytes() + ctx.outputs[0].bytes())};
  };
  return o;
}

const Ints& dims_of(const AttrValue& a) { return a.integers; }
bool flag(const AttrValue& a) { return a.integer != 0; }

OpInfo sum_op() {
  OpInfo o = reduction("sum", "sum over axes; integers and bool add in i64", "y = sum_i x_i");
  o.forward = [](OpContext& ctx) {
    const Tensor& x = ctx.inputs[0];
    const DType out = is_integer(x.dtype()) ? DType::i64 : x.dtype();
    ctx.outputs.push_back(reduce(x, GD_SUM, ctx.attrs, out));
  };
  o.vjp = sum_vjp;
  o.jvp = sum_jvp;
  o.call = [](Operands in, const Attrs& a) { return sum(in[0], dims_of(a[0]), flag(a[1])); };
  return o;
}

template <gd_reduction kind>
OpInfo place_op(const char* name, const char* doc, const char* formula) {
  OpInfo o = reduction(name, doc, formula);
  o.attrs[0] = {
      "dim", AttrValue::Type::integer, {}, "axis; of the flattened tensor when left out", true};
  o.differentiable = false;
  o.forward = [](OpContext& ctx) {
    const Tensor& x = ctx.inputs[0];
    if (is_complex(x.dtype())) refuse_unordered(ctx.op.name, x.dtype());
    const int64_t axis = axes_of(ctx.attrs)[0];
    if (x.sizes()[size_t(axis)] == 0)
      fail(ErrorKind::shape, ctx.op.name, "axis ", axis, " of ", x.sizes(), " is empty");
    ctx.outputs.push_back(reduce(x, kind, ctx.attrs, DType::i64, axis));
  };
  o.call = [](Operands in, const Attrs& a) {
    constexpr bool largest = kind == GD_ARGMAX;
    if (!a[0].is_none())
      return largest ? argmax(in[0], a[0].integer, flag(a[1]))
                     : argmin(in[0], a[0].integer, flag(a[1]));
    const Tensor y = largest ? argmax(in[0]) : argmin(in[0]);
    return flag(a[1]) ? reshape(y, Shape(in[0].sizes().size(), 1)) : y;
  };
  return o;
}

// Attribute `reverse` is ours: the vjp of a cumulative sum runs from the end.
OpInfo cumsum_op() {
  OpInfo o = reduction("cumsum", "running sum along an axis", "y_i = sum_{j <= i} x_j");
  o.attrs = {int_attr("dim", 0, "axis"),
             {"reverse", AttrValue::Type::boolean, false, "run from the end"}};
  o.forward = [](OpContext& ctx) {
    const Tensor& x = ctx.inputs[0];
    Tensor y = Tensor::empty(x.sizes(), x.dtype(), x.device());
    if (y.numel() > 0)
      KernelCall(GD_SCAN, GD_SUM)
          .in(x)
          .integer(ctx.attrs[0].integer)
          .integer(ctx.attrs[1].integer)
          .out(y)
          .run();
    ctx.outputs.push_back(y);
  };
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return apply1(*cumsum_info, {g[0]}, {node.attr(0), !flag(node.attr(1))});
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return apply1(*cumsum_info, {t[0]}, node.attrs());
  };
  o.call = [](Operands in, const Attrs& a) {
    const Tensor x = is_integer(in[0].dtype()) ? cast(in[0], DType::i64) : in[0];
    const int64_t dim = normal_axis("cumsum", a[0].integer, std::max<int64_t>(x.rank(), 1));
    return x.rank() == 0 ? x : apply1(*cumsum_info, {x}, {dim, a[1]});
  };
  return o;
}

void register_compositions() {
  auto add = [](std::string name, std::string doc, std::string formula, std::vector<AttrSpec> attrs,
                OpCall call) {
    add_composition(std::move(name), "reduction", std::move(doc), std::move(formula), {{"x"}},
                    std::move(attrs), std::move(call));
  };
  add("mean", "mean over axes", "y = sum_i x_i / n", {dims_attr(), keepdim_attr()},
      [](Operands in, const Attrs& a) { return mean(in[0], dims_of(a[0]), flag(a[1])); });
  add("prod", "product over axes, by halving", "y = prod_i x_i", {dims_attr(), keepdim_attr()},
      [](Operands in, const Attrs& a) { return prod(in[0], dims_of(a[0]), flag(a[1])); });
  const std::vector<AttrSpec> spread = {
      dims_attr(), number_attr("correction", 1, "n - correction in the denominator"),
      keepdim_attr()};
  add("var", "variance over axes", "y = sum_i (x_i - mean)^2 / (n - correction)", spread,
      [](Operands in, const Attrs& a) {
        return var(in[0], dims_of(a[0]), a[1].number, flag(a[2]));
      });
  add("std", "standard deviation over axes", "y = sqrt(var(x))", spread,
      [](Operands in, const Attrs& a) {
        return std(in[0], dims_of(a[0]), a[1].number, flag(a[2]));
      });
  add("logsumexp", "log of the sum of exponentials, without overflow", "y = log(sum_i exp(x_i))",
      {ints_attr("dim", "axes"), keepdim_attr()},
      [](Operands in, const Attrs& a) { return logsumexp(in[0], dims_of(a[0]), flag(a[1])); });
  add_composition("sum_to", "reduction", "sum to a smaller shape: undoes broadcasting", "y = sum x",
                  {{"x"}}, {ints_attr("size", "a shape that broadcasts to x's")},
                  [](Operands in, const Attrs& a) { return sum_to(in[0], a[0].integers); });
}

int64_t count(const Tensor& x, const Ints& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= x.sizes()[size_t(a)];
  return n;
}
void need_floating(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) refuse_dtype(op, x.dtype(), def::kReal | def::kComplex);
}
Tensor over(const OpInfo& op, const Tensor& x, const Ints& dims, bool keepdim) {
  const Ints axes = normal_axes(op.name.c_str(), dims, x.rank());
  return apply1(op, {x}, {axes, keepdim});
}

}  // namespace

void register_reductions() {
  sum_info = &add_op(sum_op());
  OpInfo o = reduction("amax", "largest value over axes; NaN wins", "y = max_i x_i");
  o.forward = extremum_forward<GD_MAX>;
  o.vjp = extremum_vjp;
  o.jvp = extremum_jvp;
  o.call = [](Operands in, const Attrs& a) { return amax(in[0], dims_of(a[0]), flag(a[1])); };
  amax_info = &add_op(o);
  o.name = "amin";
  o.doc = "smallest value over axes; NaN wins";
  o.formula = "y = min_i x_i";
  o.forward = extremum_forward<GD_MIN>;
  o.call = [](Operands in, const Attrs& a) { return amin(in[0], dims_of(a[0]), flag(a[1])); };
  amin_info = &add_op(std::move(o));
  argmax_info = &add_op(
      place_op<GD_ARGMAX>("argmax", "where the largest value stands (the first one; NaN wins)",
                          "y = first i with x_i = max x"));
  argmin_info = &add_op(
      place_op<GD_ARGMIN>("argmin", "where the smallest value stands (the first one; NaN wins)",
                          "y = first i with x_i = min x"));
  cumsum_info = &add_op(cumsum_op());
  register_compositions();
}

Tensor sum(const Tensor& x, const Ints& dims, bool keepdim) {
  return over(*sum_info, x, dims, keepdim);
}
Tensor amax(const Tensor& x, const Ints& dims, bool keepdim) {
  return over(*amax_info, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Ints& dims, bool keepdim) {
  return over(*amin_info, x, dims, keepdim);
}

namespace {
Tensor place(const OpInfo& op, const Tensor& x, int64_t dim, bool keepdim) {
  const int64_t axis = normal_axis(op.name.c_str(), dim, std::max<int64_t>(1, x.rank()));
  return apply1(op, {x.rank() == 0 ? reshape(x, {1}) : x}, {axis, keepdim && x.rank() > 0});
}
}  // namespace
Tensor argmax(const Tensor& x) { return place(*argmax_info, reshape(x, {x.numel()}), 0, false); }
Tensor argmin(const Tensor& x) { return place(*argmin_info, reshape(x, {x.numel()}), 0, false); }
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim) {
  return place(*argmax_info, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim) {
  return place(*argmin_info, x, dim, keepdim);
}

Tensor cumsum(const Tensor& x, int64_t dim) {
  return cumsum_info->call(Tensors{x}, {dim, false})[0];
}

Tensor mean(const Tensor& x, const Ints& dims, bool keepdim) {
  need_floating("mean", x);
  const double n = double(count(x, normal_axes("mean", dims, x.rank())));
  return cast(div(sum(cast(x, wide(x.dtype())), dims, keepdim), n), x.dtype());
}

// Halves the axis until one element is left: exact derivatives with zeros in x too, at linear cost.
Tensor prod(const Tensor& x, const Ints& dims, bool keepdim) {
  Tensor y = is_integer(x.dtype()) ? cast(x, DType::i64) : x;
  const Ints axes = normal_axes("prod", dims, x.rank());
  for (int64_t axis : axes) {
    int64_t n = y.sizes()[size_t(axis)];
    if (n == 0) y = add(sum(y, {axis}, true), 1);  // of nothing: ones, with x's history
    for (; n > 1; n = n / 2 + n % 2) {
      const Tensor halves = mul(slice(y, axis, 0, n / 2), slice(y, axis, n / 2, n / 2 * 2));
      y = n % 2 ? cat({halves, slice(y, axis, n - 1, n)}, axis) : halves;
    }
  }
  return keepdim ? y : reshape(y, reduced_shape(x.sizes(), axes, false));
}

Tensor var(const Tensor& x, const Ints& dims, double correction, bool keepdim) {
  need_floating("var", x);
  const Tensor wide_x = cast(x, wide(x.dtype()));
  const Tensor from_mean = sub(wide_x, mean(wide_x, dims, true));
  const Tensor squares = is_complex(x.dtype()) ? square(abs(from_mean)) : square(from_mean);
  const double n = double(count(x, normal_axes("var", dims, x.rank())));
  return cast(div(sum(squares, dims, keepdim), std::max(0.0, n - correction)),
              real_dtype(x.dtype()));
}
Tensor std(const Tensor& x, const Ints& dims, double correction, bool keepdim) {
  // At variance 0 the slope of the root is infinite; there the gradient is 0, as in PyTorch.
  const Tensor v = var(x, dims, correction, keepdim), zero = eq(v, 0.0);
  return where(zero, 0.0, sqrt(where(zero, 1.0, v)));
}

Tensor logsumexp(const Tensor& any, const Ints& dims, bool keepdim) {
  const Tensor x = is_integer(any.dtype()) ? cast(any, DType::f32) : any;
  if (numel_of(x.sizes()) == 0) return log(sum(exp(x), dims, keepdim));
  // Any shift gives the same value and derivative; the maximum avoids overflow. Where it is
  // infinite, 0.
  Tensor shift;
  {
    NoGrad off;
    const Tensor m = amax(is_complex(x.dtype()) ? real(x.detach()) : x.detach(), dims, true);
    shift = where(lt(abs(m), std::numeric_limits<double>::infinity()), m, 0.0);
  }
  const Tensor y = add(log(sum(exp(sub(x, shift)), dims, true)), shift);
  return keepdim ? y
                 : reshape(y, reduced_shape(x.sizes(), normal_axes("logsumexp", dims, x.rank()),
                                            false));
}

Tensor sum_to(const Tensor& x, const Shape& sizes) {
  if (x.sizes() == sizes) return x;
  if (!broadcasts_to(sizes, x.sizes()))
    fail(ErrorKind::shape, "sum_to", sizes, " does not broadcast to ", x.sizes());
  const size_t lead = x.sizes().size() - sizes.size();
  Ints axes;
  for (size_t i = 0; i < x.sizes().size(); ++i)
    if (i < lead || (sizes[i - lead] == 1 && x.sizes()[i] != 1)) axes.push_back(int64_t(i));
  return axes.empty() ? reshape(x, sizes) : reshape(sum(x, axes, true), sizes);
}

}  // namespace gradus
