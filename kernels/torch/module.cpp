// The module gradus_torch.so, device kind "torch": the reference's table, of which libtorch does
// the slots it has. Opening the device opens libtorch; until then nothing of it is looked for.
#include "kernels/call/table.hpp"
#include "kernels/reference/reference.hpp"
#include "kernels/torch/library.hpp"
#include "kernels/torch/slots.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::torch {
namespace {

constexpr calls::Device kDevice{"torch"};

const gd_table& loops() { return *reference::table(); }

std::string named_library(const char* json) {
  try {
    const auto all = nlohmann::json::parse(json && *json ? json : "{}", nullptr, true, true);
    const auto libraries = all.value("libraries", nlohmann::json::object());
    const std::string named = libraries.value("torch", "auto");
    return named == "auto" ? "" : named;
  } catch (const nlohmann::json::exception& e) {
    calls::refuse(GD_INVALID, 0, "torch open: the device config can't be read: %s", e.what());
  }
}

gd_status open(int32_t index, const char* json, gd_device** out, gd_error* error) {
  if (index != 0)
    return calls::fill_error(error, GD_BAD_DEVICE, 0, "there is one device, 0: torch's CPU");
  gd_error none{};
  const gd_status status =
      calls::guarded("torch", error, [&] { open_library(named_library(json)); });
  return status == GD_OK ? loops().open(0, "{}", out, &none) : status;
}

gd_status info(int32_t, gd_info* out, gd_error*) {
  *out = gd_info{};
  std::snprintf(out->name, sizeof out->name, "libtorch %s, its CPU", library().version.c_str());
  std::snprintf(out->arch, sizeof out->arch, "aten, and the reference's loops");
  out->total_bytes = out->free_bytes = -1;
  uint32_t threads = 1;
  library().get_threads(&threads);
  out->units = int32_t(threads);
  out->wave = 1;
  return GD_OK;
}

gd_status libraries(gd_device*, char* text, size_t size, gd_error*) {
  std::snprintf(text, size, "%s", library().text().c_str());
  return GD_OK;
}

template <gd_slot Slot, bool (*Work)(Call&)>
gd_status run(gd_device* device, gd_stream* stream, const gd_call* raw, gd_error* error) {
  bool done = false;
  const gd_status status = calls::guarded("torch", error, [&] {
    Call call(*raw, kDevice, gd_slot_name(Slot));
    done = Work(call);
  });
  return status != GD_OK || done ? status : loops().slot[Slot](device, stream, raw, error);
}

// The statement of a finished contraction is a pointwise call over its output.
gd_status run_contract(gd_device* device, gd_stream* stream, const gd_call* raw, gd_error* error) {
  bool done = false;
  const gd_status status = calls::guarded("torch", error, [&] {
    Call call(*raw, kDevice, gd_slot_name(GD_CONTRACT));
    done = contract(call);
  });
  if (status != GD_OK) return status;
  if (!done) return loops().slot[GD_CONTRACT](device, stream, raw, error);
  if (raw->n_ints <= 4) return GD_OK;
  const gd_call then = calls::statement_call(*raw);
  return run<GD_POINTWISE, pointwise>(device, stream, &then, error);
}

gd_table make_table() {
  gd_table t = loops();
  t.kind = "torch";
  t.score = -1;  // nobody gets it who did not ask for it
  t.open = open;
  t.info = info;
  t.capabilities = [](gd_device*) -> uint32_t {
    return GD_CAP_HOST_MEMORY | GD_CAP_GATHERS | GD_CAP_ROUNDS_BY_LAYOUT;
  };
  t.libraries = libraries;
  t.slot[GD_CONTRACT] = run_contract;
  t.slot[GD_POINTWISE] = run<GD_POINTWISE, pointwise>;
  t.slot[GD_REDUCE] = run<GD_REDUCE, reduce>;
  t.slot[GD_SOFTMAX] = run<GD_SOFTMAX, softmax>;
  return t;
}

}  // namespace
}  // namespace gradus::torch

extern "C" __attribute__((visibility("default"))) const gd_table* gradus_device_module(
    uint32_t host_major, uint32_t) {
  if (host_major != GD_MAJOR) return nullptr;
  try {
    static const gd_table module = gradus::torch::make_table();
    return &module;
  } catch (...) {
    return nullptr;
  }
}
