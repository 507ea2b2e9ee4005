// Normalisation layers over ops/reduce/norms.hpp.
#include "ops/nn/normalization.hpp"

#include "ops/nn/layers.hpp"
#include "ops/base/ints.hpp"
#include "ops/shape/memory.hpp"
#include "ops/random/sampling.hpp"
#include "ops/reduce/norms.hpp"

namespace gradus::inline v1::nn {

namespace {

void check_channels(const Module& layer, const Tensor& x, int64_t channels) {
  if (x.rank() < 2 || x.size(1) != channels)
    fail(ErrorKind::shape, layer.kind(), layer.place(), " takes ", channels,
         " channels, its input is ", x.sizes());
}

void check_last(const Module& layer, const Tensor& x, const Ints& sizes) {
  const int64_t n = int64_t(sizes.size());
  bool fits = x.rank() >= n;
  for (int64_t i = 0; fits && i < n; ++i) fits = x.size(x.rank() - n + i) == sizes[size_t(i)];
  if (!fits)
    fail(ErrorKind::shape, layer.kind(), layer.place(), " takes ", sizes,
         " as last axes, its input is ", x.sizes());
}

}  // namespace

Affine::Affine(const Shape& sizes, bool with_weight, bool with_bias, DType dtype, Device& device) {
  for (const int64_t n : sizes)
    if (n < 1) fail(ErrorKind::value, "norm", "sizes are ", sizes, ", expected 1 or more");
  if (with_weight) weight = constant_parameter(sizes, 1, dtype, device);
  if (with_bias) bias = constant_parameter(sizes, 0, dtype, device);
}

void Affine::collect(const std::string& prefix, NamedTensors& out) const {
  if (weight.defined()) out.emplace_back(prefix + "weight", weight);
  if (bias.defined()) out.emplace_back(prefix + "bias", bias);
}

BatchNorm::BatchNorm(int64_t channels, double eps, double momentum, bool affine, DType dtype,
                     Device& device)
    : Affine({channels}, affine, affine, dtype, device),
      running_mean(Tensor::zeros({channels}, dtype, device)),
      running_var(Tensor::full({channels}, 1, dtype, device)),
      eps_(eps),
      momentum_(momentum) {}

Tensor BatchNorm::forward(const Tensor& x) {
  check_channels(*this, x, running_mean.size(0));
  return batch_norm(x, running_mean, running_var, weight, bias, training_, momentum_, eps_);
}

void BatchNorm::collect(const std::string& prefix, NamedTensors& out) const {
  Affine::collect(prefix, out);
  out.emplace_back(prefix + "running_mean", running_mean);
  out.emplace_back(prefix + "running_var", running_var);
}

LayerNorm::LayerNorm(Ints sizes, double eps, bool affine, bool with_bias, DType dtype,
                     Device& device)
    : Affine(sizes, affine, affine && with_bias, dtype, device),
      sizes_(std::move(sizes)),
      eps_(eps) {}

Tensor LayerNorm::forward(const Tensor& x) {
  check_last(*this, x, sizes_);
  return layer_norm(x, sizes_, weight, bias, eps_);
}

RmsNorm::RmsNorm(Ints sizes, double eps, bool affine, DType dtype, Device& device)
    : Affine(sizes, affine, false, dtype, device), sizes_(std::move(sizes)), eps_(eps) {}

Tensor RmsNorm::forward(const Tensor& x) {
  check_last(*this, x, sizes_);
  return rms_norm(x, sizes_, weight, eps_);
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, bool affine, DType dtype,
                     Device& device)
    : Affine({channels}, affine, affine, dtype, device),
      groups_(groups),
      channels_(channels),
      eps_(eps) {
  if (groups < 1 || channels % groups != 0)
    fail(ErrorKind::value, "group_norm", channels, " channels do not divide into ", groups,
         " groups");
}

Tensor GroupNorm::forward(const Tensor& x) {
  check_channels(*this, x, channels_);
  return group_norm(x, groups_, weight, bias, eps_);
}

}  // namespace gradus::nn
