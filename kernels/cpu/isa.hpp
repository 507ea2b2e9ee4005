// Which instruction sets are built in, and which of them this processor has.
#pragma once
#include "kernels/cpu/runtime.hpp"

namespace gradus::inline v1::cpu {

struct Isa {
  const char* name;
  bool supported;
  const Kernels* (*kernels)();
};

// From the plainest to the best; ends with a null name. A build for one machine may have none that
// another supports.
const Isa* isas();

}  // namespace gradus::cpu
