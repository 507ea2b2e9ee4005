// What the pointwise driver asks about statements, and the block functions of the dtypes that have
// no SIMD batches (complex, integers, bool): they give the same bits for every instruction set, so
// they are compiled once.
#pragma once
#include "kernels/cpu/runtime.hpp"

namespace gradus::inline v1::cpu {

struct StatementShape {
  int arity = 0, params = 0;
  bool select = false;  // operand 0 is a bool mask
};

int32_t statement_count();
const char* statement_name(int32_t op);      // of an existing one
StatementShape statement_shape(int32_t op);  // arity 0: there is none
// NULL if the statement does not read this dtype.
const Block* scalar_block(int32_t op, int32_t dtype);

}  // namespace gradus::cpu
