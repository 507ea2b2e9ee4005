// Random tensors: Philox numbers of the thread's generator. Seed and position give the number, so
// every device and every replay gives the same bits. Nothing here has a derivative.
#include "engine/kernel_call.hpp"
#include "engine/random.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/ints.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/random/sampling.hpp"
#include "ops/shape/memory.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace {

// Attributes of all: size, the distribution's numbers, dtype. The device is the default one.
const OpInfo *uniform_info, *normal_info, *bernoulli_info;

template <gd_random kind>
void forward(OpContext& ctx) {
  const Shape& size = ctx.attrs[0].integers;
  const DType dtype = ctx.attrs.back().dtype();
  Device& device = default_device();
  if (!is_real_float(dtype) && !(kind == GD_BERNOULLI && !is_complex(dtype)))
    refuse_dtype(ctx.op.name, dtype, def::kReal, "", "draw in f32, then cast");
  Tensor y = Tensor::empty(size, dtype, device);
  const Generator::Draw draw = default_generator().take(y.numel(), device);
  if (y.numel() > 0) {
    KernelCall call(GD_RANDOM, kind);
    call.in(draw.state).integer(draw.relative);
    for (const AttrValue& a : ctx.attrs)
      if (a.type == AttrValue::Type::number) call.number(a.number);
    call.out(y).run();
  }
  ctx.outputs.push_back(y);
}

OpInfo random_op(std::string name, std::string doc, std::string formula,
                 std::vector<AttrSpec> numbers) {
  OpInfo o = new_op(std::move(name), "random", std::move(doc), std::move(formula), {},
                    {ints_attr("size", "shape of the result")});
  o.differentiable = false;
  o.attrs.insert(o.attrs.end(), numbers.begin(), numbers.end());
  o.attrs.push_back({"dtype", AttrValue::Type::dtype, DType::f32, "f32, f64, f16 or bf16"});
  return o;
}

Tensor draw(const OpInfo& op, Device& device, const Attrs& attrs) {
  DeviceScope here(device);
  return apply1(op, std::span<const Tensor>(), attrs);
}

using Dropout = Tensor (*)(const Tensor&, double, bool);
template <Dropout f>
void register_dropout(const char* name, const char* doc, const char* formula) {
  add_composition(
      name, "random", doc, formula, {{"x"}},
      {number_attr("p", 0.5, "of a zero"),
       {"training", AttrValue::Type::boolean, true, "else y = x"}},
      [](Operands in, const Attrs& a) { return f(in[0], a[0].number, a[1].integer != 0); });
}

void check_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::value, op, "p is ", p, ", expected 0 to 1");
}

// x times 0 with probability p, else 1 / (1 - p); one draw for each element of `drawn`.
Tensor drop(const Tensor& x, const Shape& drawn, double p) {
  if (p == 1) return mul(x, 0.0);
  const Tensor keep = bernoulli(drawn, 1 - p, real_dtype(x.dtype()), x.device());
  return mul(x, mul(keep, 1 / (1 - p)));
}

}  // namespace

void register_random() {
  OpInfo o = random_op("uniform", "numbers between low (included) and high", "y ~ U[low, high)",
                       {number_attr("low", 0, "lower end"), number_attr("high", 1, "upper end")});
  o.forward = forward<GD_UNIFORM>;
  o.call = [](Operands, const Attrs& a) {
    return uniform(a[0].integers, a[1].number, a[2].number, a[3].dtype());
  };
  uniform_info = &add_op(std::move(o));
  o = random_op("normal", "normally distributed numbers", "y ~ N(mean, std^2)",
                {number_attr("mean", 0, "mean"), number_attr("std", 1, "standard deviation")});
  o.forward = forward<GD_NORMAL>;
  o.call = [](Operands, const Attrs& a) {
    return normal(a[0].integers, a[1].number, a[2].number, a[3].dtype());
  };
  normal_info = &add_op(std::move(o));
  o = random_op("bernoulli", "1 with probability p, else 0", "y = [u < p]",
                {number_attr("p", 0.5, "of a 1")});
  o.forward = forward<GD_BERNOULLI>;
  o.call = [](Operands, const Attrs& a) {
    return bernoulli(a[0].integers, a[1].number, a[2].dtype());
  };
  bernoulli_info = &add_op(std::move(o));
  register_dropout<dropout>(
      "dropout", "zeroes elements with probability p and scales the others by 1 / (1 - p)",
      "y = x * bernoulli(1 - p) / (1 - p)");
  register_dropout<feature_dropout>("feature_dropout", "dropout of whole channels (axis 1)",
                                    "y[n, c] = x[n, c] * bernoulli(1 - p)[n, c] / (1 - p)");
  register_dropout<alpha_dropout>("alpha_dropout",
                                  "dropout to selu's lower limit that keeps mean 0 and variance 1",
                                  "y = a (x if bernoulli(1 - p) else -1.758...) + b");
}

Tensor uniform(const Shape& size, double low, double high, DType dtype, Device& device) {
  if (!(low <= high))
    fail(ErrorKind::value, "uniform", "low is ", low, ", high ", high, "; expected low <= high");
  return draw(*uniform_info, device, {Ints(size), low, high, dtype});
}
Tensor normal(const Shape& size, double mean, double std, DType dtype, Device& device) {
  if (!(std >= 0)) fail(ErrorKind::value, "normal", "std is ", std, ", expected 0 or more");
  return draw(*normal_info, device, {Ints(size), mean, std, dtype});
}
namespace {
template <auto Draw>
Tensor drawn(const Shape& size, double second, DType dtype, Device& device) {
  if (!is_complex(dtype)) return Draw(size, 0, second, dtype, device);
  const DType part = dtype == DType::c128 ? DType::f64 : DType::f32;
  const Tensor real = Draw(size, 0, second, part, device);
  return complex(real, Draw(size, 0, second, part, device));
}
}  // namespace

Tensor rand(const Shape& size, DType dtype, Device& device) {
  return drawn<uniform>(size, 1, dtype, device);
}
Tensor randn(const Shape& size, DType dtype, Device& device) {
  return drawn<normal>(size, is_complex(dtype) ? std::sqrt(0.5) : 1, dtype, device);
}
Tensor bernoulli(const Shape& size, double p, DType dtype, Device& device) {
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::value, "bernoulli", "p is ", p, ", expected 0 to 1");
  return draw(*bernoulli_info, device, {Ints(size), p, dtype});
}

Tensor dropout(const Tensor& x, double p, bool training) {
  check_probability("dropout", p);
  return !training || p == 0 ? x : drop(x, x.sizes(), p);
}

Tensor feature_dropout(const Tensor& x, double p, bool training) {
  check_probability("feature_dropout", p);
  if (x.rank() < 2)
    fail(ErrorKind::shape, "feature_dropout", "x has shape ", x.sizes(),
         ", expected (n, channels, ...)");
  Shape drawn = x.sizes();
  for (size_t i = 2; i < drawn.size(); ++i) drawn[i] = 1;
  return !training || p == 0 ? x : drop(x, drawn, p);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  check_probability("alpha_dropout", p);
  if (!is_real_float(x.dtype())) refuse_dtype("alpha_dropout", x.dtype(), def::kReal);
  if (!training || p == 0) return x;
  if (p == 1) return mul(x, 0.0);
  const double low = -1.7580993408473766, a = 1 / std::sqrt((low * low * p + 1) * (1 - p));
  const Tensor keep = bernoulli(x.sizes(), 1 - p, DType::bool_, x.device());
  return add(mul(where(keep, x, low), a), -a * low * p);
}

}  // namespace gradus
