// Sliding windows and their transpose, fold.
#include "ops/registry.hpp"

namespace gradus {

void register_windows() {}

}  // namespace gradus
