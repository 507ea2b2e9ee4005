// The casting rules between element types, one place for the copy slot and for every load and
// store.
//   complex -> real    the real part                x -> bool      x != 0 (NaN is true)
//   float -> integer   towards zero; beyond the range the nearest end of it, NaN gives 0
//   integer -> integer modulo 2^bits                x -> f16, bf16 rounded once, to nearest even
// It must not know views.
#pragma once
#include "engine/abi/dtype.hpp"

namespace gradus::inline v1::reference {

// to[i] = cast(from[i]) over n packed elements.
void convert(DType from_dtype, const void* from, DType to_dtype, void* to, int64_t n);

}  // namespace gradus::reference
