// What a contraction's config asks for: an equation or a network of labels, its shapes, its order.
#pragma once
#include "cli/contract/network_file.hpp"
#include "engine/config/options.hpp"
#include "engine/tensor.hpp"
#include "ops/contract/algebra.hpp"
#include "ops/contract/plan.hpp"

#include <optional>

namespace gradus::inline v1::cli {

// Error(config, `file`) unless the config has an expression, a network or a plan.
void refuse_unclear(const Json& config, const std::string& file);

// An order, and the budget that finds it again; 0 where nothing was searched for.
struct FoundPlan {
  EinsumPlan plan;
  double budget = 0;
  bool timed = false;  // was the budget cut for the timeout?
};

// A value whose axes are the different labels of an output, as the dense tensor of that output,
// which repeats some: 0 where their indices differ (ops/diagonal).
Tensor on_diagonals(const Tensor& value, const Equation::Term& output);

struct Expression {
  // "expression", "network" or "plan"; the last two have their shapes. Of `options`, what a plan
  // from a file takes.
  Expression(const Json& config, const PathOptions& options);
  void take_sizes(const Json& config);  // shapes of operands that are drawn; Error(config, value)
  // The config's plan: Error(value) if it is of another expression or of other shapes. Else an
  // order within the config's budget. Where it has none: a tenth of the time that the contraction
  // would take by the order of an eager call, as the planner's model has it (plan/step_time.hpp),
  // but 20 ms at least and 8 s at most. With a timeout, in seconds, budgets grow as long as the
  // next one is expected to end in time.
  FoundPlan plan(PathOptions options, const Json& config) const;

  // `repeated`, if any; Error(value) if what lies off its diagonals is not 0 in the algebra.
  std::optional<Equation::Term> repeated_in(Algebra algebra) const;

  // Of the operands in a file of tensors: the network's, or "0", "1", ...
  std::vector<std::string> names() const;

  std::optional<Equation> equation;
  std::optional<Equation::Term> repeated;  // the output, if it repeats labels; equation's does not
  NetworkFile network;
  std::vector<Shape> shapes;
  std::optional<EinsumPlan> given;  // by a file
  std::string given_by;
};

}  // namespace gradus::cli
