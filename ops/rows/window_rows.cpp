// Rows of the window ops.
#include "ops/rows/rows.hpp"

namespace gradus::rows {

std::vector<Row> window_rows() { return {}; }

}  // namespace gradus::rows
