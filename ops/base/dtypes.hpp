// dtype promotion, PyTorch's rule: the dtypes of dimensioned tensors decide; a 0-d tensor counts
// only if its category (bool < integer < real < complex) is higher, a number only if its category
// is higher still. Between equals the smallest dtype that holds both. A real number brings f32, an
// integer i64.
#pragma once
#include "engine/tensor.hpp"
#include "ops/def/statement.hpp"

namespace gradus::inline v1 {

DType promote(DType a, DType b);
DType result_dtype(std::span<const Tensor> operands);
// In which sums and means are taken: 16-bit floats would lose the small terms.
inline DType statistics_dtype(DType t) { return is_half(t) ? DType::f32 : t; }
// Refuses a dtype in words: which ones the op takes (bits of def::Dtypes), and what to do, which
// never loses a part of the numbers unsaid. `why` says more of the op, `remedy` replaces the usual.
[[noreturn]] void refuse_dtype(const std::string& op, DType got, unsigned takes,
                               const std::string& why = "", std::string remedy = "");
// Of complex numbers where an order is needed, by the algebra of that name if one is given.
[[noreturn]] void refuse_unordered(const std::string& op, DType got,
                                   const std::string& needed_by = "");
// A number among the attributes as an operand beside x: a whole one stays an integer among
// integers.
Tensor number_beside(double value, const Tensor& x);
// Does a double hold a whole number? Attributes that are numbers are doubles.
inline bool is_exact(int64_t n) { return double(n) < 0x1p63 && int64_t(double(n)) == n; }
// Can an integer dtype hold a number? Others hold all, rounded. Of a tensor that is no number, yes.
bool holds(DType dtype, double value);
bool holds(DType dtype, const Tensor& value);
// Error(value) if it cannot.
void check_holds(std::string_view op, DType dtype, const Tensor& value);
// "f32", also "float32", "complex64", "int64", ...; Error(value) with the nearest name.
DType parse_dtype(const std::string& name);

}  // namespace gradus
