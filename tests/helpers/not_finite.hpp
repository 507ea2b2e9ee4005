// Infinity and what is not a number.
#pragma once
#include <limits>

namespace gradus::inline v1::testing {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace gradus::testing
