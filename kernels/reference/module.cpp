// The reference as a module, gradus_reference.so, device kind "refmod": the same table behind the
// one exported symbol, so that everything about modules can be tried without a GPU.
#include "kernels/reference/reference.hpp"

extern "C" __attribute__((visibility("default"))) const gd_table* gradus_device_module(
    uint32_t host_major, uint32_t) {
  if (host_major != GD_MAJOR) return nullptr;
  try {
    static const gd_table module = [] {
      gd_table t = *gradus::reference::table();
      t.kind = "refmod";
      return t;
    }();
    return &module;
  } catch (...) {
    return nullptr;
  }
}
