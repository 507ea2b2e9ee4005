// Convolution layers over ops/conv/windows.hpp.
#include "ops/nn/conv.hpp"

#include "ops/nn/layers.hpp"
#include "ops/shape/memory.hpp"
#include "ops/random/sampling.hpp"

namespace gradus::inline v1::nn {

Conv::Conv(ConvOptions options, DType dtype, Device& device) : options_(std::move(options)) {
  const ConvOptions& o = options_;
  const std::string op = kind();
  if (o.in_channels < 1 || o.out_channels < 1 || o.groups < 1 || o.in_channels % o.groups != 0 ||
      o.out_channels % o.groups != 0)
    fail(ErrorKind::value, op, "channels ", o.in_channels, " -> ", o.out_channels,
         " do not divide into ", o.groups, " groups");
  if (o.kernel_size.size() != 1 && int64_t(o.kernel_size.size()) != o.axes)
    fail(ErrorKind::value, op, "kernel_size is ", o.kernel_size, ", expected one number or ",
         o.axes);
  const int64_t first = o.transposed ? o.in_channels : o.out_channels,
                second = o.transposed ? o.out_channels : o.in_channels;
  Shape sizes{first, second / o.groups};
  int64_t fan_in = second / o.groups;
  for (int64_t axis = 0; axis < o.axes; ++axis) {
    sizes.push_back(o.kernel_size[o.kernel_size.size() == 1 ? 0 : size_t(axis)]);
    if (sizes.back() < 1)
      fail(ErrorKind::value, op, "kernel_size is ", o.kernel_size, ", expected 1 or more");
    fan_in *= sizes.back();
  }
  weight = uniform_parameter(sizes, fan_in, dtype, device);
  if (o.bias) bias = uniform_parameter({o.out_channels}, fan_in, dtype, device);
}

std::string Conv::kind() const {
  return join(options_.transposed ? "conv_transpose" : "conv", options_.axes, "d");
}

Tensor Conv::forward(const Tensor& x) {
  const ConvOptions& o = options_;
  if (x.rank() != o.axes + 2 || x.size(1) != o.in_channels)
    fail(ErrorKind::shape, kind(), place(), " takes ", o.in_channels, " channels and a batch of ",
         o.axes + 2, " axes, its input is ", x.sizes());
  if (o.transposed)
    return (o.axes == 1 ? conv_transpose1d : conv_transpose2d)(
        x, used(weight), used(bias), o.stride, o.padding, o.output_padding, o.groups, o.dilation);
  return (o.axes == 1 ? conv1d : conv2d)(x, used(weight), used(bias), o.stride, o.padding,
                                         o.dilation, o.groups);
}

void Conv::collect(const std::string& prefix, NamedTensors& out) const {
  out.emplace_back(prefix + "weight", weight);
  if (bias.defined()) out.emplace_back(prefix + "bias", bias);
}

}  // namespace gradus::nn
