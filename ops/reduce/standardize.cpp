// standardize: x brought to mean 0 and variance 1 over some axes, then scaled and shifted. The one
// primitive under all normalisation layers (norms.cpp). With h = (x - mean) rstd and n elements in
// a mean: y = h w + b, dy/dx^T g = rstd (g w - mean(g w) - h mean(g w h)). Mean and variance are
// outputs too, so that derivatives of every order can be told in terms of them.
#include "engine/forward.hpp"
#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"
#include "ops/shape/creation.hpp"
#include "ops/def/normalize.h"

namespace gradus::inline v1 {

namespace {

const OpInfo* standardize_info;
enum { kX, kWeight, kBias };       // operands
enum { kDim, kEps, kRms };         // attributes
enum { kY, kMean, kVar, kCount };  // outputs

Tensor wide(const Tensor& t) { return cast(t, statistics_dtype(t.dtype())); }
Tensor squared(const Tensor& x) {
  return is_complex(x.dtype()) ? real(mul(x, conj(x))) : square(x);
}
// Sums; an undefined one is 0.
Tensor plus(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : add(a, b);
}

void forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[kX];
  const Shape& sizes = x.sizes();
  const Shape kept = reduced_shape(sizes, ctx.attrs[kDim].integers, true);
  ctx.outputs.push_back(Tensor::empty(sizes, x.dtype(), x.device()));
  for (int k = kMean; k < kCount; ++k)
    ctx.outputs.push_back(Tensor::empty(kept, statistics_dtype(x.dtype()), x.device()));
  if (ctx.outputs[kMean].numel() > 0) {
    KernelCall call(GD_NORMALIZE, GD_NORM_VALUE);
    call.in(x);
    for (size_t k : {kWeight, kBias})
      k < ctx.inputs.size() && ctx.inputs[k].defined() ? call.in(ctx.inputs[k], sizes)
                                                       : call.in_none();
    call.number(ctx.attrs[kEps].number).integer(ctx.attrs[kRms].integer);
    for (const Tensor& y : ctx.outputs) call.out(y);
    call.run();
  }
  const bool weighted = ctx.inputs.size() > kWeight && ctx.inputs[kWeight].defined();
  if (ctx.needs(kX) || (weighted && ctx.needs(kWeight))) {
    ctx.save_input(kX);
    if (weighted && ctx.needs(kX)) ctx.save_input(kWeight);
    ctx.save_output(kMean);
    ctx.save_output(kVar);
  }
}

// What the derivatives are made of.
struct Parts {
  explicit Parts(GradFn& node)
      : dims(node.attr(kDim).integers),
        rms(node.attr(kRms).integer != 0),
        x(wide(node.input(kX))),
        centred(rms ? x : sub(x, node.output(kMean))),
        rstd(rsqrt(add(node.output(kVar), node.attr(kEps).number))),
        h(mul(centred, rstd)) {}
  Tensor averaged(const Tensor& t) const { return mean(t, dims, true); }
  // The derivative of h along t; it is symmetric, so it is its own transpose.
  Tensor along(const Tensor& t) const {
    const Tensor rest = sub(t, mul(h, averaged(mul(t, h))));
    return mul(rstd, rms ? rest : sub(rest, averaged(t)));
  }
  Ints dims;
  bool rms;
  Tensor x, centred, rstd, h;
};
bool has_weight(const GradFn& node) {
  return node.input_metas().size() > kWeight && node.input_metas()[kWeight].device;
}

// One pass of the kernel that is given the statistics. `scale` and `shift` may be undefined.
Tensor fused(GradFn& node, gd_normalization kind, const Tensor& scale, const Tensor& shift,
             DType out) {
  const Tensor x = node.input(kX), mean = node.output(kMean), var = node.output(kVar);
  const Tensor y = Tensor::empty(x.sizes(), out, x.device());
  if (y.numel() == 0) return y;
  KernelCall call(GD_NORMALIZE, kind);
  call.in(x);
  for (const Tensor* t : {&scale, &shift}) t->defined() ? call.in(*t, x.sizes()) : call.in_none();
  call.in(mean).in(var).number(node.attr(kEps).number).integer(node.attr(kRms).integer);
  call.out(y).run();
  return y;
}

Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  if (k == kBias) return g[kY];
  const bool may_fuse = !grad_enabled() && !forward_mode() && !any_batched(g);
  const TensorMeta& meta = node.input_metas()[k];
  if (k == kWeight) {
    if (!g[kY].defined()) return g[kY];
    const Tensor each = may_fuse
                            ? fused(node, GD_NORM_GIVEN, g[kY], {}, statistics_dtype(meta.dtype))
                            : mul(wide(g[kY]), Parts(node).h);
    return cast(sum_to(each, meta.sizes), meta.dtype);
  }
  const Tensor weight = has_weight(node) ? node.input(kWeight) : Tensor();
  if (may_fuse && g[kY].defined() && !g[kMean].defined() && !g[kVar].defined())
    return fused(node, GD_NORM_VJP, weight, g[kY], meta.dtype);
  const Parts p(node);
  Tensor out;
  if (g[kY].defined())
    out = p.along(weight.defined() ? mul(wide(g[kY]), wide(weight)) : wide(g[kY]));
  // mean = sum x / n, var = sum (x - mean)^2 / n.
  const double share = double(numel_of(node.output_metas()[kMean].sizes)) / double(p.x.numel());
  if (g[kMean].defined() && !p.rms) out = plus(out, expand(mul(g[kMean], share), meta.sizes));
  if (g[kVar].defined()) out = plus(out, mul(p.centred, mul(g[kVar], 2 * share)));
  return out.defined() ? cast(out, meta.dtype) : out;
}

Tensor jvp(GradFn& node, size_t output, std::span<const Tensor> t) {
  const DType dtype = node.output_metas()[output].dtype;
  const Tensor tx = t[kX].defined() ? wide(t[kX]) : Tensor();
  if (output != kY) {
    if (!tx.defined()) return tx;
    const Parts p(node);
    if (output == kVar) return mul(p.averaged(mul(p.centred, tx)), 2.0);
    return p.rms ? Tensor() : p.averaged(tx);
  }
  Tensor out;
  if (tx.defined()) {
    out = Parts(node).along(tx);
    if (has_weight(node)) out = mul(out, wide(node.input(kWeight)));
  }
  if (t.size() > kWeight && t[kWeight].defined())
    out = plus(out, mul(Parts(node).h, wide(t[kWeight])));
  if (t.size() > kBias && t[kBias].defined()) out = plus(out, wide(t[kBias]));
  return out.defined() ? cast(out, dtype) : out;
}

// The same of ops: complex numbers, and devices without the slot.
Standardized composed(const Tensor& x, const Ints& axes, const Tensor& weight, const Tensor& bias,
                      double eps, bool rms) {
  const Tensor all = wide(x);
  const Tensor m = rms ? Tensor() : mean(all, axes, true), centred = rms ? all : sub(all, m);
  const Tensor v = mean(squared(centred), axes, true);
  Tensor y = mul(centred, rsqrt(add(v, eps)));
  if (weight.defined()) y = mul(y, weight);
  if (bias.defined()) y = add(y, bias);
  return {cast(y, x.dtype()), rms ? cast(zeros_like(v), all.dtype()) : m, v};
}

// Seen with as many axes as x.
Tensor ready(const char* name, const Tensor& t, const Tensor& x, DType dtype) {
  if (!t.defined()) return t;
  if (!broadcasts_to(t.sizes(), x.sizes()))
    fail(ErrorKind::shape, "standardize", name, " has shape ", t.sizes(),
         ", which does not broadcast to x, ", x.sizes());
  Shape sizes(x.sizes().size(), 1);
  std::copy(t.sizes().begin(), t.sizes().end(), sizes.end() - t.rank());
  return cast(reshape(t, sizes), dtype);
}

}  // namespace

void register_standardize() {
  OpInfo o =
      new_op("standardize", "norm",
             "mean 0 and variance 1 over some axes; also the mean and the variance that x had",
             "y = (x - mean) / sqrt(var + eps) * weight + bias",
             {{"x"}, {"weight", false, true}, {"bias", false, true}},
             {dims_attr(), number_attr("eps", 1e-5, "added to the variance"),
              bool_attr("rms", false, "take the mean as 0")});
  o.forward = forward;
  o.vjp = vjp;
  o.jvp = jvp;
  o.cost = [](const OpContext& ctx) {
    return Cost{8 * double(ctx.inputs[kX].numel()), 2 * double(ctx.inputs[kX].bytes())};
  };
  o.call = [](Operands in, const Attrs& a) {
    const Standardized s = standardize(in[kX], a[kDim].integers, operand(in, kWeight),
                                       operand(in, kBias), a[kEps].number, a[kRms].integer != 0);
    return Tensors{s.y, s.mean, s.var};
  };
  standardize_info = &add_op(std::move(o));
}

Standardized standardize(const Tensor& x, const Ints& dims, const Tensor& weight,
                         const Tensor& bias, double eps, bool rms) {
  if (!is_floating(x.dtype())) refuse_dtype("standardize", x.dtype(), def::kReal | def::kComplex);
  if (!(eps >= 0)) fail(ErrorKind::value, "standardize", "eps is ", eps, ", expected 0 or more");
  if (x.rank() == 0) {
    const Standardized s = standardize(reshape(x, {1}), {0}, weight, bias, eps, rms);
    return {reshape(s.y, {}), reshape(s.mean, {}), reshape(s.var, {})};
  }
  SmallVector<Tensor, 3> known{x};
  for (const Tensor& t : {weight, bias})
    if (t.defined()) known.push_back(t);
  const DType dtype = result_dtype({known.data(), known.size()});
  const Ints axes = normal_axes("standardize", dims, x.rank());
  const Tensor w = ready("weight", weight, x, dtype), b = ready("bias", bias, x, dtype);
  if (is_complex(dtype) || !x.device().offers(GD_NORMALIZE))
    return composed(cast(x, dtype), axes, w, b, eps, rms);
  const Outputs out =
      b.defined()   ? apply(*standardize_info, Tensors{cast(x, dtype), w, b}, {axes, eps, rms})
      : w.defined() ? apply(*standardize_info, Tensors{cast(x, dtype), w}, {axes, eps, rms})
                    : apply(*standardize_info, Tensors{cast(x, dtype)}, {axes, eps, rms});
  return {out[kY], out[kMean], out[kVar]};
}

}  // namespace gradus
