// What grouped.cu has of this room.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/gpu/runtime.hpp"

namespace gradus::inline v1::gpu {

void block_products(const Run&, const calls::GroupedCall&);

}  // namespace gradus::gpu
