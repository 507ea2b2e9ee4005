/* A module whose table lacks the entry that GRADUS_TEST_ENTRY names, with statements of the hash
 * GRADUS_TEST_STATEMENTS. */
#include "engine/abi/kernel_table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int is(const char* entry) {
  const char* missing = getenv("GRADUS_TEST_ENTRY");
  return missing && strcmp(missing, entry) == 0;
}

static const char* text(int32_t id) {
  (void)id;
  return is("text of a statement") ? NULL : "other";
}
static gd_status probe(int32_t* count, gd_error* error) {
  (void)error;
  *count = 1;
  return GD_OK;
}
static gd_status open_one(int32_t index, const char* json, gd_device** out, gd_error* error) {
  (void)index;
  (void)json;
  (void)error;
  *out = NULL;
  return GD_OK;
}
static gd_status allocate(gd_device* d, size_t bytes, void** out, gd_error* error) {
  (void)d;
  (void)error;
  *out = malloc(bytes);
  return GD_OK;
}
static void release(gd_device* d, void* p) {
  (void)d;
  free(p);
}
static gd_status copy(gd_device* d, gd_stream* s, void* to, const void* from, size_t bytes,
                      int32_t way, gd_error* error) {
  (void)d;
  (void)s;
  (void)way;
  (void)error;
  memmove(to, from, bytes);
  return GD_OK;
}
static gd_status prepare(gd_device* d, const gd_call* call, void** plan, gd_error* error) {
  (void)d;
  (void)call;
  (void)error;
  *plan = NULL;
  return GD_OK;
}

const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor);
const gd_table* gradus_device_module(uint32_t host_major, uint32_t host_minor) {
  static gd_table table;
  const char* hash = getenv("GRADUS_TEST_STATEMENTS");
  (void)host_major;
  (void)host_minor;
  memset(&table, 0, sizeof table);
  table.magic = GD_MAGIC;
  table.major = GD_MAJOR;
  table.minor = GD_MINOR;
  table.struct_size = sizeof table;
  table.statements = hash ? strtoull(hash, NULL, 10) : 0;
  if (!is("kind")) table.kind = "bare";
  if (!is("build")) table.build = "test build 3";
  table.statement_count = 1;
  if (!is("statement_text")) table.statement_text = text;
  if (!is("probe")) table.probe = probe;
  if (!is("open")) table.open = open_one;
  if (!is("alloc")) table.alloc = allocate;
  if (!is("free")) table.free = release;
  if (!is("copy")) table.copy = copy;
  if (is("unprepare")) table.prepare = prepare;
  return &table;
}
