// Words that rows are written in, shared by the files of rows.
#pragma once
#include "ops/check/rows.hpp"

namespace gradus::inline v1::rows {

using def::kAny;
using def::kBool;
using def::kComplex;
using def::kInteger;
using def::kNumbers;
using def::kReal;

constexpr Exactness kMoves{0, false, 0, "values are moved, not computed"};
constexpr Exactness kChain{256, true, 16, "a chain of ops, each rounded to the dtype"};
constexpr Exactness kContracts{64, true, 2, "sums of up to 70 products in another order"};
constexpr Exactness kExponentials{64, true, 2, "exponentials of 4 ulp and a sum"};

inline const Domain kPlain = between(-2, 2);

inline Row moves(const char* name, std::vector<Case> cases,
                 std::vector<Domain> operands = {kPlain}) {
  return {name, std::move(operands), kAny, std::move(cases), kMoves};
}

}  // namespace gradus::rows
