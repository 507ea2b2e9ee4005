// The emulator's four devices as devices of the engine, beside the registry: other tests go over
// all registered devices. Their table may lack something, or break.
#pragma once
#include "tests/helpers/gpu_emulator.hpp"

namespace gpu_test {

// Opened anew. `table` must live for ever, as devices do.
inline gradus::Device& emulated_device(int index, const gd_table& table = emulator()) {
  static auto* const kept = new std::vector<gradus::Device*>;
  gd_device* handle = nullptr;
  gd_error e{};
  REQUIRE_MESSAGE(table.open(index, R"({"sync": true})", &handle, &e) == GD_OK, e.text);
  const std::string name = index == 0 ? "emu" : "emu:" + std::to_string(index);
  return *kept->emplace_back(new gradus::Device(&table, index, handle, name));
}

}  // namespace gpu_test
