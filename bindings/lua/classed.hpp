// Classed tensors in a script (ops/diagonal): diagonals, copy tensors, identities, permutations.
#pragma once
#include "bindings/lua/state.hpp"

namespace gradus::inline v1::lua {

inline constexpr char kClassed[] = "gradus.ClassedTensor";

// a + b, a - b, a * b, a / b of arguments 1 and 2, if either is a classed tensor: pushes it.
bool classed_operator(lua_State* L, char sign);
// gradus.einsum of classed tensors, or with a label that its output repeats, if it is such a call:
// pushes its result.
bool classed_einsum(lua_State* L);

}  // namespace gradus::lua
