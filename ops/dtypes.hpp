// dtype promotion, PyTorch's rule: the dtypes of dimensioned tensors decide; a 0-d tensor counts
// only if its category (bool < integer < real < complex) is higher, a number only if its category
// is higher still. Between equals the smallest dtype that holds both. A real number brings f32, an
// integer i64.
#pragma once
#include "engine/tensor.hpp"

namespace gradus {

DType promote(DType a, DType b);
DType result_dtype(std::span<const Tensor> operands);
// In which sums and means are taken: 16-bit floats would lose the small terms.
inline DType statistics_dtype(DType t) { return is_half(t) ? DType::f32 : t; }
// "f32", also "float32", "complex64", "int64", ...; Error(value) with the nearest name.
DType parse_dtype(const std::string& name);

}  // namespace gradus
