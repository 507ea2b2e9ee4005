// The table of the reference device: host memory, no streams, no plans.
#include "kernels/reference/reference.hpp"

#include "kernels/call/table.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

#include <cstdio>
#include <cstdlib>

namespace gradus::inline v1::reference {
namespace {

// The device has no state; its handle is the address of something.
char the_device;

gd_status refuse_index(int32_t index, gd_error* error) {
  char text[80];
  std::snprintf(text, sizeof text, "reference: there is one device, 0, and no device %d", index);
  return fill_error(error, GD_BAD_DEVICE, 0, text);
}

gd_status info(int32_t index, gd_info* out, gd_error* error) {
  if (index != 0) return refuse_index(index, error);
  *out = gd_info{};
  std::snprintf(out->name, sizeof out->name, "reference (naive loops over xtensor views)");
  std::snprintf(out->arch, sizeof out->arch, "portable C++");
  out->total_bytes = out->free_bytes = -1;
  out->units = 1;
  out->wave = 1;
  return GD_OK;
}

// There is nothing to configure: json is not read.
gd_status open(int32_t index, const char*, gd_device** out, gd_error* error) {
  if (index != 0) return refuse_index(index, error);
  *out = reinterpret_cast<gd_device*>(&the_device);
  return GD_OK;
}

void close(gd_device*) {}

gd_status alloc(gd_device*, size_t bytes, void** out, gd_error* error) {
  constexpr size_t kAlignment = 64;
  const size_t whole = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *out = whole < bytes ? nullptr : std::aligned_alloc(kAlignment, whole);
  if (*out) return GD_OK;
  char text[80];
  std::snprintf(text, sizeof text, "reference: the host has no %zu bytes", bytes);
  return fill_error(error, GD_OOM, 0, text);
}

void free_memory(gd_device*, void* p) { std::free(p); }

constexpr Device kDevice{"reference", INT_MAX,
                         [](DType t) { return find_user_kernels(t) != nullptr; }};

template <gd_slot Slot, void (*Work)(Call&)>
gd_status run(gd_device*, gd_stream*, const gd_call* raw, gd_error* error) {
  return guarded("reference", error, [&] {
    Call call(*raw, kDevice, gd_slot_name(Slot));
    Work(call);
  });
}

gd_table make_table() {
  gd_table t = new_host_table("reference", 0);
  t.info = info;
  t.open = open;
  t.close = close;
  t.alloc = alloc;
  t.free = free_memory;
  t.slot[GD_COPY] = run<GD_COPY, copy>;
  t.slot[GD_FILL] = run<GD_FILL, fill>;
  t.slot[GD_POINTWISE] = run<GD_POINTWISE, pointwise>;
  t.slot[GD_POINTWISE_VJP] = run<GD_POINTWISE_VJP, pointwise_vjp>;
  t.slot[GD_REDUCE] = run<GD_REDUCE, reduce>;
  t.slot[GD_SCAN] = run<GD_SCAN, scan>;
  t.slot[GD_CONTRACT] = run<GD_CONTRACT, contract>;
  t.slot[GD_GATHER] = run<GD_GATHER, gather>;
  t.slot[GD_SCATTER_ADD] = run<GD_SCATTER_ADD, scatter_add>;
  t.slot[GD_RANDOM] = run<GD_RANDOM, random>;
  t.slot[GD_SOFTMAX] = run<GD_SOFTMAX, softmax>;
  t.slot[GD_NORMALIZE] = run<GD_NORMALIZE, normalize>;
  t.slot[GD_OPTIMIZER_STEP] = run<GD_OPTIMIZER_STEP, optimizer_step>;
  t.slot[GD_SORT] = run<GD_SORT, sort>;
  t.slot[GD_LINALG] = run<GD_LINALG, linalg>;
  t.slot[GD_GROUPED] = run<GD_GROUPED, grouped>;
  return t;
}

}  // namespace

const gd_table* table() {
  static const gd_table t = make_table();
  return &t;
}

}  // namespace gradus::reference
