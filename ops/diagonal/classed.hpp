// Tensors that are 0 but where some of their axes run together: diagonals, copy tensors,
// identities, permutations, Kronecker products with an identity. One carrier: what is stored, the
// payload, has one axis for each class of axes, and
//
//   dense[i_0, i_1, ..] = payload[k_0, k_1, ..]   where i_a = index_a[k_classes[a]] for every axis
//   a
//                         0                        elsewhere
//
// classes (0, 0) are a diagonal matrix, (0, 0, 0) a diagonal of order 3, (0, 1, 0, 1) a matrix
// times an identity; (0, 1, 2, ..) are any dense tensor, so tensors convert. An axis without an
// index of its own has i_a = k. A payload that is not there is ones everywhere: no memory at all.
//
// The payload is a tensor like any other: what records, differentiates or maps it does so here, and
// gradients have its shape, never the dense one. Only to_dense() makes the dense tensor, one
// visible op `to_dense`. Errors are those of ops. Threads: as tensors.
#pragma once
#include "ops/base/ints.hpp"
#include "ops/contract/algebra.hpp"
#include "ops/contract/equation.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1 {

struct ClassedTensor {
  Tensor payload;   // an axis of each class: its extent, or 1 where all values are one
  Ints classes;     // of each axis
  Shape extents;    // of each class
  Tensors indices;  // empty, or for each axis a permutation in i64, undefined where it is in order
  // Of ones without a payload: as numbers do, they follow the tensors that they meet.
  DType ones = DType::f32;
  Device* device = nullptr;  // null: that of new tensors

  ClassedTensor() = default;
  ClassedTensor(const Tensor& dense);

  int64_t rank() const { return int64_t(classes.size()); }
  int64_t size(size_t axis) const { return extents[size_t(classes[axis])]; }
  Shape sizes() const;  // of the dense tensor
  DType dtype() const { return payload.defined() ? payload.dtype() : ones; }
  Tensor index(size_t axis) const { return indices.empty() ? Tensor() : indices[axis]; }
  bool is_copy() const { return !payload.defined(); }
  // Is every axis a class of its own, in order? Then to_dense() costs nothing.
  bool is_dense() const;
  std::string to_string(
      int64_t first = 0) const;  // what it is, its classes from `first`; no values
};
using ClassedTensors = std::vector<ClassedTensor>;

// ---- what makes them
// One class for each axis of the payload, each at least once. Error(index).
ClassedTensor diagonal_tensor(const Tensor& payload, const Ints& classes = {0, 0});
// 1 where all `order` indices are equal, each below n.
ClassedTensor copy_tensor(int64_t n, int64_t order, DType dtype = DType::f32,
                          Device& device = default_device());
ClassedTensor identity(int64_t n, DType dtype = DType::f32, Device& device = default_device());
// P with P x = x[index]: its row k has a 1 at index[k]. Error(value) unless every number below n is
// there once.
ClassedTensor permutation(const Tensor& index, DType dtype = DType::f32);

// The dense tensor; a view where is_dense(). The op, of a payload without indices.
Tensor to_dense(const ClassedTensor& x);
Tensor to_dense(const Tensor& payload, const Ints& classes);
// The payload, of full extents.
Tensor values(const ClassedTensor& x);

// ---- element by element: what is 0 stays 0
ClassedTensor permute(const ClassedTensor& x, const Ints& dims);
ClassedTensor conj(const ClassedTensor& x);
ClassedTensor neg(const ClassedTensor& x);
// Of equal sizes (1 against n is repeated), or one of them 0-d: the axes of a class of either
// operand share one in the product. Of a diagonal matrix and a dense one it is diagonal.
ClassedTensor mul(const ClassedTensor& a, const ClassedTensor& b);
ClassedTensor div(const ClassedTensor& a, const Tensor& number);  // 0-d
// Error(value) unless a and b are of one structure: the same axes together, by the same indices.
ClassedTensor add(const ClassedTensor& a, const ClassedTensor& b);
ClassedTensor sub(const ClassedTensor& a, const ClassedTensor& b);
// An op of one tensor, element by element, by its name: "sin", "sqrt", "relu". Error(value) unless
// it gives 0 of 0.
ClassedTensor map_values(std::string_view op, const ClassedTensor& x, const Attrs& attrs = {});

// ---- contractions: einsum of any number of operands, copy tensors among them (hyperedges.hpp).
// The equation is einsum's (ops/contract/equation.hpp), and its output may have a label repeatedly:
// "i,i->ii" is diagonal. In any algebra the value is that of the operands' to_dense(): what they do
// not store is the number 0. In all but standard, boolean and mod P they are made dense, and an
// output that repeats a label is an Error(value). (A repeated label of operands is the diagonal of
// any algebra: "i,ik->ik".)
ClassedTensor einsum_classed(std::string_view equation, const ClassedTensors& operands,
                             Algebra algebra = Algebra::standard);
ClassedTensor einsum_classed(const ClassedTensors& operands, const std::vector<Labels>& labels,
                             const Labels& output, Algebra algebra = Algebra::standard);
ClassedTensor contract(const ClassedTensor& a, const Labels& labels_a, const ClassedTensor& b,
                       const Labels& labels_b, const Labels& labels_out);

// ---- diagonal matrices: the last two axes share a class that no other axis has; the axes before
// them are a batch, dense and in order. Meanings and refusals are those of ops/linalg/linalg.hpp.
Tensor trace(const ClassedTensor& A);
Tensor det(const ClassedTensor& A);
ClassedTensor inv(const ClassedTensor& A);
Tensor solve(const ClassedTensor& A, const Tensor& B);  // X with A X = B; B a vector or matrices
ClassedTensor matrix_exp(const ClassedTensor& A);
ClassedTensor sqrtm(const ClassedTensor& A);
ClassedTensor logm(const ClassedTensor& A);

void register_to_dense();

}  // namespace gradus
