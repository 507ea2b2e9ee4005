/* A module that was built from other formulas. */
#include "engine/abi/kernel_table.h"

static const char* text(int32_t id) {
  (void)id;
  return "sigmoid(1; ): 42; 0";
}

const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor);
const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor) {
  static gd_table table;
  (void)host_major;
  (void)host_minor;
  table.magic = GD_MAGIC;
  table.major = GD_MAJOR;
  table.minor = GD_MINOR;
  table.struct_size = sizeof table;
  table.statements = 0x1234;
  table.kind = "other";
  table.build = "test build 2";
  table.statement_count = 1;
  table.statement_text = text;
  return &table;
}
