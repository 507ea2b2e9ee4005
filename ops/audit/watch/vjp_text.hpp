// The derivative of a call as formulas: the slopes of a statement as they are written, any other
// op's vjp read off its own run, with the attributes and the sizes that it had.
#pragma once
#include "engine/graph.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::audit {

struct VjpText {
  // "dy/dx = y * (1 - y)" for each operand of a statement. Else a formula for each operand's
  // cotangent: "dx = y * (g - sum(g * y, dim=[1], keepdim=true))". g is the cotangent of the result
  // y (g0, g1, ... of several); attributes stand there if they are not the default; a contraction
  // is an einsum; what is used twice has a line of its own, t1, and so has what the call drew.
  // Empty if they would take more than kMostTerms calls, or if there is no derivative.
  std::vector<std::string> lines;
  // The ops that the vjp ran, in the order of their first call, and how often each.
  std::vector<std::pair<std::string, int>> ops;

  int calls() const;             // of them together
  std::string ops_text() const;  // "5 ops: mul 3, sum, sub"
  // The lines; where they are too many, what runs.
  std::vector<std::string> words() const;
};
inline constexpr size_t kMostTerms = 32;

// Of this call: the op runs once more, on the device "reference", and its vjp is told op by op.
// Numbers in the text are true of these sizes and attributes. The operands are left as they are.
// Statements are not run; nor are ops of a user, whose code is not run to be looked at: they give
// nothing. Changes no state of the caller's: random numbers go on as before, and no watch is told.
// Throws what the op throws.
VjpText vjp_text(const OpInfo& op, const Tensors& operands, const Attrs& attrs);

// Of a node, by one run of its vjp, of ones, on its own device: what it saved has the name of the
// operand or the result that it was, else saved, saved2, ... Nothing of ops but statements if the
// node was freed, hooks keep what it saved, or the vjp throws.
VjpText vjp_text(GradFn& node);

// "dy/dx = ..." of a statement, true of every call of it; nothing of other ops.
std::vector<std::string> slopes_of(const OpInfo& op);

}  // namespace gradus::audit
