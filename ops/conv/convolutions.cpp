// The convolutions that people write: conv1d .. conv3d and their transposes, made of conv,
// conv_input, pad and an addition.
#include "ops/base/registry.hpp"
#include "ops/conv/spatial.hpp"
#include "ops/conv/windows.hpp"
#include "ops/shape/join.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

// Widths of padding (before = after), as pad takes them.
Ints pad_widths(const Ints& padding, int64_t sign) {
  Ints widths;
  for (size_t a = padding.size(); a-- > 0;)
    for (int side = 0; side < 2; ++side) widths.push_back(sign * padding[a]);
  return widths;
}
bool any_of(const Ints& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t v) { return v != 0; });
}

Tensor with_bias(const char* op, const Tensor& y, const Tensor& bias, bool batched) {
  Tensor z = y;
  if (bias.defined()) {
    if (bias.rank() != 1 || bias.size(0) != y.size(1))
      fail(ErrorKind::shape, op, "the bias has shape ", bias.sizes(), ", the output ", y.size(1),
           " channels");
    Shape sizes(size_t(y.rank()) - 1, 1);
    sizes[0] = bias.size(0);
    z = add(y, reshape(bias, sizes));
  }
  return batched ? z : squeeze(z, {0});
}

Tensor convolve(const char* op, size_t axes, const Tensor& input, const Tensor& weight,
                const Tensor& bias, const Ints& stride, const Ints& paddings, const Ints& dilation,
                int64_t groups) {
  Tensor x = with_batch(op, input, axes);
  const Ints padding = per_axis(op, "padding", paddings, axes, 0);
  if (any_of(padding)) x = pad(x, pad_widths(padding, 1));
  return with_bias(op, conv_door(op, x, weight, stride, dilation, groups), bias,
                   input.rank() == x.rank());
}

Tensor convolve_transposed(const char* op, size_t axes, const Tensor& input, const Tensor& weight,
                           const Tensor& bias, const Ints& strides, const Ints& paddings,
                           const Ints& output_paddings, int64_t groups, const Ints& dilations) {
  const Tensor x = with_batch(op, input, axes);
  if (weight.rank() != x.rank())
    fail(ErrorKind::shape, op, "weight has shape ", weight.sizes(), ", expected ", x.rank(),
         " axes (in, out / groups, spatial...)");
  const Ints stride = per_axis(op, "stride", strides, axes, 1),
             dilation = per_axis(op, "dilation", dilations, axes, 1),
             padding = per_axis(op, "padding", paddings, axes, 0),
             more = per_axis(op, "output_padding", output_paddings, axes, 0);
  // The whole result has the elements that any input reaches. Output padding keeps what padding
  // would have cut at the end, and goes on with zeros where that is not enough.
  Ints size, widths;
  for (size_t a = 0; a < axes; ++a) {
    if (more[a] >= std::max(stride[a], dilation[a]))
      fail(ErrorKind::value, op, "output_padding is ", to_text(AttrValue(more)),
           ", expected less than stride or dilation");
    size.push_back((x.sizes()[2 + a] - 1) * stride[a] + dilation[a] * (weight.sizes()[2 + a] - 1) +
                   1);
    if (x.sizes()[2 + a] < 1 || weight.sizes()[2 + a] < 1 || size[a] - 2 * padding[a] + more[a] < 1)
      fail(ErrorKind::shape, op, "on spatial axis ", int64_t(a), " the output would have ",
           size[a] - 2 * padding[a] + more[a], " elements");
    widths.insert(0, more[a] - padding[a]);
    widths.insert(0, -padding[a]);
  }
  Tensor y = conv_input_door(op, x, weight, size, stride, dilation, groups);
  if (any_of(widths)) y = pad(y, widths);
  return with_bias(op, y, bias, input.rank() == x.rank());
}

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Ints&,
                               const Ints&, const Ints&, int64_t);
using Transposed = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Ints&, const Ints&,
                              const Ints&, int64_t, const Ints&);
std::vector<OperandSpec> conv_operands() {
  return {{"input"}, {"weight"}, {.name = "bias", .variadic = false, .optional = true}};
}

template <Convolution f>
void register_conv(const char* name, const char* doc) {
  add_composition(name, "convolution", doc,
                  "y[n, o, s] = bias[o] + sum_ck x[n, c, s * stride + k * dilation - padding] * "
                  "weight[o, c, k]",
                  conv_operands(),
                  {ints_attr("stride", Ints{1}, "from place to place of the kernel"),
                   ints_attr("padding", Ints{0}, "zeros on either side"),
                   ints_attr("dilation", Ints{1}, "from element to element of the kernel"),
                   int_attr("groups", 1, "blocks of channels that do not mix")},
                  [](Operands in, const Attrs& a) {
                    return f(in[0], in[1], operand(in, 2), a[0].integers, a[1].integers,
                             a[2].integers, a[3].integer);
                  });
}
template <Transposed f>
void register_transposed(const char* name, const char* doc) {
  add_composition(
      name, "convolution", doc,
      "y[n, c, i] = bias[c] + sum over s * stride + k * dilation - padding = i of x[n, o, s] * "
      "weight[o, c, k]",
      conv_operands(),
      {ints_attr("stride", Ints{1}, "from place to place of the kernel"),
       ints_attr("padding", Ints{0}, "cut on either side"),
       ints_attr("output_padding", Ints{0}, "more elements at the end"),
       int_attr("groups", 1, "blocks of channels that do not mix"),
       ints_attr("dilation", Ints{1}, "from element to element of the kernel")},
      [](Operands in, const Attrs& a) {
        return f(in[0], in[1], operand(in, 2), a[0].integers, a[1].integers, a[2].integers,
                 a[3].integer, a[4].integers);
      });
}

}  // namespace

void register_convolutions() {
  register_conv_primitives();
  register_conv<conv1d>("conv1d", "convolution over one spatial axis");
  register_conv<conv2d>("conv2d", "convolution over two spatial axes");
  register_conv<conv3d>("conv3d", "convolution over three spatial axes");
  register_transposed<conv_transpose1d>("conv_transpose1d",
                                        "transposed convolution over one spatial axis");
  register_transposed<conv_transpose2d>("conv_transpose2d",
                                        "transposed convolution over two spatial axes");
  register_transposed<conv_transpose3d>("conv_transpose3d",
                                        "transposed convolution over three spatial axes");
}

#define GRADUS_CONVOLUTIONS(n)                                                                     \
  Tensor conv##n##d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Ints& stride, \
                    const Ints& padding, const Ints& dilation, int64_t groups) {                   \
    return convolve("conv" #n "d", n, x, weight, bias, stride, padding, dilation, groups);         \
  }                                                                                                \
  Tensor conv_transpose##n##d(const Tensor& x, const Tensor& weight, const Tensor& bias,           \
                              const Ints& stride, const Ints& padding, const Ints& output_padding, \
                              int64_t groups, const Ints& dilation) {                              \
    return convolve_transposed("conv_transpose" #n "d", n, x, weight, bias, stride, padding,       \
                               output_padding, groups, dilation);                                  \
  }
GRADUS_CONVOLUTIONS(1)
GRADUS_CONVOLUTIONS(2)
GRADUS_CONVOLUTIONS(3)
#undef GRADUS_CONVOLUTIONS

}  // namespace gradus
