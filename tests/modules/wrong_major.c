/* A module of another major version of the device interface: it refuses this program's. */
#include "engine/abi/kernel_table.h"

const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor);
const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor) {
  static gd_table table;
  (void)host_minor;
  if (host_major != GD_MAJOR + 6) return NULL;
  table.magic = GD_MAGIC;
  table.major = GD_MAJOR + 6;
  table.minor = 2;
  return &table;
}
