// What solves: triangles, LU, and what follows from them. Derivatives: Giles, "An extended
// collection of matrix derivative results" (Oxford NA-08/01).
#include "ops/linalg/formula.hpp"

#include "ops/index/indexing.hpp"

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo *solve_info, *solve_ex_info, *triangular_info, *inv_info, *inv_ex_info, *det_info,
    *slogdet_info;

void refuse_singular(const char* op, const Tensor& info, int64_t n) {
  const Failure f = first_failure(info);
  if (f.info <= 0) return;  // what is not finite gives NaN
  fail(ErrorKind::numeric, op, place_in(info.sizes(), f.element), "the matrix is singular: pivot ",
       f.info - 1, " of ", n, " is 0; lstsq and pinv do without an inverse");
}

// The vjp of one operand, where all are made at once.
using Vjps = void (*)(GradFn&, std::span<const char>, std::span<const Tensor>, std::span<Tensor>);
template <Vjps all>
Tensor vjp_of(GradFn& node, size_t k, std::span<const Tensor> g) {
  const char wanted[] = {k == 0, k == 1};
  Tensor cotangents[2];
  all(node, {wanted, 2}, g, {cotangents, 2});
  return cotangents[k];
}

// A and B in the shapes of their common batch, and room for X.
struct System {
  System(const OpContext& ctx, const char* op) {
    const Tensor &a = ctx.inputs[0], &b = ctx.inputs[1];
    const Shape batch = broadcast_shapes(op, batch_of(a), batch_of(b));
    of_a = with(batch, {a.size(-2), a.size(-1)});
    of_b = with(batch, {b.size(-2), b.size(-1)});
    x = Tensor::empty(of_b, b.dtype(), b.device());
  }
  void solved(OpContext& ctx) const {
    ctx.outputs.push_back(x);
    ctx.save_input(0);
    if (ctx.needs(0)) ctx.save_output(0);
  }
  Shape of_a, of_b;
  Tensor x;
};

// ---- triangles. attrs: upper, unit, form.

void triangular_forward(OpContext& ctx) {
  const System s(ctx, "solve_triangular");
  KernelCall(GD_LINALG, GD_SOLVE_TRIANGULAR)
      .in(ctx.inputs[0], s.of_a)
      .in(ctx.inputs[1], s.of_b)
      .integer(ctx.attrs[0].integer)
      .integer(ctx.attrs[1].integer)
      .integer(ctx.attrs[2].integer)
      .out(s.x)
      .run();
  s.solved(ctx);
}
struct Triangle {
  bool upper, unit;
  Form form;
};
Triangle triangle_of(GradFn& node) {
  return {node.attr(0).integer != 0, node.attr(1).integer != 0, Form(node.attr(2).integer)};
}
// op(A) = M applied to A, and back.
Tensor formed(const Tensor& a, Form form) {
  return form == Form::plain ? a : form == Form::adjoint ? adjoint(a) : transpose(a, -2, -1);
}
Tensor part_of(const Tensor& a, const Triangle& t) {
  return t.upper ? triu(a, t.unit) : tril(a, t.unit ? -1 : 0);
}
// M^-H B for M = op(A).
Tensor by_adjoint(const Tensor& a, const Tensor& b, const Triangle& t) {
  const auto [upper, unit, form] = t;
  if (form == Form::adjoint) return by_triangle(a, b, upper, unit, Form::plain);
  if (form == Form::plain) return by_triangle(a, b, upper, unit, Form::adjoint);
  return by_triangle(conj(a), b, upper, unit, Form::plain);  // (A^T)^H
}
void triangular_vjps(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
                     std::span<Tensor> cotangents) {
  const Triangle t = triangle_of(node);
  const Tensor gb = by_adjoint(node.input(0), g[0], t);
  if (wanted[1]) cotangents[1] = gb;
  if (wanted[0])
    cotangents[0] = part_of(formed(neg(matmul(gb, adjoint(node.output(0)))), t.form), t);
}
Tensor triangular_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const Triangle of = triangle_of(node);
  Tensor right = t[1];
  if (t[0].defined()) {
    const Tensor moved = neg(matmul(formed(part_of(t[0], of), of.form), node.output(0)));
    right = right.defined() ? add(right, moved) : moved;
  }
  return by_triangle(node.input(0), right, of.upper, of.unit, of.form);
}

// ---- solve

void solve_forward(OpContext& ctx) {
  const System s(ctx, "solve");
  const Tensor &a = ctx.inputs[0], &b = ctx.inputs[1];
  const Tensor info = Tensor::empty(batch_of(s.x), DType::i64, b.device());
  KernelCall(GD_LINALG, GD_SOLVE).in(a, s.of_a).in(b, s.of_b).integer(0).out(s.x).out(info).run();
  s.solved(ctx);
  settle(ctx, info, [&] { refuse_singular("solve", info, a.size(-1)); });
}
// By the op of this node: what fails gives no refusal afterwards, either.
Tensor solved_as(GradFn& node, const Tensor& a, const Tensor& b) {
  return all_of(node.op(), {a, b})[0];
}
void solve_vjps(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
                std::span<Tensor> cotangents) {
  const auto of_a = [](const auto& gb, const auto& x) { return neg_matmul(gb, adjoint(x)); };
  const Tensor a = node.input(0);
  if (wanted[1]) cotangents[1] = solved_as(node, adjoint(a), g[0]);
  if (!wanted[0]) return;
  const Tensor x = node.output(0);
  if (wanted[1] || a.rank() != x.rank() || batch_of(a) != batch_of(x)) {
    const Tensor gb = wanted[1] ? cotangents[1] : solved_as(node, adjoint(a), g[0]);
    cotangents[0] = evaluate(of_a, gb, x);
    return;
  }
  struct Adjoint {
    GradFn& node;
    Tensor operator()(const Tensor& a, const Tensor& b) const {
      return solved_as(node, linalg::adjoint(a), b);
    }
    Term operator()(const Term& a, const Term& b) const { return solved_by_adjoint(a, b); }
  } const solved{node};
  cotangents[0] =
      evaluate([&](const auto& a, const auto& g, const auto& x) { return of_a(solved(a, g), x); },
               a, g[0], x);
}
Tensor solve_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  if (out > 0) return {};
  Tensor right = t[1];
  if (t[0].defined()) {
    const Tensor moved = neg(matmul(t[0], node.output(0)));
    right = right.defined() ? add(right, moved) : moved;
  }
  return solved_as(node, node.input(0), right);
}

// ---- inv

void inv_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_square("inv", a);
  const int64_t n = a.size(-1);
  const Tensor y = Tensor::empty(a.sizes(), a.dtype(), a.device());
  const Tensor info = Tensor::empty(batch_of(a), DType::i64, a.device());
  KernelCall(GD_LINALG, GD_SOLVE)
      .in(a)
      .in(eye(n, n, a.dtype(), a.device()), a.sizes())
      .integer(0)
      .out(y)
      .out(info)
      .run();
  ctx.outputs.push_back(y);
  ctx.save_output(0);
  settle(ctx, info, [&] { refuse_singular("inv", info, n); });
}
Tensor inv_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return evaluate(
      [](const auto& y, const auto& gy) { return neg_matmul(matmul(adjoint(y), gy), adjoint(y)); },
      node.output(0), g[0]);
}
Tensor inv_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  if (out > 0) return {};
  const Tensor y = node.output(0);
  return neg(matmul(matmul(y, t[0]), y));
}

// ---- determinants

void det_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_square("det", a);
  const Tensor y = Tensor::empty(batch_of(a), a.dtype(), a.device());
  KernelCall(GD_LINALG, GD_DET).in(a).out(y).out_none().out_none().run();
  ctx.outputs.push_back(y);
  ctx.save_input(0);
  ctx.save_output(0);
}
// The products of all entries of s (.., n) but one, without dividing.
Tensor products_of_others(const Tensor& s) {
  const int64_t n = s.size(-1);
  const Tensor all = expand(unsqueeze(s, -2), with(batch_of(unsqueeze(s, -2)), {n, n}));
  return prod(where(cast(eye(n, n, s.dtype(), s.device()), DType::bool_), ones_like(all), all),
              {-1});
}
// d det / dA conjugated: the matrix of cofactors, which a singular matrix has too.
Tensor cofactors(const Tensor& a, const Tensor& d) {
  if (a.size(-1) == 0) return a;
  if (!has_zero(d)) return mul(conj(unsqueeze(unsqueeze(d, -1), -1)), adjoint(inv(a)));
  const Tensors f = svd(a, false);
  const Tensor turn = conj(mul(det(f[0]), det(f[2])));
  return mul(unsqueeze(unsqueeze(turn, -1), -1),
             matmul(by_columns(f[0], products_of_others(f[1])), f[2]));
}
Tensor det_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return mul(unsqueeze(unsqueeze(g[0], -1), -1), cofactors(node.input(0), node.output(0)));
}
Tensor det_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return sum(mul(conj(cofactors(node.input(0), node.output(0))), t[0]), {-2, -1});
}

void slogdet_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_square("slogdet", a);
  const Tensor sign = Tensor::empty(batch_of(a), a.dtype(), a.device());
  const Tensor size = Tensor::empty(batch_of(a), real_dtype(a.dtype()), a.device());
  KernelCall(GD_LINALG, GD_DET).in(a).out_none().out(sign).out(size).run();
  ctx.outputs.push_back(sign);
  ctx.outputs.push_back(size);
  ctx.save_input(0);
  if (is_complex(a.dtype())) ctx.save_output(0);
}
Tensor slogdet_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor a = node.input(0);
  Tensor weight;
  if (g[1].defined()) weight = g[1];
  if (g[0].defined() && is_complex(a.dtype())) {  // the sign of a real matrix is constant
    const Tensor turn = neg(imaginary_part(mul(conj(g[0]), node.output(0))));
    weight = weight.defined() ? add(weight, turn) : turn;
  }
  if (!weight.defined()) return {};
  return mul(unsqueeze(unsqueeze(weight, -1), -1), adjoint(inv(a)));
}
Tensor slogdet_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Tensor a = node.input(0);
  if (out == 0 && !is_complex(a.dtype())) return {};
  const Tensor trace = sum(diagonal_of(apply1(*solve_info, {a, t[0]})), {-1});
  return out == 1 ? real(trace) : mul(imaginary_part(trace), node.output(0));
}

void need_rows(const char* op, const Tensor& a, const Tensor& b, bool left) {
  const int64_t n = left ? a.size(-2) : a.size(-1), got = left ? b.size(-2) : b.size(-1);
  if (n != got)
    fail(ErrorKind::shape, op, "A has shape ", a.sizes(), ", B ", b.sizes(), "; B should have ", n,
         left ? " rows" : " columns");
}
// f(A, B) for B as matrices: a vector is a column; without `left` by A^T X^T = B^T.
template <class F>
Tensor sided(const char* op, const Tensor& a, const Tensor& b, bool left, F&& f) {
  need_square(op, a);
  need_dtype(op, b.dtype(), a.dtype());
  if (b.rank() == 0) fail(ErrorKind::shape, op, "B is 0-d, expected (n) or (..., n, r)");
  if (is_vector(a, b)) {
    if (!left)
      fail(ErrorKind::shape, op, "B has shape ", b.sizes(),
           ", expected matrices where A stands right of X");
    const Tensor column = unsqueeze(b, -1);
    need_rows(op, a, column, true);
    return squeeze(f(a, column), {-1});
  }
  need_rows(op, a, b, left);
  if (left) return f(a, b);
  return transpose(f(transpose(a, -2, -1), transpose(b, -2, -1)), -2, -1);
}

}  // namespace

Tensor by_triangle(const Tensor& A, const Tensor& B, bool upper, bool unit, Form form) {
  return apply1(*triangular_info, {A, B}, {upper, unit, int64_t(form)});
}

void register_solving() {
  OpInfo o =
      new_op("triangular_solve", "linalg", "solves by a triangle; attributes as LAPACK's trtrs",
             "op(A) y = B", {{"A"}, {"B"}},
             {bool_attr("upper", false, "which triangle is read"),
              bool_attr("unitriangular", false, "the diagonal counts as ones"),
              int_attr("form", 0, "op(A): 0 A, 1 A^T, 2 A^H")});
  o.forward = triangular_forward;
  o.vjp = vjp_of<triangular_vjps>;
  o.vjps = triangular_vjps;
  o.jvp = triangular_jvp;
  o.call = [](Operands in, const Attrs& a) {
    const char* op = "triangular_solve";
    need_square(op, in[0]);
    need_matrices(op, in[1], "B");
    need_dtype(op, in[1].dtype(), in[0].dtype());
    need_rows(op, in[0], in[1], true);
    if (a[2].integer < 0 || a[2].integer > 2)
      fail(ErrorKind::value, op, "form is ", a[2].integer, ", expected 0, 1 or 2");
    return by_triangle(in[0], in[1], a[0].integer, a[1].integer, Form(a[2].integer));
  };
  triangular_info = &add_op(std::move(o));
  const AttrSpec side = bool_attr("left", true, "A X = B, else X A = B");
  add_composition("solve_triangular", "linalg", "solves by a triangle of A", "A y = B",
                  {{"A"}, {"B"}},
                  {{"upper", AttrValue::Type::boolean, {}, "which triangle is read"},
                   side,
                   bool_attr("unitriangular", false, "the diagonal counts as ones")},
                  [](Operands in, const Attrs& a) {
                    return solve_triangular(in[0], in[1], a[0].integer, a[1].integer, a[2].integer);
                  });

  o = new_op("linear_solve", "linalg", "solves by LU with partial pivoting; B of matrices",
             "A y = B", {{"A"}, {"B"}});
  o.forward = solve_forward;
  o.vjp = vjp_of<solve_vjps>;
  o.vjps = solve_vjps;
  o.jvp = solve_jvp;
  o.call = [](Operands in, const Attrs&) {
    need_matrices("linear_solve", in[1], "B");
    return solve(in[0], in[1]);
  };
  solve_info = &add_op(o);
  solve_ex_info = &add_ex(o, [](Operands in, const Attrs&) {
    need_matrices("linear_solve_ex", in[1], "B");
    return solve_ex(in[0], in[1]);
  });
  add_composition("solve", "linalg", "solves by LU; B of matrices or vectors", "A y = B",
                  {{"A"}, {"B"}}, {side},
                  [](Operands in, const Attrs& a) { return solve(in[0], in[1], a[0].integer); });
  add_composition("solve_ex", "linalg", "solve, and info instead of a refusal", "A y = B",
                  {{"A"}, {"B"}}, {side},
                  [](Operands in, const Attrs& a) { return solve_ex(in[0], in[1], a[0].integer); });
  add_composition(
      "cholesky_solve", "linalg", "solves A X = B, given the factor of A = L L^H", "L L^H y = B",
      {{"B"}, {"L"}}, {bool_attr("upper", false, "the factor is L^H")},
      [](Operands in, const Attrs& a) { return cholesky_solve(in[0], in[1], a[0].integer); });

  o = new_op("inv", "linalg", "the inverse, by LU", "A y = 1", {{"A"}});
  o.forward = inv_forward;
  o.vjp = inv_vjp;
  o.jvp = inv_jvp;
  o.call = [](Operands in, const Attrs&) { return inv(in[0]); };
  inv_info = &add_op(o);
  inv_ex_info = &add_ex(o, [](Operands in, const Attrs&) { return inv_ex(in[0]); });
  o = new_op("det", "linalg", "the determinant, by LU", "y = det A", {{"A"}});
  o.forward = det_forward;
  o.vjp = det_vjp;
  o.jvp = det_jvp;
  o.call = [](Operands in, const Attrs&) { return det(in[0]); };
  det_info = &add_op(std::move(o));
  o = new_op("slogdet", "linalg", "sign (or phase) and logarithm of the size of the determinant",
             "det A = sign * exp(logabsdet)", {{"A"}});
  o.forward = slogdet_forward;
  o.vjp = slogdet_vjp;
  o.jvp = slogdet_jvp;
  o.call = [](Operands in, const Attrs&) { return slogdet(in[0]); };
  slogdet_info = &add_op(std::move(o));
}

}  // namespace linalg

using namespace linalg;

Tensor solve(const Tensor& A, const Tensor& B, bool left) {
  return sided("solve", A, B, left, [](const Tensor& a, const Tensor& b) {
    return apply1(*solve_info, {a, b});
  });
}
Tensors solve_ex(const Tensor& A, const Tensor& B, bool left) {
  Tensor info;
  const Tensor x = sided("solve_ex", A, B, left, [&](const Tensor& a, const Tensor& b) {
    const Tensors f = all_of(*solve_ex_info, {a, b});
    info = f[1];
    return f[0];
  });
  return {x, info};
}
Tensor solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left,
                        bool unitriangular) {
  return sided("solve_triangular", A, B, left, [&](const Tensor& a, const Tensor& b) {
    return by_triangle(a, b, left == upper, unitriangular, Form::plain);
  });
}
Tensor cholesky_solve(const Tensor& B, const Tensor& L, bool upper) {
  return sided("cholesky_solve", L, B, true, [&](const Tensor& l, const Tensor& b) {
    const Tensor half = by_triangle(l, b, upper, false, upper ? Form::adjoint : Form::plain);
    return by_triangle(l, half, upper, false, upper ? Form::plain : Form::adjoint);
  });
}
Tensor inv(const Tensor& A) { return apply1(*inv_info, {A}); }
Tensors inv_ex(const Tensor& A) { return all_of(*inv_ex_info, {A}); }
Tensor det(const Tensor& A) { return apply1(*det_info, {A}); }
Tensors slogdet(const Tensor& A) { return all_of(*slogdet_info, {A}); }

}  // namespace gradus
