// Factors of a matrix: cholesky, lu, qr. Their derivatives: Seeger et al., "Auto-differentiating
// linear algebra" (arXiv 1710.08717), and for rectangular LU the same steps block by block. A
// cotangent counts only where a factor can be other than 0.
#include "ops/linalg/formula.hpp"

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo *cholesky_info, *cholesky_ex_info, *lu_factor_info, *lu_factor_ex_info, *qr_info;

OpInfo factor_op(std::string name, std::string doc, std::string formula,
                 std::vector<AttrSpec> attrs) {
  return new_op(std::move(name), "linalg", std::move(doc), std::move(formula), {{"A"}},
                std::move(attrs));
}

// ---- cholesky

void cholesky_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_square("cholesky", a);
  const Tensor l = Tensor::empty(a.sizes(), a.dtype(), a.device());
  const Tensor info = Tensor::empty(batch_of(a), DType::i64, a.device());
  KernelCall(GD_LINALG, GD_CHOLESKY).in(a).out(l).out(info).run();
  ctx.outputs.push_back(ctx.attrs[0].integer ? dense_copy(adjoint(l.detach())) : l);
  ctx.save_output(0);
  settle(ctx, info, [&] {
    const Failure f = first_failure(info);
    if (f.info > 0)  // what is not finite gives NaN
      fail(ErrorKind::numeric, "cholesky", place_in(batch_of(a), f.element),
           "the matrix is not positive definite: pivot ", f.info - 1, " of ", a.size(-1),
           " is not positive");
  });
}
// L, or of L^H asked for its adjoint.
Tensor lower_of(GradFn& node, const Tensor& factor) {
  return node.attr(0).integer ? adjoint(factor) : factor;
}
// dL = L Phi(L^-1 dA L^-H); its transpose is the vjp. The lower half of L^H g has nothing of g's
// upper one.
Tensor cholesky_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return evaluate(
      [](const auto& l, const auto& gl) {
        const auto inner = lower_half(matmul(adjoint(l), gl));
        const auto left = by_triangle(l, inner, false, false, Form::adjoint);          // L^-H ..
        const auto both = by_triangle(l, adjoint(left), false, false, Form::adjoint);  // .. L^-1
        return halved(sym(both));
      },
      lower_of(node, node.output(0)), lower_of(node, g[0]));
}
Tensor cholesky_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  if (out > 0) return {};
  const Tensor l = lower_of(node, node.output(0));
  const Tensor hermitian = halved(sym(t[0]));
  const Tensor left = by_triangle(l, hermitian, false, false, Form::plain);
  const Tensor both = adjoint(by_triangle(l, adjoint(left), false, false, Form::plain));
  return lower_of(node, matmul(l, lower_half(both)));
}

// ---- lu

void lu_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_matrices("lu_factor", a);
  const Shape batch = batch_of(a);
  const Tensor lu = Tensor::empty(a.sizes(), a.dtype(), a.device());
  const Tensor rows = Tensor::empty(with(batch, {a.size(-2)}), DType::i64, a.device());
  const Tensor info = Tensor::empty(batch, DType::i64, a.device());
  KernelCall(GD_LINALG, GD_LU).in(a).out(lu).out(rows).out(info).run();
  ctx.outputs.push_back(lu);
  ctx.outputs.push_back(rows);
  settle(ctx, info, [] {});  // the factors of a singular matrix are whole
  ctx.save_output(0);
  ctx.save_output(1);
}
struct Lu {
  Tensor l, u, rows;  // l (m, k) with its unit diagonal, u (k, n)
};
Tensor unit_lower(const Tensor& lu, int64_t k) {
  const Tensor below = tril(slice(lu, -1, 0, k), -1);
  return add(below, eye(lu.size(-2), k, lu.dtype(), lu.device()));
}
Tensor upper_part(const Tensor& lu, int64_t k) { return triu(slice(lu, -2, 0, k)); }
Lu lu_of(GradFn& node) {
  const Tensor lu = node.output(0);
  const int64_t k = std::min(lu.size(-2), lu.size(-1));
  return {unit_lower(lu, k), upper_part(lu, k), node.output(1)};
}
Tensor top(const Tensor& x, int64_t k) { return slice(x, -2, 0, k); }
Tensor rest_of_rows(const Tensor& x, int64_t k) { return slice(x, -2, k); }
Tensor left(const Tensor& x, int64_t k) { return slice(x, -1, 0, k); }
Tensor rest_of_columns(const Tensor& x, int64_t k) { return slice(x, -1, k); }

// The packed factors are read as triangles where they are divided by. Below the diagonal L^H g has
// what is below g's alone, above it g U^H what is above.
Tensor square_lu_vjp(const Tensor& packed, const Tensor& order, const Tensor& g) {
  return evaluate(
      [](const auto& lu, const auto& gr, const auto& rows) {
        const auto of_l = add(gr, matmul(adjoint(strictly_lower(lu)), gr));
        const auto of_u = matmul(gr, adjoint(triu(lu)));
        const auto under =
            by_triangle(lu, strictly_lower_else(of_l, of_u), false, true, Form::adjoint);
        return unpermuted(over_adjoint(under, lu), rows);
      },
      packed, g, order);
}
Tensor lu_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor lu = node.output(0), rows = node.output(1);
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor square = top(left(lu, k), k);
  refuse_rank("lu", square);
  if (m == n) return square_lu_vjp(lu, rows, g[0]);
  const auto under = [&](const Tensor& x) {
    return by_triangle(square, x, false, true, Form::adjoint);
  };
  const Tensor l = tril(left(lu, k), -1), u = triu(top(lu, k));  // L without its ones
  const auto of_l = [&](const Tensor& x) { return add(top(x, k), matmul(adjoint(l), x)); };
  const auto of_u = [&](const Tensor& x) { return matmul(x, adjoint(u)); };
  const Tensor gl = tril(left(g[0], k), -1), gu = triu(top(g[0], k));
  const Tensor apart = sub(of_l(gl), of_u(gu));
  if (m < n) {
    const Tensor first = add(left(gu, k), over_adjoint(tril(apart, -1), square));
    return unpermuted(under(cat({first, rest_of_columns(gu, k)}, -1)), rows);
  }
  const Tensor first = sub(top(gl, k), under(triu(apart)));
  return unpermuted(over_adjoint(cat({first, rest_of_rows(gl, k)}, -2), square), rows);
}
Tensor lu_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  if (out > 0) return {};
  const auto [l, u, rows] = lu_of(node);
  const int64_t m = l.size(-2), n = u.size(-1), k = std::min(m, n);
  refuse_rank("lu", left(u, k));
  const Tensor l1 = top(l, k), u1 = left(u, k), dpa = permuted(t[0], rows);
  const auto below = [&](const Tensor& x) { return by_triangle(l1, x, false, true, Form::plain); };
  const Tensor z = over(below(left(top(dpa, k), k)), u1);
  const Tensor dl = matmul(l1, tril(z, -1)), du = matmul(triu(z), u1);
  const Tensor packed = add(tril(dl, -1), triu(du));
  if (m == n) return packed;
  if (m < n) {
    const Tensor more = below(sub(rest_of_columns(dpa, k), matmul(dl, rest_of_columns(u, k))));
    return cat({packed, more}, -1);
  }
  const Tensor more = over(sub(rest_of_rows(dpa, k), matmul(rest_of_rows(l, k), du)), u1);
  return cat({packed, more}, -2);
}

// ---- qr

enum Mode { kReduced, kComplete, kR };
Mode mode_of(std::string_view name) {
  if (name == "reduced") return kReduced;
  if (name == "complete") return kComplete;
  if (name == "r") return kR;
  fail(ErrorKind::value, "qr", "mode is \"", name, "\"; write reduced, complete or r");
}

void qr_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_matrices("qr", a);
  const Mode mode = mode_of(ctx.attrs[0].text);
  const Shape batch = batch_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = mode == kComplete ? m : std::min(m, n);
  const Tensor q = Tensor::empty(with(batch, {m, mode == kR ? 0 : k}), a.dtype(), a.device());
  const Tensor r = Tensor::empty(with(batch, {k, n}), a.dtype(), a.device());
  KernelCall call(GD_LINALG, GD_QR);
  call.in(a).integer(ctx.attrs[1].integer);
  (mode == kR ? call.out_none() : call.out(q)).out(r).run();
  ctx.outputs.push_back(q);
  ctx.outputs.push_back(r);
  ctx.save_output(0);
  ctx.save_output(1);
}
void refuse_undetermined(GradFn& node) {
  const Mode mode = mode_of(node.attr(0).text);
  const TensorMeta& a = node.input_metas()[0];
  const int64_t m = a.sizes[a.sizes.size() - 2], n = a.sizes.back();
  if (mode == kR || (mode == kComplete && m > n))
    fail(ErrorKind::autograd, "qr",
         mode == kR
             ? "mode r has no derivative, since it keeps no Q"
             : join("mode complete of (", m, ", ", n, ") has no derivative: the columns of Q from ",
                    n, " on are not determined"),
         "; use mode reduced");
}
Tensor qr_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor q = node.output(0), r = node.output(1);
  refuse_undetermined(node);
  const int64_t k = q.size(-1), n = r.size(-1);
  const Tensor u = left(r, k);
  refuse_rank("qr", u);
  Tensor of_q = g[0], of_r = g[1], rest;
  if (n > k) {  // A = [X Y], R = [U V]: Y = Q V
    const Tensor whole = or_zeros(g[1], node.output_metas()[1]), gv = rest_of_columns(whole, k);
    of_r = left(whole, k);
    rest = matmul(q, gv);
    const Tensor more = matmul(matmul(q, rest_of_columns(r, k)), adjoint(gv));
    of_q = of_q.defined() ? add(of_q, more) : more;
  }
  const Tensor gx = evaluate(
      [](const auto& q, const auto& u, const auto& gq, const auto& gu) {
        // W + W^H of its upper half, the diagonal's real part once.
        const auto turned = [&](const auto& w) { return matmul(q, sym(lower_half(adjoint(w)))); };
        const auto of = [&] { return matmul(triu(gu), adjoint(u)); };
        if (!gq.defined()) return over_adjoint(turned(of()), u);
        const auto along = matmul(adjoint(q), gq);
        return over_adjoint(add(gq, turned(gu.defined() ? sub(of(), along) : neg(along))), u);
      },
      q, u, of_q, of_r);
  return n > k ? cat({gx, rest}, -1) : gx;
}
Tensor qr_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Tensor q = node.output(0), r = node.output(1);
  refuse_undetermined(node);
  const int64_t k = q.size(-1), n = r.size(-1);
  const Tensor u = left(r, k);
  refuse_rank("qr", u);
  const Tensor along = over(left(t[0], k), u);  // dA R^-1
  const Tensor x = matmul(adjoint(q), along), below = tril(x, -1);
  Tensor turn = sub(below, adjoint(below));
  if (is_complex(x.dtype())) turn = add(turn, diag_embed(imaginary_part(diagonal_of(x))));
  if (out == 0) {
    const Tensor dq = matmul(q, turn);
    return n > k ? dq : add(dq, sub(along, matmul(q, x)));
  }
  if (n > k) return sub(matmul(adjoint(q), t[0]), matmul(turn, r));
  return matmul(sub(x, turn), r);
}

}  // namespace

void register_factors() {
  OpInfo o = factor_op("cholesky", "the triangular factor of a positive definite matrix",
                       "A = y y^H, of (A + A^H) / 2",
                       {bool_attr("upper", false, "y^H instead: A = y^H y")});
  o.forward = cholesky_forward;
  o.vjp = cholesky_vjp;
  o.jvp = cholesky_jvp;
  o.call = [](Operands in, const Attrs& a) { return cholesky(in[0], a[0].integer); };
  cholesky_info = &add_op(o);
  cholesky_ex_info =
      &add_ex(o, [](Operands in, const Attrs& a) { return cholesky_ex(in[0], a[0].integer); });

  o = factor_op("lu_factor", "LU by partial pivoting, packed; and the order of the rows",
                "A[rows] = L U", {});
  o.forward = lu_forward;
  o.vjp = lu_vjp;
  o.jvp = lu_jvp;
  o.call = [](Operands in, const Attrs&) { return lu_factor(in[0]); };
  lu_factor_info = &add_op(o);
  lu_factor_ex_info = &add_ex(o, [](Operands in, const Attrs&) { return lu_factor_ex(in[0]); });
  add_composition("lu", "linalg", "P, L, U: permutation, unit lower and upper factor", "A = P L U",
                  {{"A"}}, {}, [](Operands in, const Attrs&) { return lu(in[0]); });

  o = factor_op("qr", "Q with orthonormal columns and the upper factor R", "A = Q R",
                {text_attr("mode", "reduced", "reduced, complete, or r: Q has no columns"),
                 bool_attr("positive", false, "R's diagonal is not negative")});
  o.forward = qr_forward;
  o.vjp = qr_vjp;
  o.jvp = qr_jvp;
  o.call = [](Operands in, const Attrs& a) { return qr(in[0], a[0].text, a[1].integer); };
  qr_info = &add_op(std::move(o));
  const auto variant = [](const char* name, const char* doc, const char* formula,
                          Tensors (*f)(const Tensor&)) {
    add_composition(name, "linalg", doc, formula, {{"A"}}, {},
                    [f](Operands in, const Attrs&) { return f(in[0]); });
  };
  variant("ql", "Q with orthonormal columns and a lower factor; m >= n", "A = Q L", ql);
  variant("lq", "a lower factor and Q with orthonormal rows", "A = L Q", lq);
  variant("rq", "an upper factor and Q with orthonormal rows; m <= n", "A = R Q", rq);
}

}  // namespace linalg

using namespace linalg;

Tensor cholesky(const Tensor& A, bool upper) { return apply1(*cholesky_info, {A}, {upper}); }
Tensors cholesky_ex(const Tensor& A, bool upper) { return all_of(*cholesky_ex_info, {A}, {upper}); }
Tensors lu_factor(const Tensor& A) { return all_of(*lu_factor_info, {A}); }
Tensors lu_factor_ex(const Tensor& A) { return all_of(*lu_factor_ex_info, {A}); }
Tensors lu(const Tensor& A) {
  const Tensors f = lu_factor(A);
  const int64_t m = A.size(-2), k = std::min(m, A.size(-1));
  const Tensor from = eq(unsqueeze(f[1], -2), unsqueeze(iota(m, A.device()), -1));
  return {cast(from, A.dtype()), unit_lower(f[0], k), upper_part(f[0], k)};
}
Tensors qr(const Tensor& A, const char* mode, bool positive) {
  return all_of(*qr_info, {A}, {mode, positive});
}
// With J, which reverses: A J = Q R gives A = (Q J) (J R J).
Tensors ql(const Tensor& A) {
  need_matrices("ql", A);
  if (A.size(-2) < A.size(-1))
    fail(ErrorKind::shape, "ql", "A has shape ", A.sizes(),
         ", expected m >= n; lq takes wide ones");
  const Tensors f = qr(flip(A, {-1}));
  return {flip(f[0], {-1}), flip(f[1], {-2, -1})};
}
Tensors lq(const Tensor& A) {
  need_matrices("lq", A);
  const Tensors f = qr(adjoint(A));
  return {adjoint(f[1]), adjoint(f[0])};
}
Tensors rq(const Tensor& A) {
  need_matrices("rq", A);
  if (A.size(-2) > A.size(-1))
    fail(ErrorKind::shape, "rq", "A has shape ", A.sizes(),
         ", expected m <= n; qr takes tall ones");
  const Tensors f = lq(flip(A, {-2}));
  return {flip(f[0], {-2, -1}), flip(f[1], {-2})};
}

}  // namespace gradus
