// The derivative of an op as formulas: the slopes of a statement as they are written, any other
// op's vjp read off its own run.
#pragma once
#include "engine/op_info.hpp"

#include <string>
#include <vector>

namespace gradus::audit {

// "dy/dx = y * (1 - y)" for each operand of a statement. Else what the vjp computes: the op runs on
// a case of its test row, its vjp is told call by call, and the calls are written as
// formulas: "dx = y * (g - sum(g * y))". g is the cotangent of the result y (g0, g1, ... of
// several), attributes are left out, and what is used twice has a line of its own, t1. Empty for
// what has no derivative or takes more than kMostTerms calls, and for ops of a user, whose code is
// not run to be looked at. Changes no state of the caller's: random numbers go on as before, and no
// watch is told.
inline constexpr size_t kMostTerms = 48;
std::vector<std::string> derivatives_of(const OpInfo& op);

}  // namespace gradus::audit
