// Whole numbers as labels, {{1, 2}, {2, 3}} and {1, 3}, where an equation would need letters.
#pragma once
#include "bindings/lua/state.hpp"
#include "ops/contract/algebra.hpp"
#include "ops/contract/equation.hpp"

#include <functional>

namespace gradus::inline v1::lua {

// Are operands and labels said as tables, einsum({a, b}, {{1, 2}, {2, 3}}, {1, 3})?
bool says_labels(lua_State* L);
// Or behind each operand, einsum(a, {1, 2}, b, {2, 3}, {1, 3})?
bool says_sublists(lua_State* L);
// The labels of operands and output, arguments 2 and 3 of `who`. Error(value).
struct SaidLabels {
  std::vector<Labels> terms;
  std::optional<Labels> output;  // absent: the numbers that occur once, sorted
};
SaidLabels labels_of(lua_State* L, const char* who);
// The same where they stand behind each operand, which take(index) takes; `end` is what follows.
SaidLabels sublists_of(lua_State* L, const char* who, const std::function<void(int)>& take,
                       int& end);

// "max-plus" or {algebra = "max-plus"}; none is the standard one.
Algebra algebra_at(lua_State* L, int index);

// The order of a contraction as {{1, 2}, {1, 2}}: positions among what is left, from 1.
void push_order(lua_State* L, const std::vector<std::pair<int, int>>& pairs);

// gradus.einsum(operands, labels [, output [, algebra]])
int einsum_by_labels(lua_State* L);
// gradus.einsum(a, its labels, b, its labels, ... [, output [, algebra]])
int einsum_by_sublists(lua_State* L);

}  // namespace gradus::lua
