// The statements: every pointwise op of gradus as its value and its slope, sorted from simple to
// tricky. x, a, b are operands, y is the value, m a mask, z a complex operand. What a statement is
// and how it is read stands in statement.hpp, its words in words.hpp.
// A slope is written through y where that is as exact: the engine saves exactly what a slope reads.
// It stays finite through its own derivatives: what a select does not take, and what a limit
// multiplies by 0, must not be inf. Plain header: kernels include it; no std type appears.
#pragma once
#include "ops/def/statements_smooth.hpp"
#include "ops/def/statements_pieces.hpp"
#include "ops/def/statements_functions.hpp"
#include "ops/def/statements_steps.hpp"

namespace gradus::def {

// A statement's id is its place here.
using Statements = List<
    neg, add, sub, mul, div, reciprocal, square, sqrt, rsqrt, exp, expm1, log, log1p, bounded_log,
    sin, cos, tanh, sigmoid, erf, lt, le, gt, ge, eq, ne, where, relu, leaky_relu, maximum, minimum,
    clamp, elu, softplus, logsigmoid, silu, gelu, gelu_tanh, pow, abs, sign, conj, real, imag,
    // statements_functions.hpp
    cbrt, exp2, log2, log10, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, sinc, atan2,
    hypot, angle, deg2rad, rad2deg, erfc, erfinv, ndtr, lgamma, digamma, polygamma, logaddexp,
    logaddexp2, xlogy, xlog1py, logit,
    // statements_steps.hpp
    floor, ceil, round, trunc, frac, fmod, remainder, floor_divide, copysign, heaviside, fmax, fmin,
    nan_to_num, softsign, celu, selu, mish, hardtanh, relu6, hardsigmoid, hardswish, softshrink,
    hardshrink, tanhshrink, threshold, isnan, isinf, isfinite, signbit, logical_not, logical_and,
    logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor, bitwise_not>;

// One that other kernels may end with: it has no parameters and commutes with rounding.
using Final = relu;

template <class S> constexpr int id_of() {
  constexpr int id = detail::index_in<S>(Statements{});
  static_assert(id >= 0, "not in the list of statements");
  return id;
}

}  // namespace gradus::def
