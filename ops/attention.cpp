// Scaled dot-product attention.
#include "ops/registry.hpp"

namespace gradus {

void register_attention() {}

}  // namespace gradus
