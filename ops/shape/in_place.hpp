// Ops in place, as PyTorch writes them: x.add_(y) is add_(x, y). Any op that gives one tensor of
// its first operand's shape has an in-place form by name: in_place("exp", x). What is recorded, and
// what is refused, stands in engine/in_place.hpp. They return x.
#pragma once
#include "engine/in_place.hpp"
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

// Attributes by position; what is left out takes its default.
Tensor in_place(std::string_view op, const Tensor& x, const Tensors& others = {},
                const Attrs& attrs = {});

inline Tensor add_(const Tensor& x, const Tensor& y) { return in_place("add", x, {y}); }
inline Tensor sub_(const Tensor& x, const Tensor& y) { return in_place("sub", x, {y}); }
inline Tensor mul_(const Tensor& x, const Tensor& y) { return in_place("mul", x, {y}); }
inline Tensor div_(const Tensor& x, const Tensor& y) { return in_place("div", x, {y}); }
inline Tensor pow_(const Tensor& x, const Tensor& y) { return in_place("pow", x, {y}); }
inline Tensor neg_(const Tensor& x) { return in_place("neg", x); }
inline Tensor exp_(const Tensor& x) { return in_place("exp", x); }
inline Tensor sin_(const Tensor& x) { return in_place("sin", x); }
inline Tensor sqrt_(const Tensor& x) { return in_place("sqrt", x); }
inline Tensor tanh_(const Tensor& x) { return in_place("tanh", x); }
inline Tensor sigmoid_(const Tensor& x) { return in_place("sigmoid", x); }
inline Tensor relu_(const Tensor& x) { return in_place("relu", x); }
inline Tensor clamp_(const Tensor& x, double min, double max) {
  return in_place("clamp", x, {}, {min, max});
}
Tensor fill_(const Tensor& x, const Tensor& value);  // a number or a 0-d tensor
inline Tensor zero_(const Tensor& x) { return fill_(x, 0); }

inline Tensor& operator+=(Tensor& x, const Tensor& y) { return add_(x, y), x; }
inline Tensor& operator-=(Tensor& x, const Tensor& y) { return sub_(x, y), x; }
inline Tensor& operator*=(Tensor& x, const Tensor& y) { return mul_(x, y), x; }
inline Tensor& operator/=(Tensor& x, const Tensor& y) { return div_(x, y), x; }

}  // namespace gradus
