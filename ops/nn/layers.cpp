// Layers over ops.hpp.
#include "ops/nn/layers.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/index/indexing.hpp"
#include "ops/base/ints.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/random/sampling.hpp"
#include "ops/shape/views.hpp"

#include <cmath>

namespace gradus::inline v1::nn {

Tensor uniform_parameter(const Shape& size, int64_t fan_in, DType dtype, Device& device) {
  const double bound = 1 / std::sqrt(double(fan_in));
  return uniform(size, -bound, bound, dtype, device).set_requires_grad();
}

Tensor constant_parameter(const Shape& size, double value, DType dtype, Device& device) {
  return Tensor::full(size, value, dtype, device).set_requires_grad();
}

Linear::Linear(int64_t in, int64_t out, bool with_bias, DType dtype, Device& device) {
  if (in < 1 || out < 1)
    fail(ErrorKind::value, "linear", "needs at least one feature on each side, got ", in, " -> ",
         out);
  weight = uniform_parameter({out, in}, in, dtype, device);
  if (with_bias) bias = uniform_parameter({out}, in, dtype, device);
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
  return contract(x, labels_x, used(weight), {x.rank(), x.rank() - 1}, labels_y, Algebra::standard,
                  used(bias));
}

void Linear::collect(const std::string& prefix, NamedTensors& out) const {
  out.emplace_back(prefix + "weight", weight);
  if (bias.defined()) out.emplace_back(prefix + "bias", bias);
}

bool OpLayer::accepts(const OpInfo& op) {
  return op.least_operands() == 1 && !op.operands[0].variadic && op.differentiable;
}

OpLayer::OpLayer(const std::string& name, Attrs attrs)
    : op_(get_op(name)), attrs_(std::move(attrs)) {
  if (!accepts(op_))
    fail(ErrorKind::value, name,
         "is no layer: a differentiable op that needs one operand is expected");
  if (attrs_.size() > op_.attrs.size())
    fail(ErrorKind::value, name, "has ", op_.attrs.size(), " attributes, got ", attrs_.size());
  attrs_ = op_.completed(std::move(attrs_));
  for (size_t i = 0; i < op_.attrs.size(); ++i) {
    const AttrSpec& spec = op_.attrs[i];
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

Tensor Unflatten::forward(const Tensor& x) {
  int64_t product = 1;
  for (const int64_t n : sizes_) product *= n;
  if (x.rank() < 2 || x.size(1) != product)
    fail(ErrorKind::shape, "unflatten", place(), " makes ", sizes_, " of ", product,
         " features, its input is ", x.sizes());
  Shape sizes{x.size(0)};
  for (const int64_t n : sizes_) sizes.push_back(n);
  for (int64_t axis = 2; axis < x.rank(); ++axis) sizes.push_back(x.size(axis));
  return reshape(x, sizes);
}

namespace {
Tensor table(const char* op, int64_t rows, int64_t dim, DType dtype, Device& device) {
  if (rows < 1 || dim < 1)
    fail(ErrorKind::value, op, "needs at least one row and one feature, got ", rows, " x ", dim);
  return normal({rows, dim}, 0, 1, dtype, device).set_requires_grad();
}
}  // namespace

Embedding::Embedding(int64_t count, int64_t dim, DType dtype, Device& device)
    : weight(table("embedding", count, dim, dtype, device)) {}

Tensor Embedding::forward(const Tensor& x) {
  if (!is_integer(x.dtype()))
    fail(ErrorKind::dtype, "embedding", place(), " takes integers, its input is ", x.dtype(), " ",
         x.sizes());
  return used(embedding(weight, x));
}

PositionalEmbedding::PositionalEmbedding(int64_t max_length, int64_t dim, DType dtype,
                                         Device& device)
    : weight(table("positional_embedding", max_length, dim, dtype, device)) {}

Tensor PositionalEmbedding::forward(const Tensor& x) {
  if (x.rank() < 2 || x.size(-1) != weight.size(1) || x.size(-2) > weight.size(0))
    fail(ErrorKind::shape, "positional_embedding", place(), " takes up to ", weight.size(0),
         " places of ", weight.size(1), " features, its input is ", x.sizes());
  return add(x, used(slice(weight, 0, 0, x.size(-2))));
}

}  // namespace gradus::nn
