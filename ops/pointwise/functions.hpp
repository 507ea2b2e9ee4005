// The functions of the pointwise ops.
// Made by ops/def/lists.cmake from the structs of statements_*.hpp; not to be edited.
// clang-format off
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

Tensor neg(const Tensor& x);  // minus x
Tensor add(const Tensor& a, const Tensor& b);  // sum of a and b
Tensor sub(const Tensor& a, const Tensor& b);  // difference of a and b
Tensor mul(const Tensor& a, const Tensor& b);  // product of a and b
Tensor div(const Tensor& a, const Tensor& b);  // quotient of a and b
Tensor reciprocal(const Tensor& x);  // 1 / x
Tensor square(const Tensor& x);  // x times x
Tensor sqrt(const Tensor& x);  // square root
Tensor rsqrt(const Tensor& x);  // 1 / sqrt(x)
Tensor exp(const Tensor& x);  // e to the x
Tensor expm1(const Tensor& x);  // exp(x) - 1, exact near 0
Tensor log(const Tensor& x);  // natural logarithm
Tensor log1p(const Tensor& x);  // log(1 + x), exact near 0
Tensor bounded_log(const Tensor& x);  // log(x), at least -100; its slope is at most 1e12
Tensor sin(const Tensor& x);  // sine
Tensor cos(const Tensor& x);  // cosine
Tensor tanh(const Tensor& x);  // hyperbolic tangent
Tensor sigmoid(const Tensor& x);  // logistic function
Tensor erf(const Tensor& x);  // error function
Tensor lt(const Tensor& a, const Tensor& b);  // is a < b?
Tensor le(const Tensor& a, const Tensor& b);  // is a <= b?
Tensor gt(const Tensor& a, const Tensor& b);  // is a > b?
Tensor ge(const Tensor& a, const Tensor& b);  // is a >= b?
Tensor eq(const Tensor& a, const Tensor& b);  // is a == b?
Tensor ne(const Tensor& a, const Tensor& b);  // is a != b?
Tensor relu(const Tensor& x);  // the positive part of x
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  // x, and negative_slope * x below 0
Tensor maximum(const Tensor& a, const Tensor& b);  // the larger of a and b
Tensor minimum(const Tensor& a, const Tensor& b);  // the smaller of a and b
Tensor elu(const Tensor& x, double alpha = 1);  // x, and alpha * expm1(x) below 0
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);  // log(1 + exp(beta * x)) / beta, and x where beta * x > threshold
Tensor logsigmoid(const Tensor& x);  // log of the logistic function
Tensor silu(const Tensor& x);  // x * sigmoid(x)
Tensor gelu_tanh(const Tensor& x);  // gelu through tanh
Tensor pow(const Tensor& a, const Tensor& b);  // a to the b
Tensor abs(const Tensor& x);  // absolute value
Tensor sign(const Tensor& x);  // -1, 0 or 1; z / |z| on complex numbers
Tensor imag(const Tensor& x);  // imaginary part
Tensor cbrt(const Tensor& x);  // cube root
Tensor exp2(const Tensor& x);  // 2 to the x
Tensor log2(const Tensor& x);  // logarithm to the base 2
Tensor log10(const Tensor& x);  // logarithm to the base 10
Tensor tan(const Tensor& x);  // tangent
Tensor asin(const Tensor& x);  // inverse of sine
Tensor acos(const Tensor& x);  // inverse of cosine
Tensor atan(const Tensor& x);  // inverse of tangent
Tensor sinh(const Tensor& x);  // hyperbolic sine
Tensor cosh(const Tensor& x);  // hyperbolic cosine
Tensor asinh(const Tensor& x);  // inverse of hyperbolic sine
Tensor acosh(const Tensor& x);  // inverse of hyperbolic cosine
Tensor atanh(const Tensor& x);  // inverse of hyperbolic tangent
Tensor sinc(const Tensor& x);  // sin(pi x) / (pi x), and 1 at 0
Tensor atan2(const Tensor& a, const Tensor& b);  // the angle of the point (b, a)
Tensor hypot(const Tensor& a, const Tensor& b);  // sqrt(a^2 + b^2)
Tensor angle(const Tensor& x);  // the angle of z; pi below 0 on real numbers
Tensor deg2rad(const Tensor& x);  // x degrees in radians
Tensor rad2deg(const Tensor& x);  // x radians in degrees
Tensor erfc(const Tensor& x);  // 1 - erf(x), exact for large x
Tensor erfinv(const Tensor& x);  // inverse of the error function
Tensor ndtr(const Tensor& x);  // normal distribution function of x
Tensor lgamma(const Tensor& x);  // log of |gamma(x)|
Tensor digamma(const Tensor& x);  // derivative of lgamma
Tensor logaddexp(const Tensor& a, const Tensor& b);  // log(exp(a) + exp(b))
Tensor logaddexp2(const Tensor& a, const Tensor& b);  // log2(2^a + 2^b)
Tensor xlogy(const Tensor& a, const Tensor& b);  // a * log(b), and 0 where a is 0
Tensor xlog1py(const Tensor& a, const Tensor& b);  // a * log1p(b), and 0 where a is 0
Tensor logit(const Tensor& x, double eps = -1);  // log(x / (1 - x)) of x held in eps, 1 - eps
Tensor floor(const Tensor& x);  // the next integer down
Tensor ceil(const Tensor& x);  // the next integer up
Tensor round(const Tensor& x);  // the nearest integer, the even one of two
Tensor trunc(const Tensor& x);  // the next integer towards 0
Tensor frac(const Tensor& x);  // x - trunc(x)
Tensor fmod(const Tensor& a, const Tensor& b);  // rest of a / b, with the sign of a
Tensor remainder(const Tensor& a, const Tensor& b);  // rest of a / b, with the sign of b
Tensor floor_divide(const Tensor& a, const Tensor& b);  // a / b rounded down
Tensor copysign(const Tensor& a, const Tensor& b);  // |a| with the sign of b
Tensor heaviside(const Tensor& a, const Tensor& b);  // 0 below 0, 1 above, b at 0
Tensor fmax(const Tensor& a, const Tensor& b);  // the larger of a and b that is a number
Tensor fmin(const Tensor& a, const Tensor& b);  // the smaller of a and b that is a number
Tensor softsign(const Tensor& x);  // x / (1 + |x|)
Tensor selu(const Tensor& x);  // scaled elu that keeps mean 0 and variance 1
Tensor mish(const Tensor& x);  // x * tanh(softplus(x))
Tensor relu6(const Tensor& x);  // x held in 0, 6
Tensor hardsigmoid(const Tensor& x);  // (x + 3) / 6 held in 0, 1
Tensor hardswish(const Tensor& x);  // x * hardsigmoid(x)
Tensor hardshrink(const Tensor& x, double lambd = 0.5);  // x, and 0 within lambd
Tensor tanhshrink(const Tensor& x);  // x - tanh(x)
Tensor isnan(const Tensor& x);  // is x, or a part of it, not a number?
Tensor isinf(const Tensor& x);  // is x, or a part of it, infinite?
Tensor isfinite(const Tensor& x);  // is x neither infinite nor NaN?
Tensor signbit(const Tensor& x);  // has x a minus sign, -0 too?
Tensor logical_not(const Tensor& x);  // is x 0?
Tensor logical_and(const Tensor& a, const Tensor& b);  // are both not 0?
Tensor logical_or(const Tensor& a, const Tensor& b);  // is one not 0?
Tensor logical_xor(const Tensor& a, const Tensor& b);  // is just one not 0?
Tensor bitwise_and(const Tensor& a, const Tensor& b);  // bits that both have
Tensor bitwise_or(const Tensor& a, const Tensor& b);  // bits that one has
Tensor bitwise_xor(const Tensor& a, const Tensor& b);  // bits that just one has
Tensor bitwise_not(const Tensor& x);  // all bits turned
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);  // bits b places to the left, zeros behind them; by b < 0 all are gone
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);  // bits b places to the right, copies of the sign before them; by b < 0 all are gone

}  // namespace gradus
