// What the files of this room share: checks, small words on matrices, and refusals of derivatives.
#pragma once
#include "ops/def/linalg.h"
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/linalg/linalg.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/rearrange.hpp"
#include "ops/shape/views.hpp"

#include <complex>
#include <functional>

namespace gradus::inline v1::linalg {

// ---- checks. Errors in the op's name.
void need_matrices(const char* op, const Tensor& a, const char* name = "A");
void need_square(const char* op, const Tensor& a, const char* name = "A");
void need_dtype(const char* op, DType got, DType wanted);  // of a second operand
Shape batch_of(const Tensor& a);                           // the axes before the last two
Shape with(Shape batch, std::initializer_list<int64_t> last);
DType complex_dtype(DType t);
// The examples of all of a vmap, where x is one: who only looks at values may see them together.
Tensor all_examples(const Tensor& x);
// "batch (1, 2): " of element `at` of a batch, "" of no batch.
std::string place_in(const Shape& batch, int64_t at);
// The values of x, row-major, of all examples where x is batched. Reads the device.
using HostValues = std::vector<std::complex<double>>;
HostValues host_values(const Tensor& x);
std::string shown(std::complex<double> z);
bool has_zero(const Tensor& x);  // reads the device
double epsilon(DType t);
// Two of n values (.., n) are as good as equal if they differ by less than this times the largest:
// some rounding errors of a decomposition.
double tie(const Tensor& values);
// The first failure that a kernel noted: {batch element, info}, info > 0 before a matrix that is
// not finite (info < 0); {-1, 0} if there is none.
struct Failure {
  int64_t element = -1, info = 0;
};
Failure first_failure(const Tensor& info);

// ---- words. All record.
Tensors all_of(const OpInfo& op, std::initializer_list<Tensor> in, const Attrs& attrs = {});
inline Tensor adjoint(const Tensor& x) { return conj(transpose(x, -2, -1)); }
inline Tensor by_columns(const Tensor& x, const Tensor& v) { return mul(x, unsqueeze(v, -2)); }
inline Tensor by_rows(const Tensor& v, const Tensor& x) { return mul(unsqueeze(v, -1), x); }
inline Tensor diagonal_of(const Tensor& x) { return diagonal(x, 0, -2, -1); }
inline Tensor sym(const Tensor& x) { return add(x, adjoint(x)); }
inline Tensor halved(const Tensor& x) { return mul(x, number_beside(0.5, x)); }
inline Tensor skew(const Tensor& x) { return sub(x, adjoint(x)); }
inline Tensor sandwich(const Tensor& left, const Tensor& x, const Tensor& right) {
  return matmul(matmul(left, x), right);
}
inline Tensor neg_matmul(const Tensor& a, const Tensor& b) { return neg(matmul(a, b)); }
inline Tensor with_diagonal(const Tensor& x, const Tensor& diagonal) {
  return diagonal.defined() ? add(x, diag_embed(diagonal)) : x;
}
inline Tensor strictly_lower(const Tensor& x) { return tril(x, -1); }
// x below the diagonal, y on and above it.
inline Tensor strictly_lower_else(const Tensor& x, const Tensor& y) {
  return where(triangle_mask(x.size(-2), x.size(-1), -1, true, x.device()), x, y);
}
// The lower triangle with its diagonal halved.
Tensor lower_half(const Tensor& x);
Tensor identity_like(const Tensor& x);  // (n, n), broadcasts over a batch
// i Im(x), as a complex tensor; zeros for a real one.
Tensor imaginary_part(const Tensor& x);
// x, or zeros where a cotangent or tangent is undefined.
Tensor or_zeros(const Tensor& x, const TensorMeta& like);

// T with op(A) T = B, op(A) = A, A^T or A^H; A is read as a triangle, batches broadcast.
enum class Form { plain, transposed, adjoint };
Tensor by_triangle(const Tensor& A, const Tensor& B, bool upper, bool unit, Form form);
// X R^-1 and X R^-H with an upper triangle R.
Tensor over(const Tensor& X, const Tensor& R);
Tensor over_adjoint(const Tensor& X, const Tensor& R);
// A[rows], and what undoes it: rows (.., m) i64.
Tensor permuted(const Tensor& A, const Tensor& rows);
Tensor unpermuted(const Tensor& A, const Tensor& rows);

// Is B one vector, or a vector for each matrix of A?
bool is_vector(const Tensor& a, const Tensor& b);
// Sums of |columns|, the largest of all matrices; reads the device.
double norm_1(const Tensor& a);

// ---- failures as numbers: OP_ex gives what OP gives, then info, and refuses nothing.
// The op beside `op`, which shares its functions; `call` gives all outputs.
const OpInfo& add_ex(const OpInfo& op, OpCall call);
// Is it such an op that runs? Then info is its last output, else `refuse` judges it.
template <class Refuse>
void settle(OpContext& ctx, const Tensor& info, Refuse&& refuse) {
  if (ctx.op.name.ends_with("_ex"))
    ctx.outputs.push_back(info);
  else
    refuse();
}

// ---- where a derivative does not exist
// Of a triangle R that is divided by: Error(numeric) if a diagonal entry is negligible.
void refuse_rank(const char* op, const Tensor& R);
// What is made only where it is looked at.
using Lazy = std::function<Tensor()>;
// Of a loss through vectors: turn(i, i) = what the cotangent says of the phase of vector i, whose
// imaginary part should vanish beside `scale`. Real dtypes have no phase.
void refuse_phase(const char* op, const Tensor& turn, const Lazy& scale);
// values (.., n), pairs (.., n, n) = what the gap of each pair divides. With exact: a pair nearer
// than the tolerance is refused unless its entries of `pairs` are negligible beside `scale`.
void refuse_ties(const char* op, const Tensor& values, const Lazy& pairs, const Lazy& scale);
// The reciprocals of the gaps v_j - v_i: in exact mode 0 for ties, which refuse_ties has let pass;
// in safe mode damped.
Tensor reciprocal_gaps(const Tensor& values, Degenerate mode);
// Which entries of x (.., n) or (.., n, n) are rounding errors beside the largest of values (..,
// n)?
Tensor negligible(const Tensor& x, const Tensor& values);
// 1 / x, 0 where `none`.
Tensor guarded_reciprocal(const Tensor& x, const Tensor& none);
// 1 / (v_i + v_j) and 1 / v_j, 0 where that is negligible.
Tensor reciprocal_sums(const Tensor& values);
Tensor reciprocals(const Tensor& values);
// Refuses if a value is 0 whose entry of `counts` (.., n), which is divided by it, is not.
void refuse_zeros(const char* op, const Tensor& values, const Lazy& counts, const Lazy& scale);

inline AttrSpec degenerate_attr() {
  return text_attr("degenerate", "exact", "derivative at ties: exact refuses them, safe damps");
}
Degenerate degenerate_of(const char* op, const AttrValue& a);
inline const char* name_of(Degenerate d) { return d == Degenerate::safe ? "safe" : "exact"; }

// Called by register_linalg(), in this order.
void register_factors();
void register_solving();
void register_spectra();
void register_functions();
void register_analytic();
void register_actions();
void register_tensors();

}  // namespace gradus::linalg
