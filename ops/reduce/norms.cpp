// Normalisation layers. All are one idea: x is brought to mean 0 and variance 1 over some axes,
// then scaled and shifted (standardize.cpp). Which axes, and whose mean, is all that tells them
// apart. 16-bit floats are computed in f32 and rounded once, at the end.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

void need_floating(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) refuse_dtype(op, x.dtype(), def::kReal | def::kComplex);
}
Tensor wide(const Tensor& x) { return cast(x, statistics_dtype(x.dtype())); }

// Seen in this shape, if it is there at all.
Tensor shaped(const Tensor& t, const Shape& shape) { return t.defined() ? reshape(t, shape) : t; }

void need_shape(const char* op, const char* name, const Tensor& t, const Shape& expected) {
  if (t.defined() && !(t.sizes() == expected))
    fail(ErrorKind::shape, op, name, " has shape ", t.sizes(), ", expected ", expected);
}

// The last axes of x, which must have these sizes.
Ints last_axes(const char* op, const Tensor& x, const Ints& shape) {
  const int64_t first = x.rank() - int64_t(shape.size());
  bool fits = first >= 0 && !shape.empty();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = x.sizes()[size_t(first) + i] == shape[i];
  if (!fits)
    fail(ErrorKind::shape, op, "x has shape ", x.sizes(), ", its last axes should be ",
         Shape(shape));
  Ints axes;
  for (int64_t a = first; a < x.rank(); ++a) axes.push_back(a);
  return axes;
}

int64_t channels_of(const char* op, const Tensor& x) {
  if (x.rank() < 2)
    fail(ErrorKind::shape, op, "x has shape ", x.sizes(), ", expected (n, channels, ...)");
  return x.size(1);
}
// (1, channels, 1, ...): as a tensor per channel broadcasts over x.
Shape per_channel(const Tensor& x) {
  Shape shape(size_t(x.rank()), 1);
  shape[1] = x.size(1);
  return shape;
}

Tensor by_groups(const char* op, const Tensor& x, int64_t groups, const Tensor& weight,
                 const Tensor& bias, double eps) {
  const int64_t channels = channels_of(op, x);
  if (groups < 1 || channels % groups != 0)
    fail(ErrorKind::value, op, channels, " channels do not fall into ", groups, " equal groups");
  need_shape(op, "weight", weight, {channels});
  need_shape(op, "bias", bias, {channels});
  Shape split = x.sizes();
  split[1] = channels / groups;
  split.insert(1, groups);
  Ints axes;
  for (int64_t a = 2; a <= x.rank(); ++a) axes.push_back(a);
  need_floating(op, x);
  Shape own(split.size(), 1);
  own[1] = split[1];
  own[2] = split[2];
  const Tensor y =
      standardize(reshape(x, split), axes, shaped(weight, own), shaped(bias, own), eps).y;
  return cast(reshape(y, x.sizes()), x.dtype());
}

// The output of batch_norm; in training also the batch's statistics.
Standardized batch_normed(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                          const Tensor& weight, const Tensor& bias, bool training, double eps) {
  const char* op = "batch_norm";
  const Shape channels{channels_of(op, x)}, shape = per_channel(x);
  need_shape(op, "running_mean", running_mean, channels);
  need_shape(op, "running_var", running_var, channels);
  need_shape(op, "weight", weight, channels);
  need_shape(op, "bias", bias, channels);
  need_floating(op, x);
  const Tensor w = shaped(weight, shape), b = shaped(bias, shape);
  Standardized s;
  if (training) {
    if (x.numel() == x.size(1) && x.numel() > 0)
      fail(ErrorKind::shape, op, "x has shape ", x.sizes(),
           ": one value per channel has no variance to train by");
    Ints axes{0};
    for (int64_t a = 2; a < x.rank(); ++a) axes.push_back(a);
    s = standardize(x, axes, w, b, eps);
  } else {
    if (!running_mean.defined() || !running_var.defined())
      fail(ErrorKind::value, op, "needs running_mean and running_var when it is not training");
    need_floating(op, running_var);
    const Tensor deviation = rsqrt(add(wide(running_var), eps));
    s.y = mul(sub(wide(x), reshape(running_mean, shape)), reshape(deviation, shape));
    if (w.defined()) s.y = mul(s.y, w);
    if (b.defined()) s.y = add(s.y, b);
  }
  s.y = cast(s.y, x.dtype());
  return s;
}

void move_towards(const Tensor& running, const Tensor& now, double momentum) {
  const Tensor target = reshape(now.detach(), running.sizes());
  copy_(running, add(mul(running, 1 - momentum), mul(target, momentum)));
}

// Made when they are asked for: ops may be listed before this file's constants are made.
OperandSpec x_operand() { return {"x"}; }
OperandSpec weight_operand() { return {"weight", false, true}; }
OperandSpec bias_operand() { return {"bias", false, true}; }
AttrSpec eps_attr(double value) { return number_attr("eps", value, "added to the variance"); }
AttrSpec shape_attr() { return ints_attr("normalized_shape", "sizes of the last axes"); }

}  // namespace

void register_norms() {
  auto add = [](std::string name, std::string doc, std::string formula,
                std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs, OpCall call) {
    add_composition(std::move(name), "norm", std::move(doc), std::move(formula),
                    std::move(operands), std::move(attrs), std::move(call));
  };
  const char* standard = "y = (x - mean) / sqrt(var + eps) * weight + bias";
  add("layer_norm", "mean 0 and variance 1 over the last axes", standard,
      {x_operand(), weight_operand(), bias_operand()}, {shape_attr(), eps_attr(1e-5)},
      [](Operands in, const Attrs& a) {
        return layer_norm(in[0], a[0].integers, operand(in, 1), operand(in, 2), a[1].number);
      });
  add("rms_norm", "mean square 1 over the last axes", "y = x / sqrt(mean(x^2) + eps) * weight",
      {x_operand(), weight_operand()},
      {shape_attr(), number_attr("eps", 1e-5, "added to the mean square")},
      [](Operands in, const Attrs& a) {
        return rms_norm(in[0], a[0].integers, operand(in, 1), a[1].number);
      });
  add("group_norm", "mean 0 and variance 1 over each group of channels of a sample", standard,
      {x_operand(), weight_operand(), bias_operand()},
      {int_attr("num_groups", "equal groups of neighbouring channels"), eps_attr(1e-5)},
      [](Operands in, const Attrs& a) {
        return group_norm(in[0], a[0].integer, operand(in, 1), operand(in, 2), a[1].number);
      });
  add("instance_norm", "mean 0 and variance 1 over each channel of a sample", standard,
      {x_operand(), weight_operand(), bias_operand()}, {eps_attr(1e-5)},
      [](Operands in, const Attrs& a) {
        return instance_norm(in[0], operand(in, 1), operand(in, 2), a[0].number);
      });
  add("batch_norm",
      "mean 0 and variance 1 over each channel of the batch when training, else by the running "
      "statistics, which are moved by the C++ function and not here",
      standard, {x_operand(), {"running_mean"}, {"running_var"}, weight_operand(), bias_operand()},
      {bool_attr("training", false, "use the batch's own statistics"),
       number_attr("momentum", 0.1, "share of the new statistics in the running ones"),
       eps_attr(1e-5)},
      [](Operands in, const Attrs& a) {
        return batch_normed(in[0], in[1], in[2], operand(in, 3), operand(in, 4), a[0].integer != 0,
                            a[2].number)
            .y;
      });
  add("local_response_norm", "damped by the squares of the neighbouring channels",
      "y = x / (k + alpha * mean of x^2 over size channels)^beta", {x_operand()},
      {int_attr("size", "channels in a neighbourhood"), number_attr("alpha", 1e-4, "of the mean"),
       number_attr("beta", 0.75, "exponent"), number_attr("k", 1, "added")},
      [](Operands in, const Attrs& a) {
        return local_response_norm(in[0], a[0].integer, a[1].number, a[2].number, a[3].number);
      });
}

Tensor layer_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const Ints axes = last_axes("layer_norm", x, normalized_shape);
  const Shape shape(normalized_shape);
  need_shape("layer_norm", "weight", weight, shape);
  need_shape("layer_norm", "bias", bias, shape);
  need_floating("layer_norm", x);
  return cast(standardize(x, axes, weight, bias, eps).y, x.dtype());
}

Tensor rms_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight, double eps) {
  const Ints axes = last_axes("rms_norm", x, normalized_shape);
  const Shape shape(normalized_shape);
  need_shape("rms_norm", "weight", weight, shape);
  need_floating("rms_norm", x);
  return cast(standardize(x, axes, weight, {}, eps, true).y, x.dtype());
}

Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return by_groups("group_norm", x, num_groups, weight, bias, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const int64_t channels = channels_of("instance_norm", x);
  if (x.rank() < 3)
    fail(ErrorKind::shape, "instance_norm", "x has shape ", x.sizes(),
         ", expected (n, channels, d, ...)");
  return by_groups("instance_norm", x, std::max<int64_t>(1, channels), weight, bias, eps);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  const Standardized s = batch_normed(x, running_mean, running_var, weight, bias, training, eps);
  if (training && x.numel() > 0) {
    const NoGrad off;
    const double n = double(x.numel() / x.size(1));
    if (running_mean.defined()) move_towards(running_mean, s.mean, momentum);
    if (running_var.defined())
      move_towards(running_var, mul(s.var.detach(), n / (n - 1)), momentum);
  }
  return s.y;
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k) {
  const int64_t channels = channels_of("local_response_norm", x);
  if (size < 1)
    fail(ErrorKind::value, "local_response_norm", "size is ", size, ", expected at least 1");
  need_floating("local_response_norm", x);
  const Tensor all = wide(x);
  // Zeros before the first channel and behind the last; then shifted views add up, as many as the
  // window is wide, as far as it meets channels.
  const int64_t before = std::min(size / 2, channels), after = std::min((size - 1) / 2, channels);
  Ints widths(2 * size_t(x.rank() - 1), 0);
  widths[widths.size() - 2] = before;
  widths[widths.size() - 1] = after;
  const Tensor padded =
      pad(is_complex(all.dtype()) ? real(mul(all, conj(all))) : square(all), widths);
  Tensor total = slice(padded, 1, 0, channels);
  for (int64_t i = 1; i <= before + after; ++i)
    total = add(total, slice(padded, 1, i, i + channels));
  const Tensor damping = add(mul(total, alpha / double(size)), k);
  return cast(mul(all, pow(damping, -beta)), x.dtype());
}

}  // namespace gradus
