// Lists of axes and sizes, as the ops take them.
#pragma once
#include "engine/graph.hpp"

namespace gradus::inline v1 {

using Ints = SmallVector<int64_t, 6>;
inline constexpr int64_t kEnd = INT64_MAX;  // "to the end" of a slice

}  // namespace gradus
