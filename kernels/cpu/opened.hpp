// A device as it was opened: what only code that is compiled once may see.
#pragma once
#include "kernels/cpu/lapack.hpp"
#include "kernels/cpu/runtime.hpp"
#include "kernels/cpu/threads.hpp"

namespace gradus::inline v1::cpu {

struct OpenDevice : gd_device {
  OpenDevice(const gd_device& device, std::unique_ptr<LapackLibrary> library)
      : gd_device(device), threads_of(device.threads), lapack(std::move(library)) {
    pool = &threads_of;
  }

  Pool threads_of;
  std::unique_ptr<LapackLibrary> lapack;  // null: our own algorithms
};

}  // namespace gradus::cpu
