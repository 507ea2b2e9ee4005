// Rows of the norm ops.
#include "ops/rows/rows.hpp"

namespace gradus::rows {

std::vector<Row> norm_rows() { return {}; }

}  // namespace gradus::rows
