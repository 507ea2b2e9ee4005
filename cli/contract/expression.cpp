// The order of a network is searched for twice: a first one tells how much a better one is worth.
#include "cli/contract/expression.hpp"

#include "engine/files/file.hpp"
#include "ops/contract/labelled.hpp"
#include "ops/contract/plan_file.hpp"
#include "ops/diagonal/classed.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
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

// Different letters of a term, in order, and how many of them stand before the ellipsis.
struct Different {
  explicit Different(const Equation::Term& term) : before(-1) {
    for (size_t i = 0; i <= term.letters.size(); ++i) {
      if (int(i) == term.ellipsis) before = int64_t(letters.size());
      if (i < term.letters.size() && place_of(letters, term.letters[i]) < 0)
        letters.push_back(term.letters[i]);
    }
  }
  std::string text() const {
    std::string s;
    for (size_t i = 0; i <= letters.size(); ++i) {
      if (int64_t(i) == before) s += "...";
      if (i < letters.size()) s += letter_text(letters[i]);
    }
    return s;
  }
  Labels letters;
  int64_t before;
};

bool needs_no_sizes(const Equation& equation) {
  return std::all_of(equation.inputs.begin(), equation.inputs.end(),
                     [](const auto& t) { return t.letters.empty() && t.ellipsis < 0; });
}

}  // namespace

void refuse_unclear(const Json& config, const std::string& file) {
  const bool expression = config.contains("expression"), network = config.contains("network");
  if (expression && network)
    fail(ErrorKind::config, file, "\"expression\" and \"network\" exclude each other");
  if (!expression && !network && !config.contains("plan"))
    fail(
        ErrorKind::config, file,
        "needs \"expression\", an einsum such as \"ij,jk->ik\", or \"network\" or \"plan\", files");
}

Expression::Expression(const Json& config, const PathOptions& options) {
  if (config.contains("plan")) {
    given_by = config["plan"];
    given = parse_plan(read_text(given_by), given_by, options);
  }
  if (config.contains("network")) {
    if (config.contains("sizes"))
      fail(ErrorKind::config, "sizes", "the network's file says how large its labels are");
    network = read_network(config["network"]);
    shapes = network.shapes;
  } else if (config.contains("expression")) {
    const std::string text = config["expression"];
    equation = parse_equation(text, RepeatedOutput::allowed);
    if (!equation->output) return;
    const Different different(*equation->output);
    if (different.letters.size() == equation->output->letters.size()) return;
    repeated = equation->output;
    equation = parse_equation(text.substr(0, text.find("->") + 2) + different.text());
  } else {
    shapes = given->shapes;
  }
}

Tensor on_diagonals(const Tensor& value, const Equation::Term& output) {
  const Different different(output);
  const int64_t dots = value.rank() - int64_t(different.letters.size());
  Ints classes;
  for (size_t i = 0; i <= output.letters.size(); ++i) {
    if (int(i) == output.ellipsis)
      for (int64_t k = 0; k < dots; ++k) classes.push_back(different.before + k);
    if (i == output.letters.size()) break;
    const int64_t at = place_of(different.letters, output.letters[i]);
    classes.push_back(output.ellipsis >= 0 && at >= different.before ? at + dots : at);
  }
  return to_dense(value, classes);
}

std::optional<Equation::Term> Expression::repeated_in(Algebra algebra) const {
  if (repeated && !skips_zeros(algebra))
    fail(
        ErrorKind::value, kOp, "the output \"", repeated->text,
        "\" repeats a label; diagonals are kept in the algebras standard, boolean and mod, not in ",
        algebra_name(algebra));
  return repeated;
}

std::vector<std::string> Expression::names() const {
  if (!network.names.empty()) return network.names;
  const size_t n = equation ? equation->inputs.size() : shapes.size();
  std::vector<std::string> names;
  for (size_t k = 0; k < n; ++k) names.push_back(join(k));
  return names;
}

void Expression::take_sizes(const Json& config) {
  if (!equation) return;
  if (given && !config.contains("sizes")) {
    shapes = given->shapes;
    return;
  }
  if (!config.contains("sizes") && !needs_no_sizes(*equation))
    fail(ErrorKind::config, kOp, "needs --sizes a=3,b=4 or --in a.npy b.npy");
  shapes = shapes_from_sizes(*equation, config.value("sizes", Json::object()));
}

namespace {

// Ever larger budgets while the next is expected to end within the timeout, by the rate of the last
// one. Of what they find, the order of least cost.
class TimedSearch {
 public:
  using Search = std::function<EinsumPlan(double budget)>;
  TimedSearch(Search search, double timeout, bool by_time)
      : search_(std::move(search)), timeout_(timeout), by_time_(by_time) {}

  // Up to the budget that `wanted` says once there is a first order.
  FoundPlan run(const std::function<double(const EinsumPlan*)>& wanted) {
    double budget = PathOptions::kEagerBudget;
    for (;;) {
      const double began = elapsed();
      const bool ended = take(budget);
      const double rate = (elapsed() - began) / budget;  // seconds a unit
      const double most = wanted(found_ ? &found_->plan : nullptr);
      const double in_time = kShare * (timeout_ - elapsed()) / rate;
      const double next = rounded(std::min({most, in_time, kGrowth * budget}));
      if (ended || next < 1.5 * budget) {
        if (!found_) std::rethrow_exception(error_);
        found_->timed = !ended && budget < most;
        return std::move(*found_);
      }
      budget = next;
    }
  }

 private:
  static constexpr double kShare = 0.9, kGrowth = 8;

  // Was it the last word, found before the budget was used up?
  bool take(double budget) {
    try {
      EinsumPlan plan = search_(budget);
      const bool ended = plan.units < budget / 4;
      if (!found_ || cost(plan) < cost(found_->plan)) found_ = {std::move(plan), budget};
      return ended;
    } catch (const Error&) {  // it needs more
      error_ = std::current_exception();
      return false;
    }
  }
  double cost(const EinsumPlan& plan) const { return by_time_ ? plan.seconds_model : plan.flops; }
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  // To two digits, for people who write it.
  static double rounded(double x) {
    if (x < 1) return 0;
    const double unit = std::pow(10, std::floor(std::log10(x)) - 1);
    return std::floor(x / unit) * unit;
  }

  Search search_;
  const double timeout_;
  const bool by_time_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<FoundPlan> found_;
  std::exception_ptr error_;
};

}  // namespace

FoundPlan Expression::plan(PathOptions options, const Json& config) const {
  using Kind = PathOptions::Kind;
  const auto make = [&](const PathOptions& by) {
    return equation ? plan_einsum(equation->text, shapes, by)
                    : plan_einsum(network.terms, network.output, shapes, by);
  };
  const auto within = [&](Kind kind, double budget) {
    PathOptions asked = options;
    asked.kind = kind;
    asked.budget = budget;
    return make(asked);
  };
  if (given) {
    if ((equation || !network.terms.empty()) && !same_expression(*given, within(Kind::left, 0)))
      fail(ErrorKind::value, given_by, "is the plan of another expression or of other shapes: ",
           given->equation.substr(0, 200));
    if (!(given->shapes == shapes))
      fail(ErrorKind::value, given_by, "is the plan for other shapes");
    if (!options.by_time) return {*given, 0};
    options.kind = Kind::fixed;  // the same order, its time reckoned by the model
    options.path = given->path;
    options.sliced = given->sliced;
    return {replanned(*given, shapes, options), 0};
  }
  if (options.kind == Kind::fixed || options.kind == Kind::left)
    return {within(options.kind, config.value("budget", 0.)), 0};
  // A tenth of the time that it would take; a proof, and the one order of `greedy`, take what they
  // need.
  const bool searches = options.kind != Kind::optimal && options.kind != Kind::greedy;
  const auto wanted = [&](const EinsumPlan* first) -> double {
    if (config.contains("budget")) return config["budget"];
    if (!searches || !first) return kMostUnits;
    return std::clamp(first->seconds_model * 1e6 / 10, 2e4, kMostUnits);
  };
  if (config.contains("timeout"))  // what it finds depends on the machine: it is not kept
    return TimedSearch([&](double budget) { return within(options.kind, budget); },
                       config["timeout"], options.by_time)
        .run(wanted);
  std::optional<EinsumPlan> first;
  if (!config.contains("budget") && searches) {
    first = within(Kind::automatic, PathOptions::kEagerBudget);
    if (options.kind == Kind::automatic && first->units == 0) return {*std::move(first), 0};
  }
  options.budget = wanted(first ? &*first : nullptr);
  if (!config.contains("plan_cache")) return {make(options), options.budget};
  const BoundEquation asked = equation ? bind_equation(*equation, shapes)
                                       : bind_labels(network.terms, network.output, shapes);
  return {kept_plan(config["plan_cache"], asked, shapes, options, make), options.budget};
}

}  // namespace gradus::cli
