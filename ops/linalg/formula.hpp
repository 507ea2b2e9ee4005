// A derivative that is a short formula of matrices is written once, for Tensors and for Terms. Of
// small matrices on a device of the host it is one kernel call (GD_FORMULA), where no derivative of
// it can be asked for; else it is made of ops, and records.
#pragma once
#include "ops/linalg/matrices.hpp"

#include <tuple>

namespace gradus::inline v1::linalg {

// Can no derivative of what is made of it be asked for, and is it no example of a vmap?
bool is_quiet(const Tensor& t);

class Steps;

// A value of a formula: a matrix (rows, cols), a vector counts as (1, n). Undefined, as a Tensor
// may be, until it belongs to a formula.
struct Term {
  Steps* of = nullptr;
  int index = -1;
  int64_t rows = 0, cols = 0;
  bool turned = false;  // the value's transpose

  bool defined() const { return of != nullptr; }
};

// The steps of a formula as they are written down.
class Steps {
 public:
  // Are they small matrices of real numbers, some may be undefined, that a kernel may take
  // together?
  static bool take(std::initializer_list<const Tensor*> inputs);

  // `matrix`: one of the inputs, of whose batch all are.
  explicit Steps(const Tensor& matrix) : matrix_(matrix) {}
  Term input(const Tensor& x);
  Term add(gd_step code, int64_t rows, int64_t cols, const Term& a, const Term& b, int flags = 0);
  Tensor run(const Term& result);

 private:
  const Tensor& matrix_;
  SmallVector<const Tensor*, 8> inputs_;
  SmallVector<int64_t, 40> steps_;
};

// f(x, more...) for matrices or vectors of the same batch, x a matrix; f takes Terms as it takes
// Tensors.
template <class F, class... More>
Tensor evaluate(F&& f, const Tensor& x, const More&... more) {
  if (!Steps::take({&x, &more...})) return f(x, more...);
  Steps steps(x);
  const std::tuple terms{steps.input(x), steps.input(more)...};  // from the left
  return steps.run(std::apply(f, terms));
}

// ---- the words of matrices.hpp and of the ops, for Terms
inline Term adjoint(Term x) {
  std::swap(x.rows, x.cols);
  x.turned = !x.turned;
  return x;
}
// x as it stands in memory.
inline Term plain(const Term& x) {
  return x.turned ? x.of->add(GD_STEP_TURNED, x.rows, x.cols, adjoint(x), adjoint(x)) : x;
}
inline Term product(const Term& a, const Term& b, bool negative) {
  const int flags = int(a.turned) | int(b.turned) << 1 | int(negative) << 2;
  return a.of->add(GD_STEP_PRODUCT, a.rows, b.cols, a, b, flags);
}
inline Term matmul(const Term& a, const Term& b) { return product(a, b, false); }
inline Term neg_matmul(const Term& a, const Term& b) { return product(a, b, true); }
inline Term step(gd_step code, const Term& a, const Term& b, int flags = 0) {
  return a.of->add(code, a.rows, a.cols, plain(a), plain(b), flags);
}
inline Term add(const Term& a, const Term& b) { return step(GD_STEP_SUM, a, b); }
inline Term sub(const Term& a, const Term& b) { return step(GD_STEP_DIFFERENCE, a, b); }
inline Term mul(const Term& a, const Term& b) { return step(GD_STEP_TIMES, a, b); }
inline Term neg(const Term& x) { return step(GD_STEP_NEGATIVE, x, x); }
inline Term halved(const Term& x) { return step(GD_STEP_HALF, x, x); }
inline Term lower_half(const Term& x) { return step(GD_STEP_HALF_LOWER, x, x); }
inline Term triu(const Term& x) { return step(GD_STEP_UPPER, x, x); }
inline Term strictly_lower(const Term& x) { return step(GD_STEP_LOWER, x, x, 1); }
inline Term strictly_lower_else(const Term& x, const Term& y) { return step(GD_STEP_BELOW, x, y); }
inline Term by_columns(const Term& x, const Term& v) { return step(GD_STEP_TIMES, x, v); }
inline Term with_diagonal(const Term& x, const Term& v) {
  return v.defined() ? step(GD_STEP_WITH_DIAGONAL, x, v) : x;
}
inline Term unpermuted(const Term& x, const Term& rows) { return step(GD_STEP_ROWS_BACK, x, rows); }
inline Term by_triangle(const Term& a, const Term& b, bool upper, bool unit, Form form) {
  const int flags = int(upper) | int(unit) << 1 | int(form != Form::plain) << 2;
  return a.of->add(GD_STEP_DIVIDED, b.rows, b.cols, plain(a), plain(b), flags);
}
inline Term over_adjoint(const Term& x, const Term& r) {
  return adjoint(by_triangle(r, adjoint(x), true, false, Form::plain));
}
// X of A^H X = B, by the LU of A.
inline Term solved_by_adjoint(const Term& a, const Term& b) {
  const Term lu = a.of->add(GD_STEP_LU, a.rows + 1, a.cols, plain(a), plain(a));
  const Term half = by_triangle(lu, b, true, false, Form::adjoint);
  return unpermuted(by_triangle(lu, half, false, true, Form::adjoint), lu);
}
inline Term pairs(gd_step code, const Term& v) { return v.of->add(code, v.cols, v.cols, v, v); }
inline Term reciprocal_gaps(const Term& v, Degenerate) { return pairs(GD_STEP_RECIPROCAL_GAPS, v); }
inline Term reciprocal_sums(const Term& v) { return pairs(GD_STEP_RECIPROCAL_SUMS, v); }
inline Term reciprocals(const Term& v) { return step(GD_STEP_RECIPROCALS, v, v); }
inline Term sym(const Term& x) { return add(x, adjoint(x)); }
inline Term skew(const Term& x) { return sub(x, adjoint(x)); }
inline Term sandwich(const Term& left, const Term& x, const Term& right) {
  return matmul(matmul(left, x), right);
}

}  // namespace gradus::linalg
