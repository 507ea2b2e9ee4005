// Words on matrices, of diagonal ones: the payload's last axis holds their eigenvalues.
#include "ops/diagonal/structure.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

// Are these diagonal matrices, up to permutations of rows and columns?
void check_diagonal(const char* op, const ClassedTensor& A) {
  const size_t rank = A.classes.size();
  if (rank < 2) fail(ErrorKind::shape, op, "sizes are ", A.sizes(), ", expected two axes or more");
  const auto count = [&](int64_t c) { return std::count(A.classes.begin(), A.classes.end(), c); };
  bool fits = A.classes[rank - 2] == A.classes[rank - 1] && count(A.classes.back()) == 2;
  for (size_t axis = 0; axis + 2 < rank; ++axis)
    fits = fits && count(A.classes[axis]) == 1 && !A.index(axis).defined();
  if (!fits)
    fail(ErrorKind::value, op, "classes ", to_text(A.classes),
         " are not those of diagonal matrices, whose last two axes alone share one; use "
         "to_dense()");
}
// Their values (batch.., n).
Tensor diagonal_of(const char* op, const ClassedTensor& A) {
  check_diagonal(op, A);
  Ints order = A.classes;
  order.pop_back();
  return permute(values(A), order);
}
Tensor row_of(const ClassedTensor& A) { return A.index(A.classes.size() - 2); }
Tensor column_of(const ClassedTensor& A) { return A.index(A.classes.size() - 1); }
// What a function of the matrix is a function of.
Tensor eigenvalues(const char* op, const ClassedTensor& A) {
  check_diagonal(op, A);
  if (row_of(A).defined() || column_of(A).defined())
    fail(ErrorKind::value, op,
         "an axis of the matrix has an index, so it is not diagonal; use to_dense()");
  return stored(A);
}

// No value may be one of these.
void refuse_where(const char* op, const Tensor& bad, const char* what, const char* remedy) {
  const Tensor places = nonzero(bad.detach());
  if (places.size(0) == 0) return;
  const std::vector<int64_t> first = select(places, 0, 0).to_vector<int64_t>();
  fail(ErrorKind::numeric, op, "value ", to_text(Shape(first.begin(), first.end())),
       " of the diagonal is ", what, "; ", remedy);
}
void refuse_singular(const char* op, const Tensor& d) {
  refuse_where(op, eq(d, 0), "0: the matrix is singular",
               "pinv(to_dense()) does without an inverse");
}
void refuse_cut(const char* op, const Tensor& d, bool zero_too) {
  const bool complex = is_complex(d.dtype());
  const Tensor x = complex ? real(d) : d;
  Tensor bad = zero_too ? le(x, 0) : lt(x, 0);
  if (complex) bad = mul(bad, eq(imag(d), 0));
  refuse_where(op, bad, zero_too ? "0 or negative" : "negative", "make it complex, or add to it");
}

int64_t sign_of(const Tensor& index) {
  if (!index.defined()) return 1;
  std::vector<int64_t> to = index.to_vector<int64_t>();
  int64_t sign = 1;
  for (size_t i = 0; i < to.size(); ++i)
    while (to[i] != int64_t(i)) {
      std::swap(to[i], to[size_t(to[i])]);
      sign = -sign;
    }
  return sign;
}

bool holds_vectors(const Tensor& d, const Tensor& B) {
  return B.rank() == 1 || (B.rank() == d.rank() && B.sizes() == d.sizes());
}

}  // namespace

Tensor trace(const ClassedTensor& A) {
  check_diagonal("trace", A);
  Labels axes, batch;
  for (int64_t axis = 0; axis + 2 < A.rank(); ++axis) batch.push_back(axis);
  axes = batch;
  axes.push_back(A.rank());
  axes.push_back(A.rank());
  return to_dense(einsum_classed({A}, {axes}, batch));
}
Tensor det(const ClassedTensor& A) {
  const Tensor d = prod(diagonal_of("det", A), {-1});
  return sign_of(row_of(A)) * sign_of(column_of(A)) < 0 ? neg(d) : d;
}

// Row p[k] has its value d[k] in column q[k]; the inverse 1 / d[k] in row q[k], column p[k].
ClassedTensor inv(const ClassedTensor& A) {
  check_diagonal("inv", A);
  ClassedTensor y = A;
  if (!A.is_copy()) {
    refuse_singular("inv", A.payload);
    y.payload = reciprocal(A.payload);
  }
  if (!y.indices.empty()) std::swap(y.indices[y.indices.size() - 2], y.indices.back());
  return y;
}
Tensor solve(const ClassedTensor& A, const Tensor& B) {
  const Tensor d = diagonal_of("solve", A);
  const int64_t rows = holds_vectors(d, B) ? -1 : -2, n = A.size(A.classes.size() - 1);
  if (B.rank() == 0 || B.size(rows) != n)
    fail(ErrorKind::shape, "solve", "A has sizes ", A.sizes(), ", B has shape ", B.sizes(),
         "; expected ", n, " rows");
  refuse_singular("solve", d);
  const Tensor right = reindexed(B, rows, row_of(A));
  const Tensor x = div(right, rows == -1 ? d : unsqueeze(d, -1));
  return reindexed(x, rows, inverse_of(column_of(A)));
}

ClassedTensor matrix_exp(const ClassedTensor& A) {
  return with_payload(A, exp(eigenvalues("matrix_exp", A)));
}
ClassedTensor sqrtm(const ClassedTensor& A) {
  const Tensor d = eigenvalues("sqrtm", A);
  refuse_cut("sqrtm", d, false);
  return with_payload(A, sqrt(d));
}
ClassedTensor logm(const ClassedTensor& A) {
  const Tensor d = eigenvalues("logm", A);
  refuse_cut("logm", d, true);
  return with_payload(A, log(d));
}

}  // namespace gradus
