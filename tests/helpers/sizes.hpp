// The sizes of tests: full, or smaller where each operation is slow (sanitizers, qemu).
#pragma once
#include <cstdlib>
#include <string_view>

namespace gradus::inline v1::test {

inline std::string_view size_asked_for() {
  const char* const size = std::getenv("GRADUS_TEST_SIZE");
  return size ? size : "";
}
// Set by ./dev for the suite under sanitizers.
inline bool small_sizes() { return !size_asked_for().empty() && size_asked_for() != "large"; }
// Set by `./dev test full`, for what a daily run has no time for.
inline bool large_sizes() { return size_asked_for() == "large"; }

}  // namespace gradus::test
