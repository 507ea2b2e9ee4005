// What cuBLASLt, cuTENSOR and hipTensor have in common: numbers of types and of statuses.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1::gpu {

// cudaDataType_t.
enum DataType : int { kR32F = 0, kR64F = 1, kR16F = 2, kC32F = 4, kC64F = 5, kR16BF = 14 };
// Of a dtype that the libraries know.
inline DataType data_type(int32_t dtype) {
  switch (dtype) {
    case GD_F64:
      return kR64F;
    case GD_C64:
      return kC32F;
    case GD_C128:
      return kC64F;
    case GD_F16:
      return kR16F;
    case GD_BF16:
      return kR16BF;
    default:
      return kR32F;
  }
}

enum LibraryStatus : int { kNotSupported = 15 };

}  // namespace gradus::gpu
