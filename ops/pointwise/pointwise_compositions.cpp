// Pointwise ops made of pointwise ops.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"

namespace gradus::inline v1 {

Tensor sgn(const Tensor& x) { return sign(x); }

Tensor rsub(const Tensor& a, const Tensor& b, double alpha) {
  return sub(b, alpha == 1 ? a : mul(a, number_beside(alpha, a)));
}

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  return add(start, mul(weight, sub(end, start)));
}

namespace {
// a and b in the dtype that they have together with x: products of 8 bits may need more.
std::pair<Tensor, Tensor> beside(const Tensor& x, const Tensor& a, const Tensor& b) {
  const Tensor all[] = {x, a, b};
  const DType dtype = result_dtype(all);
  const auto to = [&](const Tensor& t) { return t.is_number() ? t : cast(t, dtype); };
  return {to(a), to(b)};
}
}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  const auto [u, v] = beside(x, a, b);
  const Tensor product = mul(u, v);
  return add(x, value == 1 ? product : mul(product, number_beside(value, product)));
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value) {
  const auto [u, v] = beside(x, a, b);
  const Tensor quotient = div(u, v);
  return add(x, value == 1 ? quotient : mul(quotient, value));
}

// Where min > max the value is max.
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  if (!min.defined() && !max.defined())
    fail(ErrorKind::value, "clamp_tensor", "neither min nor max is given");
  const Tensor above = min.defined() ? maximum(x, min) : x;
  return max.defined() ? minimum(above, max) : above;
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  for (const auto& [name, tolerance] : {std::pair("rtol", rtol), std::pair("atol", atol)})
    if (!(tolerance >= 0))
      fail(ErrorKind::value, "isclose", name, " is ", tolerance, ", expected 0 or more");
  const auto wide = [](const Tensor& x) {  // the difference of two u8 may be negative
    return !x.is_number() && is_integer(x.dtype()) ? cast(x, DType::i64) : x;
  };
  const Tensor distance = abs(sub(wide(a), wide(b)));
  const Tensor near = le(distance, add(atol, mul(rtol, abs(b))));
  const Tensor close = logical_or(eq(a, b), logical_and(isfinite(distance), near));
  return equal_nan ? logical_or(close, logical_and(isnan(a), isnan(b))) : close;
}

void register_pointwise_compositions() {
  add_composition("sgn", "pointwise", "sign; z / |z| on complex numbers", "sign(x)", {{"x"}}, {},
                  [](Operands in, const Attrs&) { return sgn(in[0]); });
  add_composition("rsub", "pointwise", "difference of b and a", "b - alpha a", {{"a"}, {"b"}},
                  {number_attr("alpha", 1, "factor of a")},
                  [](Operands in, const Attrs& a) { return rsub(in[0], in[1], a[0].number); });
  add_composition("lerp", "pointwise", "the point that lies weight of the way from start to end",
                  "start + weight (end - start)", {{"start"}, {"end"}, {"weight"}}, {},
                  [](Operands in, const Attrs&) { return lerp(in[0], in[1], in[2]); });
  add_composition(
      "addcmul", "pointwise", "x and a product", "x + value a b", {{"x"}, {"a"}, {"b"}},
      {number_attr("value", 1, "factor of the product")},
      [](Operands in, const Attrs& a) { return addcmul(in[0], in[1], in[2], a[0].number); });
  add_composition(
      "addcdiv", "pointwise", "x and a quotient", "x + value a / b", {{"x"}, {"a"}, {"b"}},
      {number_attr("value", 1, "factor of the quotient")},
      [](Operands in, const Attrs& a) { return addcdiv(in[0], in[1], in[2], a[0].number); });
  add_composition("clamp_tensor", "pointwise", "x held between tensors", "min(max(x, min), max)",
                  {{"x"}, {"min"}, {"max", false, true}}, {},
                  [](Operands in, const Attrs&) { return clamp(in[0], in[1], operand(in, 2)); });
  add_composition(
      "isclose", "pointwise", "are a and b about equal?", "|a - b| <= atol + rtol |b|",
      {{"a"}, {"b"}},
      {number_attr("rtol", 1e-5, "share of |b|"), number_attr("atol", 1e-8, "whatever b"),
       bool_attr("equal_nan", false, "is NaN close to NaN?")},
      [](Operands in, const Attrs& a) {
        return isclose(in[0], in[1], a[0].number, a[1].number, a[2].integer != 0);
      })
      .differentiable = false;
}

}  // namespace gradus
