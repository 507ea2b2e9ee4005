// einsum over any number of operands, numpy's and PyTorch's syntax (see equation.hpp), with
// derivatives of every order. Of three and more operands in the standard algebra it is one node
// (network.hpp), else a composition of ops. Products of complex numbers conjugate nothing. A
// sum-free einsum of one operand returns a view.
//
// Algebras: see algebra.hpp. Ties: in each step of a tropical contraction the first winner in
// row-major order of the step's summed labels wins, and gets the whole derivative; these labels
// stand in the order of the step's left operand, then those that its right one alone has. So with
// several operands a tie, and it alone, may be decided by the order of contraction.
#pragma once
#include "engine/base/scoped.hpp"
#include "ops/contract/plan.hpp"
#include "ops/contract/contraction.hpp"

namespace gradus::inline v1 {

Tensor einsum(std::string_view equation, const Tensors& operands,
              Algebra algebra = Algebra::standard);

// Of numbers (any int32) instead of letters, one for each axis: einsum({a, b}, {{0, 1}, {1, 2}},
// {0, 2}). Without an output: the numbers that occur once, sorted.
Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels, const Labels& output,
              Algebra algebra = Algebra::standard);
Tensor einsum(const Tensors& operands, const std::vector<Labels>& labels);
// The same with each operand before its numbers: einsum({{a, {0, 1}}, {b, {1, 2}}}, {0, 2}).
using Sublists = std::vector<std::pair<Tensor, Labels>>;
Tensor einsum(const Sublists& operands, const Labels& output, Algebra algebra = Algebra::standard);
Tensor einsum(const Sublists& operands);

// By a plan made for operands of these shapes. For several operands in an algebra that does not
// sum labels alone (sums_alone()) neither may the plan (PathOptions::sum_alone).
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

void register_einsum();

}  // namespace gradus
