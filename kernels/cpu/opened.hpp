// A device as it was opened: what only code that is compiled once may see.
#pragma once
#include "kernels/cpu/blas.hpp"
#include "kernels/cpu/lapack.hpp"
#include "kernels/cpu/runtime.hpp"
#include "kernels/cpu/threads.hpp"

namespace gradus::inline v1::cpu {

// Null: our own algorithms and kernels do it.
struct Libraries {
  std::shared_ptr<const LapackLibrary> lapack;
  std::shared_ptr<const BlasLibrary> blas;
};

struct OpenDevice : gd_device, Libraries {
  OpenDevice(const gd_device& device, const Libraries& libraries)
      : gd_device(device), Libraries(libraries), threads_of(device.threads) {
    pool = &threads_of;
  }

  Pool threads_of;
};

}  // namespace gradus::cpu
