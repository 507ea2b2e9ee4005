// A device of each kind that this machine has, for tests that hold on all of them; and what is
// copied on devices.
#pragma once
#include "gradus_paths.hpp"

#include "engine/config/loader.hpp"
#include "engine/device/device.hpp"

#include <vector>

namespace gradus::testing {

// cpu, reference, the emulator, and a GPU where there is one.
inline const std::vector<Device*>& one_of_each_kind() {
  static const std::vector<Device*> all = [] {
    load_module(GRADUS_LIB_DIR "/gradus_emu.so");
    std::vector<Device*> list{&open_device("cpu"), &open_device("reference"), &open_device("emu")};
    for (const KnownKind& k : known_kinds())
      if (k.devices > 0 && k.score >= 0 && k.kind != "cpu" && k.kind != "reference" &&
          k.kind != "emu")
        list.push_back(&open_device(k.kind));
    return list;
  }();
  return all;
}

}  // namespace gradus::testing

namespace gradus::inline v1::test {

// Counts what is copied on or to two devices, past the host or by a kernel, while it lives.
class Copies {
 public:
  Copies(Device& a, Device& b) : on_a_(a, counted_), on_b_(b, counted_) {}
  int count() const { return counted_.copies; }

 private:
  struct Counted : KernelWrapper {
    int copies = 0;
    gd_status call(const gd_call& call, Next next, gd_error& error) override {
      copies += call.slot == GD_COPY;
      return next(error);
    }
    void copied_in(void*, const void*, size_t, bool) override { ++copies; }
  };
  Counted counted_;
  WrapperScope on_a_, on_b_;
};

}  // namespace gradus::test
