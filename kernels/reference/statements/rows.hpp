// The statements of ops/def as plain functions over packed rows, found by statement id and
// computing dtype. The formulas stay in ops/def; here they only meet float, double, complex, the
// integers and bool. pointwise.cpp, which calls these, knows no statement.
#pragma once
#include "engine/abi/dtype.hpp"
#include "ops/def/statement.hpp"

namespace gradus::inline v1::reference {

// Statement `id` read by one number type.
struct Row {
  bool reads = false;    // does the statement read this type at all?
  DType y = DType::f32;  // dtype of the value
  // y[i] = value(x[0][i], ...); where has its mask, of type bool, in x[0].
  void (*value)(const double* params, const void* const* x, void* y, int64_t n) = nullptr;
  // out[i] = g[i] * conj(slope_k(x[0][i], ..., y[i])); null where operand k has no slope.
  void (*vjp[3])(const double* params, const void* const* x, const void* y, const void* g,
                 void* out, int64_t n) = {};
};

// computing is f32, f64 (rows_real.cpp), c64, c128 (rows_complex.cpp), i32, i64, u8 or bool
// (rows_integer.cpp); f16 and bf16 are computed in f32.
Row real_row(int32_t id, DType computing);
Row complex_row(int32_t id, DType computing);
Row integer_row(int32_t id, DType computing);

}  // namespace gradus::reference
