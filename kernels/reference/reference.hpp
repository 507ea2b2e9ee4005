// The reference device: naive loops over strided views, every dtype. It is the oracle that the fast
// devices are measured against, and a device that needs nothing. It knows the kernel table, the
// element types and the statements, but no Tensor and no graph.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1::reference {

// The table of device kind "reference"; it lives as long as the program.
const gd_table* table();

}  // namespace gradus::reference
