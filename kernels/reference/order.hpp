// What a slot computes in, and which of two numbers wins.
//
// An oracle should be more exact than what it judges: sums and products of f16, bf16 and f32 run in
// f64, those of c64 in c128, those of integers in i64 modulo 2^64; the result is rounded once.
#pragma once
#include "engine/abi/dtype.hpp"

namespace gradus::inline v1::reference {

// Calls f(A{}) with the accumulator of a dtype: double, c128 or int64_t.
template <class F>
void visit_accumulator(DType t, F&& f) {
  if (is_complex(t))
    f(c128{});
  else if (is_integer(t))
    f(int64_t{});
  else
    f(double{});
}

// Does x win over best in a maximum (or minimum)? The first NaN wins over all, an equal one never.
template <class A>
bool beats(bool maximum, A x, A best) {
  if (best != best) return false;
  return x != x || (maximum ? x > best : x < best);
}

}  // namespace gradus::reference
