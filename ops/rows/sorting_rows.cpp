// Rows of the sorting ops.
#include "ops/rows/rows.hpp"

namespace gradus::rows {

std::vector<Row> sorting_rows() { return {}; }

}  // namespace gradus::rows
