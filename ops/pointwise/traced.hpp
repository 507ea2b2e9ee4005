// Traced: the reader of statements that computes with tensors. A slope read by it is a chain of
// ops, so it is recorded and can be differentiated again. Numbers fold on the host.
#pragma once
#include "ops/def/words.hpp"
#include "ops/pointwise/pointwise.hpp"

namespace gradus::inline v1 {

struct Traced {
  Tensor t;
  Traced(double number) : t(number) {}
  explicit Traced(Tensor x) : t(std::move(x)) {}
  bool number() const { return t.is_number(); }
  double value() const { return t.body()->number.value; }
  static inline thread_local DType dtype = DType::f32;  // of the operands being read
};

inline Traced operator+(const Traced& a, const Traced& b) {
  return a.number() && b.number() ? Traced(a.value() + b.value()) : Traced(add(a.t, b.t));
}
inline Traced operator-(const Traced& a, const Traced& b) {
  return a.number() && b.number() ? Traced(a.value() - b.value()) : Traced(sub(a.t, b.t));
}
inline Traced operator*(const Traced& a, const Traced& b) {
  return a.number() && b.number() ? Traced(a.value() * b.value()) : Traced(mul(a.t, b.t));
}
inline Traced operator/(const Traced& a, const Traced& b) {
  return a.number() && b.number() ? Traced(a.value() / b.value()) : Traced(div(a.t, b.t));
}
inline Traced operator-(const Traced& x) {
  return x.number() ? Traced(-x.value()) : Traced(neg(x.t));
}

template <>
struct Words<Traced> {
  using Mask = Traced;
  using Real = Traced;
  using X = const Traced&;
#define GRADUS_TRACED(name) \
  static Traced name(X x) { return Traced(gradus::name(x.t)); }
#define GRADUS_TRACED2(name) \
  static Traced name(X a, X b) { return Traced(gradus::name(a.t, b.t)); }
  GRADUS_WORDS(GRADUS_TRACED)
  GRADUS_ROUNDING_WORDS(GRADUS_TRACED)
  GRADUS_LANE_WORDS(GRADUS_TRACED)
  GRADUS_LANE_WORDS2(GRADUS_TRACED2)
#undef GRADUS_TRACED
#undef GRADUS_TRACED2
  static Traced min(X a, X b) { return Traced(gradus::minimum(a.t, b.t)); }
  static Traced max(X a, X b) { return Traced(gradus::maximum(a.t, b.t)); }
  static Traced lt(X a, X b) {
    return a.number() && b.number() ? Traced(a.value() < b.value()) : Traced(gradus::lt(a.t, b.t));
  }
  static Traced le(X a, X b) { return Traced(gradus::le(a.t, b.t)); }
  static Traced eq(X a, X b) { return Traced(gradus::eq(a.t, b.t)); }
  static Traced ne(X a, X b) { return Traced(gradus::ne(a.t, b.t)); }
  // Two numbers have no dtype of their own: they take the one that is being read.
  static Traced select(X m, X a, X b) {
    if (m.number()) return m.value() != 0 ? a : b;
    if (a.number() && b.number())
      return Traced(gradus::where(m.t, materialise(a.t, Traced::dtype, m.t.device()), b.t));
    return Traced(gradus::where(m.t, a.t, b.t));
  }
  static Traced detached(X x) { return Traced(x.number() ? x.t : x.t.detach()); }
  static Traced conj(X x) { return Traced(gradus::conj(x.t)); }
  static Traced real(X x) { return Traced(gradus::real(x.t)); }
  static Traced imag(X x) { return Traced(gradus::imag(x.t)); }
  static Traced cabs(X x) { return Traced(gradus::abs(x.t)); }
  // A 0-d tensor, so that it takes part in promotion by its category alone.
  static Traced i() { return Traced(Tensor::full({}, {0, 1}, DType::c64, default_device())); }
};

}  // namespace gradus
