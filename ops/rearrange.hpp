// Rearrangements: elements moved, repeated, masked by their place.
#pragma once
#include "ops/ints.hpp"

namespace gradus {}  // namespace gradus
