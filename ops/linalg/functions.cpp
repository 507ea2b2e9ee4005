// Functions and numbers of a matrix: the pseudo-inverse and what it solves, powers, norms.
// Derivatives of the pseudo-inverse: Golub & Pereyra, SIAM J. Numer. Anal. 10 (1973), at constant
// rank.
#include "ops/linalg/matrices.hpp"
#include "ops/reduce/norms.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo* pinv_info;

// Of singular values s of (m, n) matrices: which of them count.
Tensor counted(const char* op, const Tensor& s, int64_t m, int64_t n, double atol, double rtol) {
  if (!(atol >= 0)) fail(ErrorKind::value, op, "atol is ", atol, ", expected 0 or more");
  const double usual = epsilon(s.dtype()) * double(std::max(m, n));
  const double relative = rtol >= 0 ? rtol : atol > 0 ? 0 : usual;
  if (s.numel() == 0) return ne(s, s);
  return gt(s, maximum(mul(amax(s, {-1}, true), relative), atol));
}

// ---- pinv. attrs: atol, rtol.

void pinv_forward(OpContext& ctx) {
  const Tensor a = ctx.inputs[0].detach();
  need_matrices("pinv", a);
  const Tensors f = svd(a, false);
  const Tensor kept =
      counted("pinv", f[1], a.size(-2), a.size(-1), ctx.attrs[0].number, ctx.attrs[1].number);
  const Tensor reciprocals =
      where(kept, reciprocal(where(kept, f[1], ones_like(f[1]))), zeros_like(f[1]));
  ctx.outputs.push_back(matmul(by_columns(adjoint(f[2]), reciprocals), adjoint(f[0])));
  ctx.save_input(0);
  ctx.save_output(0);
}
// X - A (Y X): what of X lies outside A's columns.
Tensor outside(const Tensor& x, const Tensor& a, const Tensor& y) {
  return sub(x, matmul(a, matmul(y, x)));
}
Tensor pinv_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor a = node.input(0), y = node.output(0), yh = adjoint(y), gh = adjoint(g[0]);
  const Tensor first = matmul(outside(matmul(gh, y), a, y), yh);
  const Tensor whole = matmul(matmul(yh, y), gh);
  const Tensor second = sub(whole, matmul(matmul(whole, y), a));
  return add(sub(first, sandwich(yh, g[0], yh)), second);
}
Tensor pinv_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const Tensor a = node.input(0), y = node.output(0), yh = adjoint(y), th = adjoint(t[0]);
  const Tensor before = matmul(matmul(y, yh), th);
  const Tensor first = sub(before, matmul(matmul(before, a), y));
  const Tensor second = matmul(outside(matmul(th, yh), y, a), y);
  return add(sub(first, sandwich(y, t[0], y)), second);
}

// ---- numbers

enum class Norm { frobenius, nuclear, columns, rows, spectral };
struct NormOf {
  Norm kind;
  bool largest = true;
};
NormOf norm_of(std::string_view ord) {
  if (ord == "fro") return {Norm::frobenius};
  if (ord == "nuc") return {Norm::nuclear};
  const bool smallest = ord.starts_with('-');
  if (smallest) ord.remove_prefix(1);
  if (ord == "1") return {Norm::columns, !smallest};
  if (ord == "2") return {Norm::spectral, !smallest};
  if (ord == "inf") return {Norm::rows, !smallest};
  fail(ErrorKind::value, "matrix_norm", "ord is \"", smallest ? "-" : "", ord,
       "\"; write fro, nuc, 1, -1, 2, -2, inf or -inf");
}
Tensor extreme(const Tensor& x, bool largest) { return largest ? amax(x, {-1}) : amin(x, {-1}); }

}  // namespace

void register_functions() {
  const AttrSpec atol = number_attr("atol", 0, "singular values up to this count as 0");
  const AttrSpec rtol = number_attr(
      "rtol", -1, "the same, relative to the largest; below 0: eps * max(m, n), with an atol 0");
  OpInfo o = new_op("pinv", "linalg", "the pseudo-inverse, by the SVD; derivative at constant rank",
                    "A y A = A, y A y = y, A y and y A Hermitian", {{"A"}}, {atol, rtol});
  o.forward = pinv_forward;
  o.vjp = pinv_vjp;
  o.jvp = pinv_jvp;
  o.call = [](Operands in, const Attrs& a) { return pinv(in[0], a[0].number, a[1].number); };
  pinv_info = &add_op(std::move(o));

  add_composition("lstsq", "linalg", "least squares: X, residuals, rank, singular values",
                  "X = pinv(A) B", {{"A"}, {"B"}}, {number_attr("rcond", -1, "as rtol of pinv")},
                  [](Operands in, const Attrs& a) { return lstsq(in[0], in[1], a[0].number); });
  add_composition("matrix_power", "linalg", "a product of n equal matrices; n < 0: of the inverse",
                  "y = A^n", {{"A"}}, {int_attr("n", "exponent")},
                  [](Operands in, const Attrs& a) { return matrix_power(in[0], a[0].integer); });
  add_composition(
      "matrix_norm", "linalg", "norm of each matrix", "y = |A|", {{"A"}},
      {text_attr("ord", "fro", "fro, nuc, 1, -1 (columns), inf, -inf (rows), 2, -2"),
       keepdim_attr()},
      [](Operands in, const Attrs& a) { return matrix_norm(in[0], a[0].text, a[1].integer); });
  add_composition(
      "matrix_rank", "linalg", "how many singular values are not negligible", "y = rank A", {{"A"}},
      {atol, rtol},
      [](Operands in, const Attrs& a) { return matrix_rank(in[0], a[0].number, a[1].number); })
      .differentiable = false;
  add_composition("cond", "linalg", "condition: the largest by the smallest singular value",
                  "y = s_1 / s_k", {{"A"}}, {},
                  [](Operands in, const Attrs&) { return cond(in[0]); });
}

}  // namespace linalg

using namespace linalg;

void register_linalg() {
  register_factors();
  register_solving();
  register_spectra();
  register_functions();
  register_analytic();
  register_actions();
  register_tensors();
}

Tensor pinv(const Tensor& A, double atol, double rtol) {
  return apply1(*pinv_info, {A}, {atol, rtol});
}

Tensors lstsq(const Tensor& A, const Tensor& B, double rcond) {
  need_matrices("lstsq", A);
  need_dtype("lstsq", B.dtype(), A.dtype());
  const bool vector = B.rank() == A.rank() - 1;
  const Tensor b = vector ? unsqueeze(B, -1) : B;
  if (b.rank() < 2 || b.size(-2) != A.size(-2))
    fail(ErrorKind::shape, "lstsq", "A has shape ", A.sizes(), ", B ", B.sizes(),
         "; B should have ", A.size(-2), " rows");
  const int64_t m = A.size(-2), n = A.size(-1);
  const Tensor s = svdvals(A);
  const Tensor rank = sum(cast(counted("lstsq", s, m, n, 0, rcond), DType::i64), {-1});
  const Tensor x = matmul(pinv(A, 0, rcond), b);
  Tensor residuals = Tensor::empty({0}, s.dtype(), s.device());
  if (m > n && rank.numel() > 0 && amin(all_examples(rank)).item_integer() == n) {
    const Tensor off = sub(matmul(A, x), b);
    residuals = sum(real(mul(off, conj(off))), {-2});
  }
  return {vector ? squeeze(x, {-1}) : x, residuals, rank, s};
}

Tensor matrix_power(const Tensor& A, int64_t n) {
  need_square("matrix_power", A);
  if (n < 0) return matrix_power(inv(A), -n);
  Tensor result, square = A;
  for (; n > 0; n /= 2) {
    if (n % 2) result = result.defined() ? matmul(result, square) : square;
    if (n > 1) square = matmul(square, square);
  }
  return result.defined() ? result : clone(expand(identity_like(A), A.sizes()));
}

Tensor matrix_norm(const Tensor& A, const char* ord, bool keepdim) {
  need_matrices("matrix_norm", A);
  const NormOf of = norm_of(ord);
  Tensor y;
  if (of.kind == Norm::frobenius)
    y = norm(A, 2, {-2, -1});
  else if (of.kind == Norm::nuclear)
    y = sum(svdvals(A), {-1});
  else if (of.kind == Norm::spectral)
    y = extreme(svdvals(A), of.largest);
  else
    y = extreme(sum(abs(A), {of.kind == Norm::columns ? -2 : -1}), of.largest);
  return keepdim ? unsqueeze(unsqueeze(y, -1), -1) : y;
}
Tensor matrix_norm(const Tensor& A, double ord, bool keepdim) {
  return matrix_norm(A, std::isinf(ord) ? (ord > 0 ? "inf" : "-inf") : join(ord).c_str(), keepdim);
}

Tensor matrix_rank(const Tensor& A, double atol, double rtol) {
  need_matrices("matrix_rank", A);
  const Tensor s = svdvals(A.detach());
  return sum(cast(counted("matrix_rank", s, A.size(-2), A.size(-1), atol, rtol), DType::i64), {-1});
}
Tensor cond(const Tensor& A) {
  const Tensor s = svdvals(A);
  return div(amax(s, {-1}), amin(s, {-1}));
}

}  // namespace gradus
