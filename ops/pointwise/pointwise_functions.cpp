// The pointwise ops that take more than their statement's parameters, or refuse some of them.
#include "ops/base/dtypes.hpp"
#include "ops/pointwise/pointwise_calls.hpp"

#include <cmath>
#include <limits>

namespace gradus::inline v1 {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return call<def::where>({condition, a, b});
}
Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? call<def::conj>({x}) : x; }
Tensor real(const Tensor& x) { return is_complex(x.dtype()) ? call<def::real>({x}) : x; }

Tensor celu(const Tensor& x, double alpha) {
  if (alpha == 0) fail(ErrorKind::value, "celu", "alpha is 0, by which x is divided");
  return call<def::celu>({x}, {alpha});
}
Tensor clamp(const Tensor& x, double min, double max) { return call<def::clamp>({x}, {min, max}); }
Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  if (!(min_val <= max_val))
    fail(ErrorKind::value, "hardtanh", "min_val is ", min_val, ", max_val ", max_val,
         "; expected min_val <= max_val");
  return call<def::hardtanh>({x}, {min_val, max_val});
}
Tensor softshrink(const Tensor& x, double lambd) {
  if (!(lambd >= 0))
    fail(ErrorKind::value, "softshrink", "lambd is ", lambd, ", expected 0 or more");
  return call<def::softshrink>({x}, {lambd});
}
Tensor threshold(const Tensor& x, double threshold, double value) {
  for (double number : {threshold, value}) check_holds("threshold", x.dtype(), number);
  return call<def::threshold>({x}, {threshold, value});
}

Tensor polygamma(const Tensor& n, const Tensor& x) {
  if (!n.is_number()) fail(ErrorKind::value, "polygamma", "n is a number, not a tensor");
  const double order = n.body()->number.value;
  if (!(order >= 0) || order != std::trunc(order))
    fail(ErrorKind::value, "polygamma", "n is ", order, "; expected 0, 1, 2, ...");
  return call<def::polygamma>({x}, {order});
}

Tensor gelu(const Tensor& x, const char* approximate) {
  const std::string_view form = approximate;
  if (form == "tanh") return call<def::gelu_tanh>({x});
  if (form != "none")
    fail(ErrorKind::value, "gelu", "approximate is \"", form, "\"; expected none or tanh");
  return call<def::gelu>({x}, {"none"});
}

// What is left out is the largest number of the dtype.
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  const DType dtype = result_dtype({&x, 1});
  if (is_integer(dtype)) return x;
  const double largest = dtype == DType::f16    ? 65504.0
                         : dtype == DType::bf16 ? 0x1.fep127
                         : dtype == DType::f32  ? double(std::numeric_limits<float>::max())
                                                : std::numeric_limits<double>::max();
  return call<def::nan_to_num>({x}, {nan, posinf.value_or(largest), neginf.value_or(-largest)});
}

void register_pointwise_forms() {
  const auto op_of = [](const char* name) -> OpInfo& { return const_cast<OpInfo&>(get_op(name)); };
  op_of("gelu").attrs.push_back({"approximate", AttrValue::Type::text, "none", "none or tanh"});
  op_of("gelu").call = [](Operands in, const Attrs& a) { return gelu(in[0], a[0].text); };
  op_of("polygamma").call = [](Operands in, const Attrs& a) {
    return polygamma(a[0].number, in[0]);
  };
  op_of("celu").call = [](Operands in, const Attrs& a) { return celu(in[0], a[0].number); };
  op_of("softshrink").call = [](Operands in, const Attrs& a) {
    return softshrink(in[0], a[0].number);
  };
  op_of("hardtanh").call = [](Operands in, const Attrs& a) {
    return hardtanh(in[0], a[0].number, a[1].number);
  };
  op_of("threshold").call = [](Operands in, const Attrs& a) {
    return threshold(in[0], a[0].number, a[1].number);
  };
  OpInfo& finite = op_of("nan_to_num");
  for (size_t k : {1, 2})
    finite.attrs[k] = {finite.attrs[k].name,
                       AttrValue::Type::number,
                       {},
                       "the largest number of the dtype if left out",
                       true};
  finite.call = [](Operands in, const Attrs& a) {
    const auto given = [](const AttrValue& v) {
      return v.is_none() ? std::optional<double>() : v.number;
    };
    return nan_to_num(in[0], a[0].number, given(a[1]), given(a[2]));
  };
}

}  // namespace gradus
