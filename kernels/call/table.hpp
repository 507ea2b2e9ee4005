// What every table says of itself, and the entries of devices whose memory is the host's.
#pragma once
#include "engine/abi/kernel_table.h"
#include "ops/def/fingerprint.hpp"

#include <cstring>

namespace gradus::inline v1::calls {

// A table without entries but for its statements' texts.
inline gd_table new_table(const char* kind, const char* build, int32_t score) {
  gd_table t{};
  t.magic = GD_MAGIC;
  t.major = GD_MAJOR;
  t.minor = GD_MINOR;
  t.struct_size = sizeof(gd_table);
  t.statements = def::statements_hash();
  t.kind = kind;
  t.build = build;
  t.score = score;
  t.statement_count = def::statement_count();
  t.statement_text = [](int32_t id) -> const char* { return def::statement_text(id); };
  return t;
}

// One device, whose calls have ended when they return.
inline gd_table new_host_table(const char* kind, int32_t score) {
  gd_table t = new_table(kind, "C++ " __VERSION__ ", -ffp-contract=off -fwrapv", score);
  t.probe = [](int32_t* count, gd_error*) -> gd_status {
    *count = 1;
    return GD_OK;
  };
  t.capabilities = [](gd_device*) -> uint32_t { return GD_CAP_HOST_MEMORY; };
  t.copy = [](gd_device*, gd_stream*, void* to, const void* from, size_t bytes, int32_t,
              gd_error*) -> gd_status {
    if (bytes > 0) std::memmove(to, from, bytes);
    return GD_OK;
  };
  return t;
}

}  // namespace gradus::calls
