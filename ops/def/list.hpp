// All statements; a statement's id is its place here.
// Made by ops/def/lists.cmake from the structs of statements_*.hpp; not to be edited.
// clang-format off
#pragma once

namespace gradus::inline v1::def {

    struct neg; struct add; struct sub; struct mul; struct div; struct reciprocal; struct square;
    struct sqrt; struct rsqrt; struct exp; struct expm1; struct log; struct log1p;
    struct bounded_log; struct sin; struct cos; struct tanh; struct sigmoid; struct erf;
    struct lt; struct le; struct gt; struct ge; struct eq; struct ne; struct where; struct relu;
    struct leaky_relu; struct maximum; struct minimum; struct clamp; struct elu; struct softplus;
    struct logsigmoid; struct silu; struct gelu; struct gelu_tanh; struct pow; struct abs;
    struct sign; struct conj; struct real; struct imag; struct cbrt; struct exp2; struct log2;
    struct log10; struct tan; struct asin; struct acos; struct atan; struct sinh; struct cosh;
    struct asinh; struct acosh; struct atanh; struct sinc; struct atan2; struct hypot;
    struct angle; struct deg2rad; struct rad2deg; struct erfc; struct erfinv; struct ndtr;
    struct lgamma; struct digamma; struct polygamma; struct logaddexp; struct logaddexp2;
    struct xlogy; struct xlog1py; struct logit; struct floor; struct ceil; struct round;
    struct trunc; struct frac; struct fmod; struct remainder; struct floor_divide;
    struct copysign; struct heaviside; struct fmax; struct fmin; struct nan_to_num;
    struct softsign; struct celu; struct selu; struct mish; struct hardtanh; struct relu6;
    struct hardsigmoid; struct hardswish; struct softshrink; struct hardshrink; struct tanhshrink;
    struct threshold; struct isnan; struct isinf; struct isfinite; struct signbit;
    struct logical_not; struct logical_and; struct logical_or; struct logical_xor;
    struct bitwise_and; struct bitwise_or; struct bitwise_xor; struct bitwise_not;
    struct bitwise_left_shift; struct bitwise_right_shift;

template <class... S> struct List;
using Statements = List<
    neg, add, sub, mul, div, reciprocal, square, sqrt, rsqrt, exp, expm1, log, log1p, bounded_log,
    sin, cos, tanh, sigmoid, erf, lt, le, gt, ge, eq, ne, where, relu, leaky_relu, maximum,
    minimum, clamp, elu, softplus, logsigmoid, silu, gelu, gelu_tanh, pow, abs, sign, conj, real,
    imag, cbrt, exp2, log2, log10, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, sinc,
    atan2, hypot, angle, deg2rad, rad2deg, erfc, erfinv, ndtr, lgamma, digamma, polygamma,
    logaddexp, logaddexp2, xlogy, xlog1py, logit, floor, ceil, round, trunc, frac, fmod,
    remainder, floor_divide, copysign, heaviside, fmax, fmin, nan_to_num, softsign, celu, selu,
    mish, hardtanh, relu6, hardsigmoid, hardswish, softshrink, hardshrink, tanhshrink, threshold,
    isnan, isinf, isfinite, signbit, logical_not, logical_and, logical_or, logical_xor,
    bitwise_and, bitwise_or, bitwise_xor, bitwise_not, bitwise_left_shift, bitwise_right_shift>;

}  // namespace gradus::def
