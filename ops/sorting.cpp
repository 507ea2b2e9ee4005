// Order: sort, argsort, topk, unique, nonzero, running extrema and products.
#include "ops/registry.hpp"

namespace gradus {

void register_sorting() {}

}  // namespace gradus
