// Rearrangements: roll, tril, repeat, meshgrid and their kin.
#include "ops/registry.hpp"

namespace gradus {

void register_rearrangements() {}

}  // namespace gradus
