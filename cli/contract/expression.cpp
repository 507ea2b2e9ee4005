// The order of a network is searched for twice: a first one tells how much a better one is worth.
#include "cli/contract/expression.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

constexpr const char* kOp = "contract";
constexpr double kMostUnits = 8e6;

// Shapes of drawn operands: one extent per letter.
std::vector<Shape> shapes_from_sizes(const Equation& equation, const Json& sizes) {
  std::vector<Shape> shapes;
  std::vector<std::string> used;
  for (const Equation::Term& term : equation.inputs) {
    if (term.ellipsis >= 0)
      fail(ErrorKind::value, kOp, "sizes cannot say what \"...\" stands for; give files with --in");
    Shape& shape = shapes.emplace_back();
    for (int64_t l : term.letters) {
      used.push_back(letter_text(l));
      if (!sizes.contains(used.back()))
        fail(ErrorKind::value, kOp, "sizes: no size for ", label_text(l), " of \"", equation.text,
             "\"");
      shape.push_back(sizes[used.back()].get<int64_t>());
    }
  }
  for (const auto& [key, n] : sizes.items())
    if (std::find(used.begin(), used.end(), key) == used.end())
      fail(ErrorKind::value, kOp, "sizes: \"", key, "\" is no label of \"", equation.text, "\"");
  return shapes;
}

bool needs_no_sizes(const Equation& equation) {
  return std::all_of(equation.inputs.begin(), equation.inputs.end(),
                     [](const auto& t) { return t.letters.empty() && t.ellipsis < 0; });
}

}  // namespace

void refuse_unclear(const Json& config, const std::string& file) {
  const bool expression = config.contains("expression"), network = config.contains("network");
  if (expression && network)
    fail(ErrorKind::config, file, "\"expression\" and \"network\" exclude each other");
  if (!expression && !network)
    fail(ErrorKind::config, file,
         "needs \"expression\", an einsum such as \"ij,jk->ik\", or \"network\", a file");
}

Expression::Expression(const Json& config) {
  if (config.contains("network")) {
    network = read_network(config["network"]);
    shapes = network.shapes;
  } else {
    equation = parse_equation(config["expression"].get<std::string>());
  }
}

void Expression::take_sizes(const Json& config) {
  if (!equation) return;
  if (!config.contains("sizes") && !needs_no_sizes(*equation))
    fail(ErrorKind::config, kOp, "needs --sizes a=3,b=4 or --in a.npy b.npy");
  shapes = shapes_from_sizes(*equation, config.value("sizes", Json::object()));
}

EinsumPlan Expression::plan(PathOptions options, const Json& config) const {
  using Kind = PathOptions::Kind;
  const auto within = [&](Kind kind, double budget) {
    PathOptions asked = options;
    asked.kind = kind;
    asked.budget = budget;
    return equation ? plan_einsum(equation->text, shapes, asked)
                    : plan_einsum(network.terms, network.output, shapes, asked);
  };
  if (config.contains("budget")) return within(options.kind, config["budget"]);
  if (options.kind == Kind::optimal)
    return within(Kind::optimal, kMostUnits);  // ends when it is proven
  if (options.kind == Kind::fixed || options.kind == Kind::left) return within(options.kind, 0);
  EinsumPlan first = within(Kind::automatic, PathOptions::kEagerBudget);
  if (options.kind == Kind::automatic && first.units == 0) return first;
  return within(options.kind, std::clamp(first.seconds_model * 1e6 / 10, 2e4, kMostUnits));
}

}  // namespace gradus::cli
