// The two parts of a data set that the program makes itself.
#pragma once
#include <cstdint>

namespace gradus::inline v1::training {

enum class Split : uint32_t { train = 0, test = 1 };

}  // namespace gradus::training
