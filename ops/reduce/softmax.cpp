// softmax and log_softmax: one slot forward; the derivatives are ops of the saved output. And the
// activations that look at more than one element: softmin, glu, prelu.
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/loss/losses.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

namespace gradus::inline v1 {

namespace {

const OpInfo *softmax_info, *log_softmax_info;

template <bool logarithm>
void forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  Tensor y = Tensor::empty(x.sizes(), x.dtype(), x.device());
  if (y.numel() > 0)
    KernelCall(GD_SOFTMAX).in(x).integer(ctx.attrs[0].integer).integer(logarithm).out(y).run();
  ctx.outputs.push_back(y);
  ctx.save_output(0);
}

// The Jacobian diag(y) - y y^T is symmetric: vjp and jvp are one.
Tensor softmax_slope(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor y = node.output(0);
  return mul(y, sub(g[0], sum(mul(g[0], y), {node.attr(0).integer}, true)));
}
// y = x - logsumexp x, so dy = t - sum(softmax t), and the vjp is g - softmax sum(g).
Tensor log_softmax_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return sub(g[0], mul(exp(node.output(0)), sum(g[0], {node.attr(0).integer}, true)));
}
Tensor log_softmax_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return sub(t[0], sum(mul(exp(node.output(0)), t[0]), {node.attr(0).integer}, true));
}

OpInfo softmax_op(std::string name, std::string doc, std::string formula) {
  OpInfo o = new_op(std::move(name), "softmax", std::move(doc), std::move(formula), {{"x"}},
                    {int_attr("dim", "axis")});
  o.cost = [](const OpContext& ctx) {
    return Cost{5 * double(ctx.inputs[0].numel()), 2 * double(ctx.inputs[0].bytes())};
  };
  return o;
}

Tensor run(const OpInfo& op, const Tensor& x, int64_t dim) {
  if (!is_real_float(x.dtype())) refuse_dtype(op.name, x.dtype(), def::kReal);
  if (x.rank() == 0) return reshape(run(op, reshape(x, {1}), dim), {});
  return apply1(op, {x}, {normal_axis(op.name.c_str(), dim, x.rank())});
}

}  // namespace

void register_softmax() {
  OpInfo o = softmax_op("softmax", "exponentials that sum to 1 along an axis",
                        "y_i = exp(x_i) / sum_j exp(x_j)");
  o.forward = forward<false>;
  o.vjp = softmax_slope;
  o.jvp = softmax_slope;
  o.call = [](Operands in, const Attrs& a) { return softmax(in[0], a[0].integer); };
  softmax_info = &add_op(std::move(o));
  o = softmax_op("log_softmax", "logarithm of softmax, without overflow",
                 "y_i = x_i - log sum_j exp(x_j)");
  o.forward = forward<true>;
  o.vjp = log_softmax_vjp;
  o.jvp = log_softmax_jvp;
  o.call = [](Operands in, const Attrs& a) { return log_softmax(in[0], a[0].integer); };
  log_softmax_info = &add_op(std::move(o));
  add_composition("softmin", "softmax", "softmax of -x", "y_i = exp(-x_i) / sum_j exp(-x_j)",
                  {{"x"}}, {int_attr("dim", "axis")},
                  [](Operands in, const Attrs& a) { return softmin(in[0], a[0].integer); });
  add_composition("glu", "activation", "one half of an axis, gated by the other",
                  "y = a * sigmoid(b), x = (a, b)", {{"x"}}, {int_attr("dim", -1, "axis")},
                  [](Operands in, const Attrs& a) { return glu(in[0], a[0].integer); });
  add_composition("prelu", "activation", "x, and below 0 times a weight per channel (axis 1)",
                  "y = x if x > 0 else weight * x", {{"x"}, {"weight"}}, {},
                  [](Operands in, const Attrs&) { return prelu(in[0], in[1]); });
}

Tensor softmax(const Tensor& x, int64_t dim) { return run(*softmax_info, x, dim); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return run(*log_softmax_info, x, dim); }
Tensor softmin(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

Tensor glu(const Tensor& x, int64_t dim) {
  const int64_t axis = normal_axis("glu", dim, x.rank()), n = x.size(axis);
  if (n % 2 != 0)
    fail(ErrorKind::shape, "glu", "axis ", axis, " of ", x.sizes(), " does not fall into halves");
  return mul(slice(x, axis, 0, n / 2), sigmoid(slice(x, axis, n / 2, n)));
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const int64_t n = weight.numel(), channels = x.rank() > 1 ? x.size(1) : 1;
  if (weight.rank() > 1 || (n != 1 && n != channels))
    fail(ErrorKind::shape, "prelu", "the weight has shape ", weight.sizes(), ", x ", x.sizes(),
         "; expected one weight, or one per channel (axis 1)");
  Shape shape(size_t(x.rank()), 1);
  if (x.rank() > 1) shape[1] = n;
  const Tensor right = gt(x, 0.0), per_channel = reshape(weight, shape);
  // The branch not taken is 0: an infinite x would make the weight's gradient NaN.
  return where(right, x, mul(per_channel, where(right, 0.0, x)));
}

}  // namespace gradus
