// The cpu device: host memory, its own thread pool, kernels for several instruction sets chosen
// when the device is opened. All else is behind the C table.
#pragma once
#include "engine/abi/kernel_table.h"

namespace gradus::inline v1::cpu {

// The table of kind "cpu", score 1. Lives as long as the program; safe from any thread.
//
// open() takes a JSON object or NULL: {"isa": "sse2" | "avx2" | "avx512", "threads": N}; other keys
// are not its business. Without "isa": environment GRADUS_ISA, else the best that the processor
// has. Without "threads": GRADUS_THREADS, else one per processor. A device may be used from several
// threads at once: one call has the pool, the others run on their own thread.
const gd_table* table();

}  // namespace gradus::cpu
