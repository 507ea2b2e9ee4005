// Spectra: eigh, svd, eig, and their values alone, which need no gap. Derivatives: Giles (Oxford
// NA-08/01) for eigenvalues, Townsend's note and Wan & Zhang (arXiv 1909.02659) for the SVD with
// its phase term, arXiv 1701.00392 (4.77) for eig. E_ij is the gap between value j and value i.
#include "ops/linalg/formula.hpp"

#include "engine/device/observer.hpp"

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo *eigh_info, *svd_info, *eig_info;

void check_converged(const char* op, const Tensor& info) {
  const Failure f = first_failure(info);
  if (f.element < 0) return;
  fail(ErrorKind::numeric, op, place_in(info.sizes(), f.element),
       f.info < 0 ? "the matrix has a NaN or an infinity" : "the iteration did not converge");
}
// Room for n real numbers of each matrix.
Tensor vectors_for(const Tensor& a, int64_t n) {
  return Tensor::empty(with(batch_of(a), {n}), real_dtype(a.dtype()), a.device());
}
Tensor info_of(const Tensor& a) { return Tensor::empty(batch_of(a), DType::i64, a.device()); }
// In safe mode what divides is damped, for which formulas have no step.
template <class F, class... In>
Tensor evaluate_in(Degenerate mode, F&& f, const In&... in) {
  return mode == Degenerate::exact ? evaluate(f, in...) : f(in...);
}

// ---- eigh. attrs: degenerate.

// {w, V} of these dtypes, for eigh and eig.
void eigen_forward(OpContext& ctx, gd_linalg which, DType of_w, DType of_v) {
  const char* op = ctx.op.name.c_str();
  const Tensor& a = ctx.inputs[0];
  const Tensor w = Tensor::empty(with(batch_of(a), {a.size(-1)}), of_w, a.device());
  const Tensor v = Tensor::empty(a.sizes(), of_v, a.device());
  const Tensor info = info_of(a);
  KernelCall(GD_LINALG, which).in(a).out(w).out(v).out(info).run();
  check_converged(op, info);
  ctx.outputs.push_back(w);
  ctx.outputs.push_back(v);
  ctx.save_output(0);
  ctx.save_output(1);
}
void eigh_forward(OpContext& ctx) {
  need_square("eigh", ctx.inputs[0]);
  const DType t = ctx.inputs[0].dtype();
  eigen_forward(ctx, GD_EIGH, real_dtype(t), t);
}
Tensor eigh_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor w = node.output(0), v = node.output(1);
  if (!g[1].defined())
    return evaluate(
        [](const auto& v, const auto& gw) { return matmul(by_columns(v, gw), adjoint(v)); }, v,
        g[0]);
  const Degenerate mode = degenerate_of("eigh", node.attr(0));
  const Lazy turn = [&] { return matmul(adjoint(v), g[1]); }, scale = [&] { return g[1]; };
  if (is_complex(v.dtype())) refuse_phase("eigh", turn(), scale);
  if (mode == Degenerate::exact) refuse_ties("eigh", w, turn, scale);
  return evaluate_in(
      mode,
      [&](const auto& v, const auto& w, const auto& gw, const auto& gv) {
        const auto turn = matmul(adjoint(v), gv);
        const auto inner = with_diagonal(mul(turn, reciprocal_gaps(w, mode)), gw);
        return halved(sym(sandwich(v, inner, adjoint(v))));
      },
      v, w, g[0], g[1]);
}
Tensor eigh_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Tensor w = node.output(0), v = node.output(1);
  const Tensor turn = halved(sandwich(adjoint(v), sym(t[0]), v));
  if (out == 0) return real(diagonal_of(turn));
  const Degenerate mode = degenerate_of("eigh", node.attr(0));
  if (mode == Degenerate::exact)
    refuse_ties(
        "eigh", w, [&] { return turn; }, [&] { return t[0]; });
  return matmul(v, mul(turn, reciprocal_gaps(w, mode)));
}

// ---- svd. attrs: full_matrices, degenerate.

void svd_forward(OpContext& ctx) {
  const Tensor& a = ctx.inputs[0];
  need_matrices("svd", a);
  const Shape batch = batch_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const bool full = ctx.attrs[0].integer != 0;
  const Tensor u = Tensor::empty(with(batch, {m, full ? m : k}), a.dtype(), a.device());
  const Tensor s = vectors_for(a, k);
  const Tensor vh = Tensor::empty(with(batch, {full ? n : k, n}), a.dtype(), a.device());
  const Tensor info = info_of(a);
  KernelCall(GD_LINALG, GD_SVD).in(a).out(u).out(s).out(vh).out(info).run();
  check_converged("svd", info);
  for (const Tensor& t : {u, s, vh}) ctx.outputs.push_back(t);
  for (const size_t i : {0, 1, 2}) ctx.save_output(i);
}
struct Svd {
  Tensor u, s, vh;  // thin
  int64_t m, n;
};
Svd thin(GradFn& node, bool vectors) {
  const Tensor s = node.output(1);
  const int64_t k = s.size(-1);
  const Tensor all_u = node.output(0), all_vh = node.output(2);
  const int64_t m = all_u.size(-2), n = all_vh.size(-1);
  if (vectors && node.attr(0).integer && m != n)
    fail(ErrorKind::autograd, "svd", "full_matrices of (", m, ", ", n,
         ") has no derivative: the vectors from ", k,
         " on are not determined; use full_matrices=false");
  return {all_u.size(-1) == k ? all_u : slice(all_u, -1, 0, k), s,
          all_vh.size(-2) == k ? all_vh : slice(all_vh, -2, 0, k), m, n};
}
// Of which one may be undefined, and 0.
template <class M>
M sum_of(const M& x, const M& y) {
  return !x.defined() ? y : !y.defined() ? x : add(x, y);
}
template <class M>
M difference_of(const M& x, const M& y) {
  return !x.defined() ? neg(y) : !y.defined() ? x : sub(x, y);
}
// (x / (s_j - s_i) + y / (s_i + s_j)) / 2, the diagonal by 2 s_i alone: the rules in this form keep
// more digits of close values. At a tie x is 0 for any loss that is smooth there, whatever the
// limit of its quotient is, so a tie is let pass only where both are 0.
constexpr auto divided = [](const auto& s, const auto& x, const auto& y, Degenerate mode) {
  return halved(add(mul(x, reciprocal_gaps(s, mode)), mul(y, reciprocal_sums(s))));
};
void refuse_divided(const Svd& f, const Lazy& x, const Lazy& y, const Lazy& scale,
                    Degenerate mode) {
  if (mode == Degenerate::exact)
    refuse_ties(
        "svd", f.s, [&] { return add(abs(x()), abs(y())); }, scale);
  refuse_zeros(
      "svd", f.s, [&] { return abs(diagonal_of(y())); }, scale);
}
// Of columns x that are left over outside a basis, and divided by S.
void refuse_rest(const Svd& f, const Lazy& x, const Lazy& scale) {
  refuse_zeros(
      "svd", f.s, [&] { return amax(abs(x()), {-2}); }, scale);
}
Tensor svd_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const bool vectors = g[0].defined() || g[2].defined();
  const Svd f = thin(node, vectors);
  if (!vectors)
    return evaluate(
        [](const auto& u, const auto& gs, const auto& vh) { return matmul(by_columns(u, gs), vh); },
        f.u, g[1], f.vh);
  const Tensor gu = g[0], gvh = g[2];
  const Lazy scale = [&] {
    Tensors parts;
    for (const Tensor& t : {gu, gvh})
      if (t.defined()) parts.push_back(reshape(t, {-1}));
    return cat(parts);
  };
  // What the cotangents turn the vectors by.
  const auto turn_u = [](const auto& u, const auto& gu) { return matmul(adjoint(u), gu); };
  const auto turn_v = [](const auto& vh, const auto& gvh) { return matmul(vh, adjoint(gvh)); };
  const auto turns = [&](const auto& u, const auto& vh, const auto& gu, const auto& gvh) {
    return std::pair(gu.defined() ? skew(turn_u(u, gu)) : gu,
                     gvh.defined() ? skew(turn_v(vh, gvh)) : gvh);
  };
  const Degenerate mode = degenerate_of("svd", node.attr(1));
  const Lazy sums = [&] { return std::apply(sum_of<Tensor>, turns(f.u, f.vh, gu, gvh)); };
  const Lazy differences = [&] {
    return std::apply(difference_of<Tensor>, turns(f.u, f.vh, gu, gvh));
  };
  if (is_complex(f.u.dtype())) refuse_phase("svd", halved(sums()), scale);
  refuse_divided(f, sums, differences, scale, mode);
  const bool tall = f.m > f.n && gu.defined(), wide = f.m < f.n && gvh.defined();
  const auto outside_u = [&](const auto& u, const auto& gu) {
    return sub(gu, matmul(u, turn_u(u, gu)));
  };
  const auto outside_v = [&](const auto& vh, const auto& gvh) {
    return sub(adjoint(gvh), matmul(adjoint(vh), turn_v(vh, gvh)));
  };
  if (tall)
    refuse_rest(
        f, [&] { return outside_u(f.u, gu); }, scale);
  if (wide)
    refuse_rest(
        f, [&] { return outside_v(f.vh, gvh); }, scale);
  return evaluate_in(
      mode,
      [&](const auto& u, const auto& s, const auto& vh, const auto& gu, const auto& gs,
          const auto& gvh) {
        const auto [of_u, of_v] = turns(u, vh, gu, gvh);
        const auto inner =
            with_diagonal(divided(s, sum_of(of_u, of_v), difference_of(of_u, of_v), mode), gs);
        const auto ga = sandwich(u, inner, vh);
        if (tall) return add(ga, matmul(by_columns(outside_u(u, gu), reciprocals(s)), vh));
        if (wide)
          return add(ga, matmul(u, adjoint(by_columns(outside_v(vh, gvh), reciprocals(s)))));
        return ga;
      },
      f.u, f.s, f.vh, gu, g[1], gvh);
}
Tensor svd_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Svd f = thin(node, out != 1);
  const Tensor p = sandwich(adjoint(f.u), t[0], adjoint(f.vh));
  if (out == 1) return real(diagonal_of(p));
  const bool of_u = out == 0;
  const Tensor x = sym(p), y = of_u ? skew(p) : neg(skew(p));
  const Lazy scale = [&] { return t[0]; };
  const Degenerate mode = degenerate_of("svd", node.attr(1));
  refuse_divided(
      f, [&] { return x; }, [&] { return y; }, scale, mode);
  const Tensor turn = divided(f.s, x, y, mode);
  const Tensor inside = of_u ? f.u : adjoint(f.vh);
  Tensor d = matmul(inside, turn);
  if (of_u ? f.m > f.n : f.m < f.n) {
    const Tensor along = of_u ? matmul(t[0], adjoint(f.vh)) : matmul(adjoint(t[0]), f.u);
    const Tensor rest = sub(along, matmul(inside, matmul(adjoint(inside), along)));
    refuse_rest(
        f, [&] { return rest; }, scale);
    d = add(d, by_columns(rest, reciprocals(f.s)));
  }
  return of_u ? d : adjoint(d);
}

// ---- eig. attrs: degenerate.

void eig_forward(OpContext& ctx) {
  need_square("eig", ctx.inputs[0]);
  const DType t = complex_dtype(ctx.inputs[0].dtype());
  eigen_forward(ctx, GD_EIG, t, t);
}
Tensor eig_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor w = node.output(0), v = node.output(1), vh = adjoint(v);
  Tensor inner = g[0].defined() ? diag_embed(g[0]) : Tensor();
  if (g[1].defined()) {
    const Degenerate mode = degenerate_of("eig", node.attr(0));
    const Tensor turn = matmul(vh, g[1]);
    const Lazy scale = [&] { return g[1]; };
    refuse_phase("eig", turn, scale);
    // Along v itself nothing moves: its norm is 1.
    const Tensor moved = sub(turn, by_columns(matmul(vh, v), real(diagonal_of(turn))));
    if (mode == Degenerate::exact)
      refuse_ties(
          "eig", w, [&] { return moved; }, scale);
    const Tensor of_v = mul(moved, conj(reciprocal_gaps(w, mode)));
    inner = inner.defined() ? add(inner, of_v) : of_v;
  }
  const Tensor ga = apply1(get_op("linear_solve"), {vh, matmul(inner, vh)});
  return is_complex(node.input_metas()[0].dtype) ? ga : real(ga);
}
Tensor eig_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Tensor w = node.output(0), v = node.output(1);
  const Tensor inner = apply1(get_op("linear_solve"), {v, matmul(cast(t[0], v.dtype()), v)});
  if (out == 0) return diagonal_of(inner);
  const Degenerate mode = degenerate_of("eig", node.attr(0));
  if (mode == Degenerate::exact)
    refuse_ties(
        "eig", w, [&] { return inner; }, [&] { return t[0]; });
  const Tensor d = matmul(v, mul(inner, reciprocal_gaps(w, mode)));
  return sub(d, by_columns(v, real(diagonal_of(matmul(adjoint(v), d)))));
}

OpInfo spectral_op(std::string name, std::string doc, std::string formula,
                   std::vector<AttrSpec> attrs) {
  return new_op(std::move(name), "linalg", std::move(doc), std::move(formula), {{"A"}},
                std::move(attrs));
}
void values_alone(const char* name, const char* doc, const char* formula,
                  Tensor (*f)(const Tensor&)) {
  add_composition(name, "linalg", doc, formula, {{"A"}}, {},
                  [f](Operands in, const Attrs&) { return f(in[0]); });
}

}  // namespace

void register_spectra() {
  OpInfo o = spectral_op("eigh", "eigenvalues, ascending, and eigenvectors of a Hermitian matrix",
                         "A V = V diag(w), of (A + A^H) / 2", {degenerate_attr()});
  o.forward = eigh_forward;
  o.vjp = eigh_vjp;
  o.jvp = eigh_jvp;
  o.call = [](Operands in, const Attrs& a) { return eigh(in[0], degenerate_of("eigh", a[0])); };
  eigh_info = &add_op(std::move(o));

  o = spectral_op("svd", "singular values, descending, and vectors: U, S, Vh", "A = U diag(S) Vh",
                  {bool_attr("full_matrices", true, "U (m, m) and Vh (n, n)"), degenerate_attr()});
  o.forward = svd_forward;
  o.vjp = svd_vjp;
  o.jvp = svd_jvp;
  o.call = [](Operands in, const Attrs& a) {
    return svd(in[0], a[0].integer, degenerate_of("svd", a[1]));
  };
  svd_info = &add_op(std::move(o));

  o = spectral_op("eig", "eigenvalues and eigenvectors, complex", "A V = V diag(w)",
                  {degenerate_attr()});
  o.forward = eig_forward;
  o.vjp = eig_vjp;
  o.jvp = eig_jvp;
  o.call = [](Operands in, const Attrs& a) { return eig(in[0], degenerate_of("eig", a[0])); };
  eig_info = &add_op(std::move(o));

  values_alone("eigvalsh", "eigenvalues of a Hermitian matrix, ascending", "det(A - y) = 0",
               eigvalsh);
  values_alone("svdvals", "singular values, descending", "A = U diag(y) Vh", svdvals);
  values_alone("eigvals", "eigenvalues, complex", "det(A - y) = 0", eigvals);
}

}  // namespace linalg

using namespace linalg;

Tensors eigh(const Tensor& A, Degenerate degenerate) {
  return all_of(*eigh_info, {A}, {name_of(degenerate)});
}
Tensors svd(const Tensor& A, bool full_matrices, Degenerate degenerate) {
  return all_of(*svd_info, {A}, {full_matrices, name_of(degenerate)});
}
Tensors eig(const Tensor& A, Degenerate degenerate) {
  return all_of(*eig_info, {A}, {name_of(degenerate)});
}
// Vectors are made where a derivative may be asked for, which needs them, or where somebody watches
// ops. What fails is eigh's or svd's either way.
Tensor eigvalsh(const Tensor& A) {
  need_square("eigvalsh", A);
  if (!is_quiet(A) || observer) return eigh(A)[0];
  const CurrentOp now("eigvalsh");
  const Tensor w = vectors_for(A, A.size(-1)), info = info_of(A);
  KernelCall(GD_LINALG, GD_EIGH).in(A).out(w).out_none().out(info).run();
  check_converged("eigh", info);
  return w;
}
Tensor svdvals(const Tensor& A) {
  need_matrices("svdvals", A);
  if (!is_quiet(A) || observer) return svd(A, false)[1];
  const CurrentOp now("svdvals");
  const Tensor s = vectors_for(A, std::min(A.size(-2), A.size(-1))), info = info_of(A);
  KernelCall(GD_LINALG, GD_SVD).in(A).out_none().out(s).out_none().out(info).run();
  check_converged("svd", info);
  return s;
}
Tensor eigvals(const Tensor& A) { return eig(A)[0]; }

}  // namespace gradus
