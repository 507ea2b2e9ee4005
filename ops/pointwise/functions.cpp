// Made by ops/def/lists.cmake from the structs of statements_*.hpp; not to be edited.
// clang-format off
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/pointwise/pointwise.hpp"

namespace gradus::inline v1 {

Tensor neg(const Tensor& x) { return call<def::neg>({x}); }
Tensor add(const Tensor& a, const Tensor& b) { return call<def::add>({a, b}); }
Tensor sub(const Tensor& a, const Tensor& b) { return call<def::sub>({a, b}); }
Tensor mul(const Tensor& a, const Tensor& b) { return call<def::mul>({a, b}); }
Tensor div(const Tensor& a, const Tensor& b) { return call<def::div>({a, b}); }
Tensor reciprocal(const Tensor& x) { return call<def::reciprocal>({x}); }
Tensor square(const Tensor& x) { return call<def::square>({x}); }
Tensor sqrt(const Tensor& x) { return call<def::sqrt>({x}); }
Tensor rsqrt(const Tensor& x) { return call<def::rsqrt>({x}); }
Tensor exp(const Tensor& x) { return call<def::exp>({x}); }
Tensor expm1(const Tensor& x) { return call<def::expm1>({x}); }
Tensor log(const Tensor& x) { return call<def::log>({x}); }
Tensor log1p(const Tensor& x) { return call<def::log1p>({x}); }
Tensor bounded_log(const Tensor& x) { return call<def::bounded_log>({x}); }
Tensor sin(const Tensor& x) { return call<def::sin>({x}); }
Tensor cos(const Tensor& x) { return call<def::cos>({x}); }
Tensor tanh(const Tensor& x) { return call<def::tanh>({x}); }
Tensor sigmoid(const Tensor& x) { return call<def::sigmoid>({x}); }
Tensor erf(const Tensor& x) { return call<def::erf>({x}); }
Tensor lt(const Tensor& a, const Tensor& b) { return call<def::lt>({a, b}); }
Tensor le(const Tensor& a, const Tensor& b) { return call<def::le>({a, b}); }
Tensor gt(const Tensor& a, const Tensor& b) { return call<def::gt>({a, b}); }
Tensor ge(const Tensor& a, const Tensor& b) { return call<def::ge>({a, b}); }
Tensor eq(const Tensor& a, const Tensor& b) { return call<def::eq>({a, b}); }
Tensor ne(const Tensor& a, const Tensor& b) { return call<def::ne>({a, b}); }
Tensor relu(const Tensor& x) { return call<def::relu>({x}); }
Tensor leaky_relu(const Tensor& x, double negative_slope) { return call<def::leaky_relu>({x}, {negative_slope}); }
Tensor maximum(const Tensor& a, const Tensor& b) { return call<def::maximum>({a, b}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return call<def::minimum>({a, b}); }
Tensor elu(const Tensor& x, double alpha) { return call<def::elu>({x}, {alpha}); }
Tensor softplus(const Tensor& x, double beta, double threshold) { return call<def::softplus>({x}, {beta, threshold}); }
Tensor logsigmoid(const Tensor& x) { return call<def::logsigmoid>({x}); }
Tensor silu(const Tensor& x) { return call<def::silu>({x}); }
Tensor gelu_tanh(const Tensor& x) { return call<def::gelu_tanh>({x}); }
Tensor pow(const Tensor& a, const Tensor& b) { return call<def::pow>({a, b}); }
Tensor abs(const Tensor& x) { return call<def::abs>({x}); }
Tensor sign(const Tensor& x) { return call<def::sign>({x}); }
Tensor imag(const Tensor& x) { return call<def::imag>({x}); }
Tensor cbrt(const Tensor& x) { return call<def::cbrt>({x}); }
Tensor exp2(const Tensor& x) { return call<def::exp2>({x}); }
Tensor log2(const Tensor& x) { return call<def::log2>({x}); }
Tensor log10(const Tensor& x) { return call<def::log10>({x}); }
Tensor tan(const Tensor& x) { return call<def::tan>({x}); }
Tensor asin(const Tensor& x) { return call<def::asin>({x}); }
Tensor acos(const Tensor& x) { return call<def::acos>({x}); }
Tensor atan(const Tensor& x) { return call<def::atan>({x}); }
Tensor sinh(const Tensor& x) { return call<def::sinh>({x}); }
Tensor cosh(const Tensor& x) { return call<def::cosh>({x}); }
Tensor asinh(const Tensor& x) { return call<def::asinh>({x}); }
Tensor acosh(const Tensor& x) { return call<def::acosh>({x}); }
Tensor atanh(const Tensor& x) { return call<def::atanh>({x}); }
Tensor sinc(const Tensor& x) { return call<def::sinc>({x}); }
Tensor atan2(const Tensor& a, const Tensor& b) { return call<def::atan2>({a, b}); }
Tensor hypot(const Tensor& a, const Tensor& b) { return call<def::hypot>({a, b}); }
Tensor angle(const Tensor& x) { return call<def::angle>({x}); }
Tensor deg2rad(const Tensor& x) { return call<def::deg2rad>({x}); }
Tensor rad2deg(const Tensor& x) { return call<def::rad2deg>({x}); }
Tensor erfc(const Tensor& x) { return call<def::erfc>({x}); }
Tensor erfinv(const Tensor& x) { return call<def::erfinv>({x}); }
Tensor ndtr(const Tensor& x) { return call<def::ndtr>({x}); }
Tensor lgamma(const Tensor& x) { return call<def::lgamma>({x}); }
Tensor digamma(const Tensor& x) { return call<def::digamma>({x}); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return call<def::logaddexp>({a, b}); }
Tensor logaddexp2(const Tensor& a, const Tensor& b) { return call<def::logaddexp2>({a, b}); }
Tensor xlogy(const Tensor& a, const Tensor& b) { return call<def::xlogy>({a, b}); }
Tensor xlog1py(const Tensor& a, const Tensor& b) { return call<def::xlog1py>({a, b}); }
Tensor logit(const Tensor& x, double eps) { return call<def::logit>({x}, {eps}); }
Tensor floor(const Tensor& x) { return call<def::floor>({x}); }
Tensor ceil(const Tensor& x) { return call<def::ceil>({x}); }
Tensor round(const Tensor& x) { return call<def::round>({x}); }
Tensor trunc(const Tensor& x) { return call<def::trunc>({x}); }
Tensor frac(const Tensor& x) { return call<def::frac>({x}); }
Tensor fmod(const Tensor& a, const Tensor& b) { return call<def::fmod>({a, b}); }
Tensor remainder(const Tensor& a, const Tensor& b) { return call<def::remainder>({a, b}); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return call<def::floor_divide>({a, b}); }
Tensor copysign(const Tensor& a, const Tensor& b) { return call<def::copysign>({a, b}); }
Tensor heaviside(const Tensor& a, const Tensor& b) { return call<def::heaviside>({a, b}); }
Tensor fmax(const Tensor& a, const Tensor& b) { return call<def::fmax>({a, b}); }
Tensor fmin(const Tensor& a, const Tensor& b) { return call<def::fmin>({a, b}); }
Tensor softsign(const Tensor& x) { return call<def::softsign>({x}); }
Tensor selu(const Tensor& x) { return call<def::selu>({x}); }
Tensor mish(const Tensor& x) { return call<def::mish>({x}); }
Tensor relu6(const Tensor& x) { return call<def::relu6>({x}); }
Tensor hardsigmoid(const Tensor& x) { return call<def::hardsigmoid>({x}); }
Tensor hardswish(const Tensor& x) { return call<def::hardswish>({x}); }
Tensor hardshrink(const Tensor& x, double lambd) { return call<def::hardshrink>({x}, {lambd}); }
Tensor tanhshrink(const Tensor& x) { return call<def::tanhshrink>({x}); }
Tensor isnan(const Tensor& x) { return call<def::isnan>({x}); }
Tensor isinf(const Tensor& x) { return call<def::isinf>({x}); }
Tensor isfinite(const Tensor& x) { return call<def::isfinite>({x}); }
Tensor signbit(const Tensor& x) { return call<def::signbit>({x}); }
Tensor logical_not(const Tensor& x) { return call<def::logical_not>({x}); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return call<def::logical_and>({a, b}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return call<def::logical_or>({a, b}); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return call<def::logical_xor>({a, b}); }
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return call<def::bitwise_and>({a, b}); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return call<def::bitwise_or>({a, b}); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return call<def::bitwise_xor>({a, b}); }
Tensor bitwise_not(const Tensor& x) { return call<def::bitwise_not>({x}); }
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) { return call<def::bitwise_left_shift>({a, b}); }
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) { return call<def::bitwise_right_shift>({a, b}); }

}  // namespace gradus
