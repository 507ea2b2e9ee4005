// An einsum of classed tensors as one of tensors alone. The axes of a class have one index, so
// their labels are one: classes are merged by union-find, copy tensors vanish, and where one of
// them stood its labels become a hyperedge, before any order of contraction is looked for. Payloads
// are operands like any other. Indices of permutations go to the operands that meet them. The
// standard algebra.
#pragma once
#include "ops/contract/plan.hpp"
#include "ops/diagonal/classed.hpp"

namespace gradus::inline v1 {

struct Hyperedges {
  Tensors operands;
  std::vector<Labels> terms;  // numbers, one for each merged label
  Labels output;              // the merged labels of the result that operands have, each once
  ClassedTensor result;       // what it is, but for its payload
  std::vector<char> held;     // which of its classes `output` has; along the others it is repeated

  // By einsum, or by a plan of the caller's for these operands.
  ClassedTensor contracted() const;
  ClassedTensor contracted(const EinsumPlan& plan) const;
  // Error(value) where no operand is left: copy tensors alone cost nothing.
  EinsumPlan plan(const PathOptions& options = {}) const;
};

Hyperedges hyperedges(std::string_view equation, const ClassedTensors& operands);
Hyperedges hyperedges(const ClassedTensors& operands, const std::vector<Labels>& labels,
                      const Labels& output);

}  // namespace gradus
