/* A module whose table ends before the fields that this program needs. */
#include "engine/abi/kernel_table.h"

const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor);
const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor) {
  static gd_table table;
  (void)host_major;
  (void)host_minor;
  table.magic = GD_MAGIC;
  table.major = GD_MAJOR;
  table.minor = GD_MINOR;
  table.struct_size = 64;
  table.kind = "short";
  table.build = "test build 1";
  return &table;
}
