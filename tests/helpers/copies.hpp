// Counts what is copied on or to two devices, past the host or by a kernel, while it lives.
#pragma once
#include "engine/device/device.hpp"

namespace gradus::inline v1::test {

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
