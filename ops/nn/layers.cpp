// Layers over ops.hpp.
#include "ops/nn/layers.hpp"

#include <cmath>

namespace gradus::nn {

namespace {
Tensor uniform_leaf(const Shape& size, int64_t in, DType dtype, Device& device) {
  const double bound = 1 / std::sqrt(double(in));
  return uniform(size, -bound, bound, dtype, device).set_requires_grad();
}
}  // namespace

Linear::Linear(int64_t in, int64_t out, bool with_bias, DType dtype, Device& device) {
  if (in < 1 || out < 1)
    fail(ErrorKind::value, "linear", "needs at least one feature on each side, got ", in, " -> ",
         out);
  weight = uniform_leaf({out, in}, in, dtype, device);
  if (with_bias) bias = uniform_leaf({out}, in, dtype, device);
}

Tensor Linear::forward(const Tensor& x) {
  if (x.rank() == 0)
    fail(ErrorKind::shape, "linear", place(), " takes ", in(),
         " features, its input is one number");
  if (x.size(-1) != in())
    fail(ErrorKind::shape, "linear", place(), " takes ", in(), " features, its input has ",
         x.size(-1),
         x.size(0) > 0 && x.numel() / x.size(0) == in() ? "; put a flatten before it" : "");
  // x W^T as one contraction over the features: the gradient of weight then comes out laid out as
  // weight is, where that of a transposed view would have to be copied.
  Ints labels_x, labels_y;
  for (int64_t axis = 0; axis < x.rank(); ++axis) labels_x.push_back(axis);
  labels_y = labels_x;
  labels_y.back() = x.rank();
  const Tensor y = contract(x, labels_x, weight, {x.rank(), x.rank() - 1}, labels_y);
  return bias.defined() ? add(y, bias) : y;
}

void Linear::collect(const std::string& prefix, NamedTensors& out) const {
  out.emplace_back(prefix + "weight", weight);
  if (bias.defined()) out.emplace_back(prefix + "bias", bias);
}

bool Activation::accepts(const OpInfo& op) {
  return op.group == "pointwise" && op.operands.size() == 1 && op.differentiable;
}

Activation::Activation(const std::string& name, Attrs attrs)
    : op_(get_op(name)), attrs_(std::move(attrs)) {
  if (!accepts(op_))
    fail(ErrorKind::value, name, "is no activation: a pointwise op of one operand is expected");
  if (attrs_.size() > op_.attrs.size())
    fail(ErrorKind::value, name, "has ", op_.attrs.size(), " attributes, got ", attrs_.size());
  for (size_t i = 0; i < op_.attrs.size(); ++i) {
    const AttrSpec& spec = op_.attrs[i];
    if (i == attrs_.size()) attrs_.push_back(spec.default_value);
    if (attrs_[i].is_none()) attrs_[i] = spec.default_value;
    if (attrs_[i].is_none() && !spec.optional)
      fail(ErrorKind::value, name, "the attribute ", spec.name, " must be given");
  }
}

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p < 1))
    fail(ErrorKind::value, "dropout", "p is ", p, ", expected a number from 0 to below 1");
}

Tensor Flatten::forward(const Tensor& x) {
  if (x.rank() < 1)
    fail(ErrorKind::shape, "flatten", place(), " needs a batch axis, got one number");
  int64_t features = 1;
  for (size_t i = 1; i < x.sizes().size(); ++i) features *= x.sizes()[i];
  return reshape(x, {x.size(0), features});
}

}  // namespace gradus::nn
