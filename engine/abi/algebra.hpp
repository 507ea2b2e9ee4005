// The names of the algebras that kernels know, as users write them, by gd_algebra.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1 {

inline constexpr const char* kKernelAlgebras[GD_ALGEBRA_COUNT] = {
    "standard", "max-plus", "min-plus", "max-times", "min-times"};

}  // namespace gradus
