// The sizes of tests: full, or smaller where each operation is slow (sanitizers, qemu).
#pragma once
#include <cstdlib>

namespace gradus::inline v1::test {

// Set by ./dev for the suite under sanitizers.
inline bool small_sizes() { return std::getenv("GRADUS_TEST_SIZE") != nullptr; }

}  // namespace gradus::test
