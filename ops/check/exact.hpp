// Exact proofs of derivatives: an op's vjp and jvp against each other over a number type that
// rounds nothing (a user's dtype such as integers modulo a prime, or fractions), by ==. Knows no op
// by name.
#pragma once
#include "ops/check/rows.hpp"

namespace gradus::inline v1::rows {

struct ExactResult {
  enum class Verdict {
    proven,    // all that ran was equal
    wrong,     // something differed
    not_read,  // the op needs more than the type has, or has no derivative in it
  } verdict = Verdict::not_read;
  int cases = 0, second_order = 0;  // how many of the row's cases ran, and how many a second time
  int refused = 0;                  // cases for which the type lacks something
  std::string words;                // what differed, or what is missing
};

// At random points, for every case of the op's row:
//   <w, J v> == <J^T w, v>
//   <v, H u> == <u, H v> for H the Hessian of <w, f>, by reverse over reverse,
//   <v, H u> the same by forward over reverse.
// `denominator` divides the drawn integers, for a type of fractions.
ExactResult check_exact(const OpInfo& op, DType dtype, Device& device, int64_t denominator = 1);

}  // namespace gradus::rows
