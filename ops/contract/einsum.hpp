// einsum over any number of operands, numpy's and PyTorch's syntax (see equation.hpp), with
// derivatives of every order. Of three and more operands in the standard algebra it is one node
// (network.hpp), else a composition of ops. Products of complex numbers conjugate nothing. A
// sum-free einsum of one operand returns a view.
//
// Algebras: the tropical ones put max or min in the place of the sum, + or * in the place of the
// product. On ties a derivative goes to the first winner in row-major order of the summed labels of
// each step, so with several operands it may depend on the order of contraction. max-times is no
// semiring where factors are negative: there its value depends on that order too. An empty sum is
// the algebra's zero.
#pragma once
#include "engine/base/scoped.hpp"
#include "ops/contract/plan.hpp"
#include "ops/contract/contraction.hpp"

namespace gradus::inline v1 {

Tensor einsum(std::string_view equation, const Tensors& operands,
              Algebra algebra = Algebra::standard);

// Of labels instead of letters: any int32 numbers as number_label(n), one for each axis. There may
// be as many as there are axes.
Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels, const Labels& output,
              Algebra algebra = Algebra::standard);

// By a plan made for operands of these shapes. For max-times over several operands the plan must
// not sum labels alone (PathOptions::sum_alone).
Tensor einsum(const EinsumPlan& plan, const Tensors& operands, Algebra algebra = Algebra::standard);

// While it lives, each step of an einsum is a node of its own in this thread, as it is wherever
// somebody watches: traces and audits show how the value comes about. Else an einsum of three and
// more operands is one node, `network`.
struct EinsumBySteps : Scoped<bool> {
  EinsumBySteps();
};

// Bytes of operands, output and intermediates while the plan is carried out; with `gradients`, of
// what their computation has alive, too.
double einsum_bytes(const EinsumPlan& plan, DType dtype, Algebra algebra = Algebra::standard,
                    bool gradients = false);
// The plan, with labels to loop over if it needs more than `bytes`. Error(memory) where no choice
// of labels brings it below that.
EinsumPlan within_memory(EinsumPlan plan, double bytes, DType dtype,
                         Algebra algebra = Algebra::standard, bool gradients = false,
                         PathOptions options = {});

// "standard", "max-plus", "min-plus", "max-times".
const char* algebra_name(Algebra algebra);
Algebra parse_algebra(std::string_view name);  // Error(value) with the nearest name

void register_einsum();

}  // namespace gradus
