// Convolution with weights of its own. Pooling has none: it is an OpLayer.
#pragma once
#include "ops/nn/module.hpp"
#include "ops/conv/windows.hpp"

namespace gradus::inline v1::nn {

struct ConvOptions {
  int64_t axes = 2;  // spatial ones: 1 or 2
  int64_t in_channels = 1, out_channels = 1;
  Ints kernel_size{1};  // one number serves for all axes, here and below
  Ints stride{1}, padding{0}, dilation{1};
  int64_t groups = 1;
  bool bias = true;
  bool transposed = false;
  Ints output_padding{0};  // transposed only
};

// conv1d, conv2d, conv_transpose1d, conv_transpose2d: (n, in_channels, spatial...) -> (n,
// out_channels, spatial...). weight is (out, in / groups, kernel...), transposed (in, out / groups,
// kernel...); both parameters by uniform_parameter, fan_in being the product of weight's sizes
// after the first.
class Conv : public Module {
 public:
  explicit Conv(ConvOptions options, DType dtype = DType::f32, Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override;
  void collect(const std::string& prefix, NamedTensors& out) const override;

  Tensor weight, bias;  // bias is undefined if the layer has none

 private:
  ConvOptions options_;
};

}  // namespace gradus::nn
