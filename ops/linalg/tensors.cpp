// What is made of decompositions: the truncated SVD, the polar decomposition, and tensors of any
// rank as matrices.
#include "ops/contract/linear.hpp"
#include "ops/linalg/matrices.hpp"
#include "ops/reduce/norms.hpp"

#include <numeric>

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo* polar_info;

// ---- polar: A = U P of m >= n

void polar_forward(OpContext& ctx) {
  const Tensor a = ctx.inputs[0].detach();
  need_matrices("polar", a);
  if (a.size(-2) < a.size(-1))
    fail(ErrorKind::shape, "polar", "A has shape ", a.sizes(),
         ", expected m >= n; with left=true wide ones");
  const Tensors f = svd(a, false);
  ctx.outputs.push_back(matmul(f[0], f[2]));
  ctx.outputs.push_back(matmul(adjoint(f[2]), by_rows(f[1], f[2])));
  ctx.save_output(0);
  ctx.save_output(1);
}
// X with P X + X P = B, in the basis in which P is diagonal.
Tensor sylvester(const Tensor& p, const Tensor& b) {
  const Tensors f = eigh(p, Degenerate::safe);
  const Tensor v = f[1], vh = adjoint(v);
  return sandwich(v, div(sandwich(vh, b, v), add(unsqueeze(f[0], -1), unsqueeze(f[0], -2))), vh);
}
void refuse_no_rank(const Tensor& p) { refuse_rank("polar", diag_embed(eigvalsh(p.detach()))); }
// X P^-1 of a Hermitian P.
Tensor over_hermitian(const Tensor& x, const Tensor& p) { return adjoint(solve(p, adjoint(x))); }
Tensor polar_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  const Tensor u = node.output(0), p = node.output(1), uh = adjoint(u);
  refuse_no_rank(p);
  const Tensor gu = or_zeros(g[0], node.output_metas()[0]);
  const Tensor gp = or_zeros(g[1], node.output_metas()[1]);
  const Tensor half = halved(sym(gp)), turn = matmul(uh, gu);
  const Tensor inner = add(half, sylvester(p, skew(sub(turn, matmul(half, p)))));
  const Tensor ga = matmul(u, inner);
  if (u.size(-2) == u.size(-1)) return ga;
  return add(ga, over_hermitian(sub(gu, matmul(u, turn)), p));
}
Tensor polar_jvp(GradFn& node, size_t out, std::span<const Tensor> t) {
  const Tensor u = node.output(0), p = node.output(1);
  refuse_no_rank(p);
  const Tensor along = matmul(adjoint(u), t[0]);
  const Tensor turn = sylvester(p, skew(along));
  if (out == 1) return sub(along, matmul(turn, p));
  const Tensor du = matmul(u, turn);
  if (u.size(-2) == u.size(-1)) return du;
  return add(du, over_hermitian(sub(t[0], matmul(u, along)), p));
}

// ---- tensors as matrices

struct Split {
  Tensor matrix;
  Shape rows, columns;  // sizes of the axes
};
Split split_axes(const char* op, const Tensor& x, const Ints& left_dims) {
  Split s;
  Ints order;
  int64_t m = 1, n = 1;
  for (const int64_t dim : left_dims) {
    const int64_t axis = normal_axis(op, dim, x.rank());
    if (std::find(order.begin(), order.end(), axis) != order.end())
      fail(ErrorKind::value, op, "left_dims name axis ", axis, " twice");
    order.push_back(axis);
    s.rows.push_back(x.size(axis));
    m *= x.size(axis);
  }
  const size_t lefts = order.size();
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (std::find(order.begin(), order.begin() + lefts, axis) != order.begin() + lefts) continue;
    order.push_back(axis);
    s.columns.push_back(x.size(axis));
    n *= x.size(axis);
  }
  s.matrix = reshape(permute(x, order), {m, n});
  return s;
}
Tensor as_rows(const Tensor& factor, const Split& s) {
  return reshape(factor, with(s.rows, {factor.size(-1)}));
}
Tensor as_columns(const Tensor& factor, const Split& s) {
  Shape sizes{factor.size(-2)};
  for (const int64_t n : s.columns) sizes.push_back(n);
  return reshape(factor, sizes);
}

// How many singular values of the matrix that keeps most are above the limits.
int64_t kept(const Tensor& s, int64_t rank, double atol, double rtol) {
  const NoGrad quiet;
  const int64_t k = s.size(-1);
  if (rank < 0)
    fail(ErrorKind::value, "truncated_svd", "rank is ", rank, ", expected 0 (all) or more");
  const int64_t most = rank > 0 ? std::min(rank, k) : k;
  if (s.numel() == 0 || (atol <= 0 && rtol <= 0)) return most;
  const Tensor values = s.detach();
  const Tensor above = gt(values, maximum(mul(amax(values, {-1}, true), rtol), atol));
  const Tensor counts = all_examples(sum(cast(above, DType::i64), {-1}));
  const int64_t found = amax(counts).item_integer();
  return std::max<int64_t>(1, std::min(found, most));
}

Shape leading(const Shape& s, size_t n) { return Shape(s.begin(), s.begin() + std::ptrdiff_t(n)); }
int64_t product(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t(1), std::multiplies<>());
}

}  // namespace

void register_tensors() {
  const AttrSpec rank = int_attr("rank", 0, "at most so many values; 0: all");
  const AttrSpec atol = number_attr("atol", 0, "values up to this are left out");
  const AttrSpec rtol = number_attr("rtol", 0, "the same, relative to the largest");
  const AttrSpec lefts = ints_attr("left_dims", "axes that are the rows");
  OpInfo o =
      new_op("polar_factors", "linalg", "polar decomposition of m >= n: U, P", "A = U P", {{"A"}});
  o.forward = polar_forward;
  o.vjp = polar_vjp;
  o.jvp = polar_jvp;
  o.call = [](Operands in, const Attrs&) { return polar(in[0]); };
  polar_info = &add_op(std::move(o));
  add_composition("polar", "linalg", "orthonormal times Hermitian: U, P, or with left P, U",
                  "A = U P", {{"A"}}, {bool_attr("left", false, "A = P U")},
                  [](Operands in, const Attrs& a) { return polar(in[0], a[0].integer); });
  add_composition("truncated_svd", "linalg",
                  "the largest singular values and their vectors; what is left out",
                  "A ~ U diag(S) Vh", {{"A"}}, {rank, atol, rtol}, [](Operands in, const Attrs& a) {
                    return truncated_svd(in[0], a[0].integer, a[1].number, a[2].number);
                  });
  add_composition("vector_norm", "linalg", "norm over axes, or of all elements",
                  "y = (sum |x|^ord)^(1/ord)", {{"x"}},
                  {number_attr("ord", 2, "exponent, inf, -inf or 0"), dims_attr(), keepdim_attr()},
                  [](Operands in, const Attrs& a) {
                    return vector_norm(in[0], a[0].number, a[1].integers, a[2].integer);
                  });
  add_composition("multi_dot", "linalg", "product of matrices in the cheapest order",
                  "y = a b c ...", {{"matrices", true}}, {},
                  [](Operands in, const Attrs&) { return multi_dot(list(in)); });
  add_composition("tensorsvd", "linalg", "truncated_svd of a tensor, its axes split in two",
                  "x ~ U diag(S) Vh", {{"x"}}, {lefts, rank, atol, rtol},
                  [](Operands in, const Attrs& a) {
                    return tensorsvd(in[0], a[0].integers, a[1].integer, a[2].number, a[3].number);
                  });
  add_composition("tensorqr", "linalg", "qr of a tensor, its axes split in two", "x = Q R", {{"x"}},
                  {lefts},
                  [](Operands in, const Attrs& a) { return tensorqr(in[0], a[0].integers); });
  add_composition("tensoreigh", "linalg", "eigh of a tensor, its axes split in two",
                  "x V = V diag(w)", {{"x"}}, {lefts},
                  [](Operands in, const Attrs& a) { return tensoreigh(in[0], a[0].integers); });
  add_composition("tensorinv", "linalg", "the inverse of a tensor as a map between its axes",
                  "sum_j x[i, j] y[j, k] = [i = k]", {{"x"}},
                  {int_attr("ind", 2, "how many axes come first")},
                  [](Operands in, const Attrs& a) { return tensorinv(in[0], a[0].integer); });
  add_composition("tensorsolve", "linalg", "solves for a tensor under the last axes of A",
                  "sum_j A[i, j] y[j] = B[i]", {{"A"}, {"B"}}, {},
                  [](Operands in, const Attrs&) { return tensorsolve(in[0], in[1]); });
}

}  // namespace linalg

using namespace linalg;

Tensors polar(const Tensor& A, bool left) {
  if (left) {  // A^H = U P
    const Tensors f = polar(adjoint(A));
    return {f[1], adjoint(f[0])};
  }
  const Tensor in[] = {A};
  Outputs out = apply(*polar_info, in);
  return {out[0], out[1]};
}

Tensors truncated_svd(const Tensor& A, int64_t rank, double atol, double rtol) {
  const Tensors f = svd(A, false);
  const int64_t k = kept(f[1], rank, atol, rtol);
  const Tensor discarded = norm(slice(f[1], -1, k), 2, {-1});
  if (k == f[1].size(-1)) return {f[0], f[1], f[2], discarded};
  return {clone(slice(f[0], -1, 0, k)), clone(slice(f[1], -1, 0, k)), clone(slice(f[2], -2, 0, k)),
          discarded};
}

Tensor vector_norm(const Tensor& x, double ord, const Ints& dims, bool keepdim) {
  return norm(x, ord, dims, keepdim);
}
Tensor multi_dot(const Tensors& matrices) { return chain_matmul(matrices); }

Tensors tensorsvd(const Tensor& x, const Ints& left_dims, int64_t rank, double atol, double rtol) {
  const Split s = split_axes("tensorsvd", x, left_dims);
  const Tensors f = truncated_svd(s.matrix, rank, atol, rtol);
  return {as_rows(f[0], s), f[1], as_columns(f[2], s), f[3]};
}
Tensors tensorqr(const Tensor& x, const Ints& left_dims) {
  const Split s = split_axes("tensorqr", x, left_dims);
  const Tensors f = qr(s.matrix);
  return {as_rows(f[0], s), as_columns(f[1], s)};
}
Tensors tensoreigh(const Tensor& x, const Ints& left_dims) {
  const Split s = split_axes("tensoreigh", x, left_dims);
  const Tensors f = eigh(s.matrix);
  return {f[0], as_rows(f[1], s)};
}

Tensor tensorinv(const Tensor& x, int64_t ind) {
  if (ind < 1 || ind > x.rank())
    fail(ErrorKind::value, "tensorinv", "ind is ", ind, ", expected 1 to ", x.rank());
  const Shape first = leading(x.sizes(), size_t(ind));
  const Shape last(x.sizes().begin() + ind, x.sizes().end());
  if (product(first) != product(last))
    fail(ErrorKind::shape, "tensorinv", "x has shape ", x.sizes(), ": its first ", ind,
         " axes have ", product(first), " elements, the others ", product(last),
         "; they should be equal");
  Shape sizes = last;
  for (const int64_t n : first) sizes.push_back(n);
  return reshape(inv(reshape(x, {product(first), product(last)})), sizes);
}

Tensor tensorsolve(const Tensor& A, const Tensor& B) {
  const size_t n = B.sizes().size();
  const int64_t rows = B.numel();
  const bool fits =
      A.sizes().size() >= n && leading(A.sizes(), n) == B.sizes() && A.numel() == rows * rows;
  if (!fits)
    fail(ErrorKind::shape, "tensorsolve", "A has shape ", A.sizes(), ", B ", B.sizes(),
         "; expected B's axes first, then as many elements again");
  const Shape sizes(A.sizes().begin() + std::ptrdiff_t(n), A.sizes().end());
  return reshape(solve(reshape(A, {rows, rows}), reshape(B, {rows})), sizes);
}

}  // namespace gradus
