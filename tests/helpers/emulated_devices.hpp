// The emulator's four devices as devices of the engine, beside the registry: other tests go over
// all registered devices. Their table may lack something, or break.
#pragma once
#include "tests/helpers/gpu_emulator.hpp"

namespace gpu_test {

// The list keeps it reachable, for the leak checker: devices live for ever, as `table` must.
inline gradus::Device& kept_device(const gd_table& table, gd_device* handle,
                                   const std::string& name, int index = 0) {
  static auto* const kept = new std::vector<gradus::Device*>;
  return *kept->emplace_back(new gradus::Device(&table, index, handle, name));
}

// Opened anew.
inline gradus::Device& emulated_device(int index, const gd_table& table = emulator()) {
  gd_device* handle = nullptr;
  gd_error e{};
  REQUIRE_MESSAGE(table.open(index, R"({"sync": true})", &handle, &e) == GD_OK, e.text);
  const std::string name = index == 0 ? "emu" : "emu:" + std::to_string(index);
  return kept_device(table, handle, name, index);
}

}  // namespace gpu_test
