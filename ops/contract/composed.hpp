// Contractions of two operands in the algebras that no kernel has, made of ops that have one. Their
// derivatives come by themselves. For contract(), which has made the operands ready.
#pragma once
#include "ops/contract/labelled.hpp"

namespace gradus::inline v1 {

// Labels are distinct in each operand and in the output, each of which is in an operand; extents of
// one label are equal and, where it is summed, not 0. log-sum-exp, boolean and mod P.
Tensor contract_composed(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra);

}  // namespace gradus
