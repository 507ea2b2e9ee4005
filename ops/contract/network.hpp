// network: an einsum of many operands as one node of the graph. Its value, cotangents and tangents
// are programs of contractions (program.hpp), so that the cotangents of all operands are one sweep
// of some twice the work of the value. Of a network that is not sliced, a recorded call keeps the
// intermediates that the sweep reads; else, and where derivatives of derivatives are asked for, the
// sweep computes them again.
#pragma once
#include "ops/contract/plan.hpp"
#include "ops/contract/schedule.hpp"

namespace gradus::inline v1 {

// Operands of the plan's shapes, of one dtype and device; their derivatives may be asked for.
// dtype: built in and not bool.
Tensor contract_network(const EinsumPlan& plan, const Tensors& operands);

// Bytes of operands, output and intermediates; with gradients, of what the sweep has alive at most
// if that is more.
double network_bytes(const EinsumPlan& plan, DType dtype, bool gradients = false);

}  // namespace gradus
