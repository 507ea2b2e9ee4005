// Order: sorting and what is made of it, running extrema and products.
#pragma once
#include "ops/ints.hpp"

namespace gradus {}  // namespace gradus
