// A library of ops for `gradus --load`: one statement, one function with its own derivatives, and
// one whose derivative is wrong, for `gradus check` to find. Built without linking anything of
// gradus.
#include "ops/ops.hpp"
#include "ops/check/user.hpp"

namespace {

using namespace gradus;

// A statement: everything else is read from these two lines.
struct gaussian : def::Unary {
  double width = 1;
  static constexpr def::Meta meta{"gaussian", "bell curve of a given width", def::kReal, {"width"}};
  template <class T>
  T value(T x) const {
    return w::exp(-(x * x) / (T(2) * T(width) * T(width)));
  }
  template <class T>
  T slope(T x, T y) const {
    return -(x * y) / (T(width) * T(width));
  }
};

// A function: y = x^3, which saves x. Its derivatives are made of ops, so they have derivatives
// too.
void cube_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  ctx.outputs.push_back(x * x * x);
  ctx.save_input(0);
}
Tensor cube_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return g[0] * conj(3.0 * square(node.input(0)));
}
Tensor cube_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return 3.0 * square(node.input(0)) * t[0];
}
Tensor wrong_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return g[0] * 2.0 * square(node.input(0));
}

rows::Row row_of_one_operand(unsigned dtypes) {
  return {"",
          {rows::between(-2, 2)},
          dtypes,
          {{{{3, 5}}}, {{{}}}, {{{0}}}, {{{2, 3, 17}}}},
          {64, true, 4, "a few operations after one another"}};
}

UserFunction function_x3(const char* name, const char* doc) {
  UserFunction f;
  f.name = name;
  f.doc = doc;
  f.formula = "y = x^3";
  f.operands = {{"x"}};
  f.forward = cube_forward;
  f.vjp = cube_vjp;
  f.jvp = cube_jvp;
  return f;
}

}  // namespace

GRADUS_USER_OPS() {
  rows::Row bell = row_of_one_operand(def::kReal);
  for (rows::Case wide : std::vector<rows::Case>(bell.cases)) {
    wide.attrs = {{"width", 1.5}};
    bell.cases.push_back(wide);
  }
  add_statement<gaussian>(bell);
  add_function(function_x3("cube", "third power"), row_of_one_operand(def::kReal | def::kComplex));
  UserFunction wrong = function_x3("wrong_cube", "third power with a wrong derivative");
  wrong.vjp = wrong_vjp;
  add_function(wrong, row_of_one_operand(def::kReal));
}
