// Linear algebra on batches of matrices. The last two axes of an operand are a matrix, the axes
// before them a batch; batches of two operands broadcast. dtypes f32 f64 c64 c128, others are
// refused. Names and meanings are torch.linalg's unless said otherwise. H is the conjugate
// transpose, k = min(m, n). Errors: shape, dtype; numeric where a factorisation fails, with the
// batch index. Derivatives of any order unless said otherwise; where one needs what the input does
// not have (a gap between eigenvalues, full rank, a phase), it is refused with the reason.
#pragma once
#include "ops/base/ints.hpp"

#include <functional>

namespace gradus::inline v1 {

// What the derivative of a decomposition does where two eigenvalues or singular values coincide:
// refuse, or damp what the gap divides (a Lorentzian), which is approximate.
enum class Degenerate { exact, safe };

// ---- factors of a matrix
// L with A = L L^H, or with upper L^H. A Hermitian; it is read as (A + A^H) / 2.
Tensor cholesky(const Tensor& A, bool upper = false);
// {P, L, U} with A = P L U. P is constant.
Tensors lu(const Tensor& A);
// {LU, rows}: U in the upper triangle, L without its unit diagonal below it; A[rows] = L U.
Tensors lu_factor(const Tensor& A);
// {Q, R}: mode "reduced", "complete" or "r" (Q has no columns). With positive, the diagonal of R is
// not negative; it is always real. "complete" of m > n and "r" have no derivative.
Tensors qr(const Tensor& A, const char* mode = "reduced", bool positive = false);

// The same from the other end or side, reduced; derivatives are those of qr. {Q, L} with A = Q L of
// m >= n, {L, Q} with A = L Q, {R, Q} with A = R Q of m <= n.
Tensors ql(const Tensor& A);
Tensors lq(const Tensor& A);
Tensors rq(const Tensor& A);

// ---- solving
// X with A X = B, or X A = B unless left. B may be one vector (n), or vectors (batch of A, n).
Tensor solve(const Tensor& A, const Tensor& B, bool left = true);
// As solve, by a triangle of A alone.
Tensor solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left = true,
                        bool unitriangular = false);
// X with A X = B where A = L L^H (or L^H L with upper, for a given upper factor).
Tensor cholesky_solve(const Tensor& B, const Tensor& L, bool upper = false);
Tensor inv(const Tensor& A);
Tensor det(const Tensor& A);
Tensors slogdet(const Tensor& A);  // {sign, log |det|}; 0 and -inf of a singular matrix
// {X, residuals, rank, singular values}: the X of least norm among those of least |A X - B|.
Tensors lstsq(const Tensor& A, const Tensor& B, double rcond = -1);
// The pseudo-inverse; singular values up to max(atol, rtol * largest) count as 0. rtol < 0: eps *
// max(m, n). Derivative: at constant rank.
Tensor pinv(const Tensor& A, double atol = 0, double rtol = -1);

// ---- the same without a refusal: {results.., info}, info (batch) i64: 0; the first pivot that
// fails, counted from 1; -1 if the matrix has a NaN or an infinity. The results of such a matrix
// are undefined (those of lu_factor_ex with a pivot 0 are whole).
Tensors cholesky_ex(const Tensor& A, bool upper = false);
Tensors lu_factor_ex(const Tensor& A);
Tensors solve_ex(const Tensor& A, const Tensor& B, bool left = true);
Tensors inv_ex(const Tensor& A);

// ---- spectra
// {w, V}: A = V diag(w) V^H of a Hermitian A, read as (A + A^H) / 2; w real, ascending. The largest
// entry of each column of V is real and positive.
Tensors eigh(const Tensor& A, Degenerate degenerate = Degenerate::exact);
Tensor eigvalsh(const Tensor& A);
// {U, S, Vh}: A = U diag(S) Vh, S descending; the largest entry of each column of U is real and
// positive. Without full_matrices U is (m, k) and Vh (k, n). Derivative with full_matrices: of
// square matrices alone.
Tensors svd(const Tensor& A, bool full_matrices = true, Degenerate degenerate = Degenerate::exact);
Tensor svdvals(const Tensor& A);
// {U, S, Vh, discarded}: the largest singular values alone, at most `rank` of them (0: all), none
// up to max(atol, rtol * largest); of a batch as many as the matrix that keeps most. discarded
// (batch): the root of the sum of squares of what is left out. The derivative knows what is left
// out.
Tensors truncated_svd(const Tensor& A, int64_t rank = 0, double atol = 0, double rtol = 0);
// {U, P} with A = U P, or with left {P, U} with A = P U: U has orthonormal columns (rows), P is
// Hermitian and not negative. m >= n (left: m <= n). Derivative: of full rank.
Tensors polar(const Tensor& A, bool left = false);
// {w, V}, complex: A V = V diag(w), columns of norm 1 whose largest entry is real and positive.
Tensors eig(const Tensor& A, Degenerate degenerate = Degenerate::exact);
Tensor eigvals(const Tensor& A);

// ---- functions and numbers of a matrix
Tensor matrix_power(const Tensor& A, int64_t n);  // n < 0: of the inverse
// Analytic functions. With hermitian: by eigenvalues, of (A + A^H) / 2; of matrices that are, it is
// quicker, has a derivative at ties too (of second order without ties), and takes singular ones for
// the root. Else the root and the logarithm are the principal ones: an eigenvalue on the closed
// negative real axis is refused.
Tensor matrix_exp(const Tensor& A, bool hermitian = false);
Tensor sqrtm(const Tensor& A, bool hermitian = false);
Tensor logm(const Tensor& A, bool hermitian = false);
// ord: "fro", "nuc", or a number: 1, -1, inf, -inf (sums of columns, rows), 2, -2 (singular
// values).
Tensor matrix_norm(const Tensor& A, const char* ord = "fro", bool keepdim = false);
Tensor matrix_norm(const Tensor& A, double ord, bool keepdim = false);
Tensor matrix_rank(const Tensor& A, double atol = 0, double rtol = -1);  // i64, no derivative
Tensor cond(const Tensor& A);  // largest by smallest singular value

// ---- by products with A alone
// exp(A) B without exp(A): B of matrices or vectors, as of solve.
Tensor expm_multiply(const Tensor& A, const Tensor& B);
// {w (k) ascending, V (n, k)}: k eigenvalues of a Hermitian A by Lanczos steps: which = "LA" the
// largest, "SA" the smallest, "LM" those of largest magnitude. Columns of V as of eigh. Residuals
// are below tol * the largest of all values (0: rounding errors).
Tensors eigsh(const Tensor& A, int64_t k = 6, const char* which = "LM", double tol = 0);
// The same of a Hermitian map of tensors shaped like `start`, which the steps begin with: {w, V
// (shape.., k)}. No derivative: of a w that is alone, take that of the sum of conj(v) map(v).
using LinearMap = std::function<Tensor(const Tensor&)>;
Tensors eigsh(const LinearMap& A, const Tensor& start, int64_t k = 1, const char* which = "LM",
              double tol = 0);

Tensor vector_norm(const Tensor& x, double ord = 2, const Ints& dims = {}, bool keepdim = false);
Tensor multi_dot(const Tensors& matrices);  // the product, in the cheapest order

// ---- tensors of any rank as matrices: the axes left_dims, in this order, are the rows, the others
// the columns. Factors have the sizes of those axes, then (or before them) the new one.
Tensors tensorsvd(const Tensor& x, const Ints& left_dims, int64_t rank = 0, double atol = 0,
                  double rtol = 0);  // as truncated_svd
Tensors tensorqr(const Tensor& x, const Ints& left_dims);
Tensors tensoreigh(const Tensor& x,
                   const Ints& left_dims);  // {w, V}; rows and columns of equal size
// The inverse of the map from the last axes to the first `ind` ones; prod(first) = prod(last).
Tensor tensorinv(const Tensor& x, int64_t ind = 2);
// y with sum over the last axes of A[..] y = B; the first axes of A are those of B.
Tensor tensorsolve(const Tensor& A, const Tensor& B);

}  // namespace gradus
