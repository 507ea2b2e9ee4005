// The part of a report that shows numbers: what was foretold against what is true.
#pragma once
#include "cli/report/report.hpp"

namespace gradus::inline v1::cli {

// A picture for each target, and the largest errors. "" without predictions.
std::string numbers_section(const Dataset& data, const Predictions& test);

}  // namespace gradus::cli
