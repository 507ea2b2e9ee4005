// Pointwise ops; operands broadcast and promote (ops/base/dtypes.hpp). Most follow from their
// statements, functions.hpp; here are those that take more than their statement's parameters.
#pragma once
#include "ops/base/ints.hpp"
#include "ops/pointwise/functions.hpp"

#include <optional>

namespace gradus::inline v1 {

Tensor gelu(const Tensor& x, const char* approximate = "none");  // "none" or "tanh"
Tensor clamp(const Tensor& x, double min, double max);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor conj(const Tensor& x);  // real tensors are returned as they are
Tensor real(const Tensor& x);
Tensor celu(const Tensor& x, double alpha = 1);
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
Tensor softshrink(const Tensor& x, double lambd = 0.5);
Tensor threshold(const Tensor& x, double threshold, double value);
Tensor polygamma(const Tensor& n, const Tensor& x);  // n is a number: 0, 1, 2, ...
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});

// ops made of these
Tensor sgn(const Tensor& x);
Tensor rsub(const Tensor& a, const Tensor& b, double alpha = 1);  // b - alpha a
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);
// An undefined bound holds nothing.
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace gradus
