// What a derivative of linear algebra divides by, for those who audit it.
#pragma once
#include "engine/op_info.hpp"

#include <span>
#include <string>

namespace gradus::inline v1::linalg {

// The nearest pair of a spectrum and its gap, or the condition of the matrix (largest by smallest
// singular value), of the worst matrix of a batch. "" of other ops. Reads the device.
std::string remark_on(const OpInfo& op, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs);

}  // namespace gradus::linalg
