// The tree of an order as a picture: operands below, the result on top; the larger a dot, the more
// of the work is done there, and the wider a line, the more elements pass.
#pragma once
#include "ops/contract/plan.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::cli {

// A picture for itself. The widest line, the largest intermediate, is marked. Error(value) for more
// than kMostDrawn operands.
constexpr size_t kMostDrawn = 2000;
std::string plan_svg(const EinsumPlan& plan);

// A page without scripts: the picture, facts as given, and every step with its share of the work.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string plan_page(const EinsumPlan& plan, const std::string& title, const Facts& facts);

// "1048576", or "2^31.4" above a million.
std::string count_text(double n);

}  // namespace gradus::cli
