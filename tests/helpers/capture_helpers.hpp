// Steps that can't be captured, and why.
#pragma once
#include "engine/capture/capture.hpp"

#include <doctest/doctest.h>
#include <functional>

namespace gradus::inline v1::testing {

inline std::string why_not(const std::function<Tensors()>& step) {
  const Captured c = capture(default_device(), step);
  CHECK(!c);
  return c.why_not();
}

}  // namespace gradus::testing
