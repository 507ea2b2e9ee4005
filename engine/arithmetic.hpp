// What the engine needs of arithmetic; filled in by ops/ at start-up, as the engine knows no op.
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

struct OpInfo;

struct Arithmetic {
  Tensor (*add)(const Tensor&, const Tensor&);
  void (*add_into)(Tensor& sum, const Tensor& x);  // sum += x; sum owns its storage alone
  Tensor (*sum_to)(const Tensor&, const Shape&);   // undoes broadcasting
  Tensor (*expand)(const Tensor&, const Shape&);
  Tensor (*contiguous)(const Tensor&);
  Tensor (*clone)(const Tensor&);
  Tensor (*cast)(const Tensor&, DType);
  bool (*has_nan)(const Tensor&);
  // For views written in place: elements of row-major x at (sizes, strides, offset), which may
  // overlap; and the op (x, value; strides, offset) -> x with those elements replaced.
  Tensor (*as_strided)(const Tensor& x, const Shape& sizes, const Shape& strides, int64_t offset);
  const OpInfo* scatter_strided;
  Tensor (*permute)(const Tensor&, const Shape&);
};
void set_arithmetic(const Arithmetic& functions);
const Arithmetic& arithmetic();

}  // namespace gradus
