// Operands on several devices. Of all ops only contractions take them, and only if one lives on a
// device that gathers (GD_CAP_GATHERS): the others are brought there, a copy each, and their
// cotangents back to where they came from.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

inline bool live_apart(const Tensor& a, const Tensor& b) {
  return !a.is_number() && !b.is_number() && &a.device() != &b.device();
}
bool live_apart(std::span<const Tensor> operands);
// All on the device that gathers; Error(device) of `op` if there is none.
Tensors gathered(const char* op, std::span<const Tensor> operands);

}  // namespace gradus
