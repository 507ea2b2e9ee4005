// The cpu device: host memory, its own thread pool, kernels for several instruction sets chosen
// when the device is opened. All else is behind the C table.
#pragma once
#include "engine/abi/kernel_table.h"

#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::cpu {

// The table of kind "cpu", score 1. Lives as long as the program; safe from any thread.
//
// open() takes a JSON object or NULL: {"isa": "sse2" | "avx2" | "avx512", "threads": N,
// "libraries": {"lapack": FILE, "blas": FILE}}; other keys are not its business. Without "isa":
// environment GRADUS_ISA, else the best that the processor has. Without "threads": GRADUS_THREADS,
// else one per processor. A device may be used from several threads at once: one call has the pool,
// the others run on their own thread.
const gd_table* table();

// Functions of a LAPACK or a BLAS that the program has, by their names there, and a text for
// people: who made it, which version.
using Function = void (*)();
struct GivenLibrary {
  std::vector<std::pair<std::string, Function>> functions;
  std::string text;
};
// Devices that are opened later take them where their config names no library under `key`, "lapack"
// or "blas"; no functions: none again. What is wrong with them, "" if they are taken.
std::string give_library(const std::string& key, const GivenLibrary& given);

}  // namespace gradus::cpu
