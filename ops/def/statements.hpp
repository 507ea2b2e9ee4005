// The statements: every pointwise op of gradus as its value and its slope, sorted from simple to
// tricky. x, a, b are operands, y is the value, m a mask, z a complex operand. What a statement is
// and how it is read stands in statement.hpp, its words in words.hpp.
// A slope is written through y where that is as exact: the engine saves exactly what a slope reads.
// It stays finite through its own derivatives: what a select does not take, and what a limit
// multiplies by 0, must not be inf. Plain header: kernels include it; no std type appears.
#pragma once
#include "ops/def/statements_smooth.hpp"
#include "ops/def/statements_arithmetic.hpp"
#include "ops/def/statements_pieces.hpp"
#include "ops/def/statements_functions.hpp"
#include "ops/def/statements_steps.hpp"

namespace gradus::inline v1::def {

// One that other kernels may end with: it has no parameters and commutes with rounding.
using Final = relu;

template <class S> constexpr int id_of() {
  constexpr int id = detail::index_in<S>(Statements{});
  static_assert(id >= 0, "not in the list of statements");
  return id;
}

}  // namespace gradus::def
