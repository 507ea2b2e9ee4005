// Expr: the symbolic reader. A statement read with Expr is its own formula, so what is printed and
// what is saved for the backward pass come from the code that runs. Immutable; copies share their
// nodes. It knows the words and nothing else: no statement, no tensor.
#pragma once
#include "ops/def/words.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gradus::inline v1 {

class Expr {
 public:
  // A constant; or, if c is a tag(), the parameter of that place in the innermost ParameterNames.
  Expr(double c);
  Expr(int c) : Expr(double(c)) {}
  static Expr symbol(std::string name);
  // Out of line, as is apply: the formulas of all statements are one file.
  Expr(const Expr& other);
  Expr(Expr&& other) noexcept;
  Expr& operator=(Expr other) noexcept;
  ~Expr();

  // The number of a constant, else null.
  const double* constant() const;
  bool is_one() const;
  bool is_zero() const;
  // Does the formula read this symbol?
  bool uses(std::string_view symbol) const;
  // As C++ would write it, with no needless parentheses. What occurs more than once is named at the
  // end: "u * (1 - u) where u = exp(x < 0 ? x : -x)".
  std::string text() const;
  // Its number (masks are 1 and 0), each symbol's given by the function.
  double evaluate(const std::function<double(std::string_view)>& value_of) const;

  // The double that stands for parameter k while a statement is read: a NaN with a payload of its
  // own. A statement may only write T(parameter); arithmetic on the double would be lost.
  static double tag(int k);

  struct Node;
  // A function of one to three arguments, or an operator by its sign ("+", "<", "?:").
  static Expr apply(const char* name, const Expr& a);
  static Expr apply(const char* name, const Expr& a, const Expr& b);
  static Expr apply(const char* name, const Expr& a, const Expr& b, const Expr& c);

 private:
  friend Expr operator-(const Expr& a);
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

// While it lives, Expr(Expr::tag(k)) in this thread is the symbol names[k].
class ParameterNames {
 public:
  explicit ParameterNames(const char* const (&names)[4]);
  ~ParameterNames();
  ParameterNames(const ParameterNames&) = delete;
  ParameterNames& operator=(const ParameterNames&) = delete;

 private:
  const char* const* outer_;
};

// Simplified as they are built: 0 + x, x - 0, 1 * x, x / 1, --x, and constants with constants.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

template <> struct Words<Expr> {
  using Mask = Expr;
  using Real = Expr;
#define GRADUS_EXPR(name) \
  static Expr name(const Expr& x) { return Expr::apply(#name, x); }
#define GRADUS_EXPR2(name) \
  static Expr name(const Expr& a, const Expr& b) { return Expr::apply(#name, a, b); }
  GRADUS_WORDS(GRADUS_EXPR)
  GRADUS_ROUNDING_WORDS(GRADUS_EXPR)
  GRADUS_LANE_WORDS(GRADUS_EXPR)
  GRADUS_LANE_WORDS2(GRADUS_EXPR2)
  GRADUS_BIT_WORDS2(GRADUS_EXPR2)
  GRADUS_EXPR(bit_not)
#undef GRADUS_EXPR
#undef GRADUS_EXPR2
  static Expr min(const Expr& a, const Expr& b) { return Expr::apply("min", a, b); }
  static Expr max(const Expr& a, const Expr& b) { return Expr::apply("max", a, b); }
  static Expr lt(const Expr& a, const Expr& b) { return Expr::apply("<", a, b); }
  static Expr le(const Expr& a, const Expr& b) { return Expr::apply("<=", a, b); }
  static Expr eq(const Expr& a, const Expr& b) { return Expr::apply("==", a, b); }
  static Expr ne(const Expr& a, const Expr& b) { return Expr::apply("!=", a, b); }
  static Expr select(const Expr& m, const Expr& a, const Expr& b) {
    return Expr::apply("?:", m, a, b);
  }
  static Expr conj(const Expr& z) { return Expr::apply("conj", z); }
  static Expr real(const Expr& z) { return Expr::apply("real", z); }
  static Expr imag(const Expr& z) { return Expr::apply("imag", z); }
  static Expr cabs(const Expr& z) { return Expr::apply("abs", z); }
  static Expr i() { return Expr::symbol("i"); }
};

}  // namespace gradus
