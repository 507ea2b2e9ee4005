// A device of each kind that this machine has, for tests that hold on all of them.
#pragma once
#include "gradus_paths.hpp"

#include "engine/config/loader.hpp"

#include <vector>

namespace gradus::testing {

// cpu, reference, the emulator, and a GPU where there is one.
inline const std::vector<Device*>& one_of_each_kind() {
  static const std::vector<Device*> all = [] {
    load_module(GRADUS_LIB_DIR "/gradus_emu.so");
    std::vector<Device*> list{&open_device("cpu"), &open_device("reference"), &open_device("emu")};
    for (const KnownKind& k : known_kinds())
      if (k.devices > 0 && k.kind != "cpu" && k.kind != "reference" && k.kind != "emu")
        list.push_back(&open_device(k.kind));
    return list;
  }();
  return all;
}

}  // namespace gradus::testing
