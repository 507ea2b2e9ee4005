// Contractions.
#pragma once
#include "ops/base/ints.hpp"
#include "ops/contract/algebra.hpp"

namespace gradus::inline v1 {

// Labels are any integers, one per axis. Labels of the output must occur in an
// operand; a label in both operands but not in the output is summed, and so is one that only one
// operand has; a label repeated in one operand walks its diagonal; an axis of size 1 broadcasts
// against n in the other operand. The bias broadcasts to the result and is added to it (standard
// algebra only).
Tensor contract(const Tensor& a, const Ints& labels_a, const Tensor& b, const Ints& labels_b,
                const Ints& labels_out, Algebra algebra = Algebra::standard,
                const Tensor& bias = {});
// Values, and winners as GD_CONTRACT counts them, without history: of operands of one dtype in a
// tropical algebra, whose labels are distinct, each in the other operand or the output.
std::pair<Tensor, Tensor> contract_with_winners(const Tensor& a, const Ints& labels_a,
                                                const Tensor& b, const Ints& labels_b,
                                                const Ints& labels_out, Algebra algebra);
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& x);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
Tensor tensordot(const Tensor& a, const Tensor& b, const Ints& dims_a, const Ints& dims_b);

}  // namespace gradus
