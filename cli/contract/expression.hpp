// What a contraction's config asks for: an equation or a network of labels, its shapes, its order.
#pragma once
#include "cli/contract/network_file.hpp"
#include "engine/config/options.hpp"
#include "ops/contract/plan.hpp"

#include <optional>

namespace gradus::inline v1::cli {

// Error(config, `file`) unless the config has either an expression or a network.
void refuse_unclear(const Json& config, const std::string& file);

struct Expression {
  explicit Expression(const Json& config);  // "expression" or "network"; a network has its shapes
  void take_sizes(const Json& config);  // shapes of operands that are drawn; Error(config, value)
  // Within the config's budget. Where it has none: a tenth of the time that the contraction would
  // take by the order of an eager call, as the planner's model has it (plan/step_time.hpp), but 20
  // ms at least and 8 s at most.
  EinsumPlan plan(PathOptions options, const Json& config) const;

  std::optional<Equation> equation;
  NetworkFile network;
  std::vector<Shape> shapes;
};

}  // namespace gradus::cli
