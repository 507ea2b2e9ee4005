// What the error numbers of CUDA's and HIP's run-time libraries mean. Host side only.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1::gpu {

struct ErrorMeaning {
  gd_status status;  // GD_INTERNAL for a number that is not known
  const char* hint;  // what happened and what to do about it, or ""
};
ErrorMeaning error_meaning(int number);

}  // namespace gradus::gpu
