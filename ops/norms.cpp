// Norms of tensors and the normalisation layers.
#include "ops/registry.hpp"

namespace gradus {

void register_norms() {}

}  // namespace gradus
