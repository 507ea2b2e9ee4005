// Inside of the primitive `contract`: its attributes and index space, and what else than a kernel's
// sum of products it may be.
#pragma once
#include "ops/contract/algebra.hpp"
#include "ops/base/ints.hpp"

#include <algorithm>

namespace gradus::inline v1 {

// Attributes of the primitive.
enum { kLabelsA, kLabelsB, kLabelsOut, kAlgebra };
Algebra algebra_of(const Attrs& attrs);
inline bool is_product(Algebra algebra) {
  return algebra == Algebra::max_times || algebra == Algebra::min_times;
}

inline size_t place(const Ints& labels, int64_t l) {  // there are few: a plain loop is shortest
  const int64_t* const all = labels.data();
  const size_t n = labels.size();
  size_t i = 0;
  while (i < n && all[i] != l) ++i;
  return i;
}
inline bool has(const Ints& labels, int64_t l) { return place(labels, l) < labels.size(); }

// The joint index space: the output's labels, then the summed ones, with sizes and strides per
// operand, 0 where it lacks the label.
struct Joint {
  Shape sizes, strides_a, strides_b;
};

// The derivatives of a tropical contraction: a gather or scatter through its winners.
Tensor tropical_vjp(GradFn& node, size_t k, const Tensor& grad);
Tensor tropical_jvp_term(GradFn& node, size_t k, const Tensor& t);

// Sums in a user's algebra, row-major, `outer` axes of the joint space being the output's: a plain
// loop over the terms in row-major order, for what no kernel can know.
std::vector<double> contract_by(const OwnAlgebra& algebra, const Joint& joint, size_t outer,
                                const std::vector<double>& a, const std::vector<double>& b);

}  // namespace gradus
