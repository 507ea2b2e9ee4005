// Rows of the rearrange ops.
#include "ops/rows/rows.hpp"

namespace gradus::rows {

std::vector<Row> rearrange_rows() { return {}; }

}  // namespace gradus::rows
