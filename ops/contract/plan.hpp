// Contraction orders. An einsum over many operands is done in pairs; the order decides the work,
// often by powers of ten. A planner sees labels and extents alone: it knows nothing of tensors or
// devices.
//
// Work is counted as 2 flops per product of a pairwise step that sums, 1 per product of one that
// does not, and 1 per element of a label summed alone. All of it is deterministic.
#pragma once
#include "engine/abi/dtype.hpp"
#include "ops/contract/equation.hpp"
#include "ops/contract/plan/step_time.hpp"

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradus::inline v1 {

// Positions in the shrinking list of operands: both are taken out, the result is appended
// (opt_einsum's linear form).
using ContractionPath = std::vector<std::pair<int, int>>;

struct PathOptions {
  // automatic: optimal for up to 8 operands, else the best that several searches find within the
  // budget. optimal: least flops of all orders, up to kMaxOptimal operands; beyond, of those
  // without outer products, Error(value) if it can't be had within the budget. left: left to right.
  // fixed: `path`. The others name one search (plan/README.md).
  enum class Kind {
    automatic,
    greedy,
    optimal,
    left,
    random_greedy,
    min_fill,
    min_degree,
    dissection,
    annealing,
    fixed
  };
  static constexpr size_t kMaxOptimal = 12;
  Kind kind = Kind::automatic;
  ContractionPath path;   // of kind fixed
  bool sum_alone = true;  // labels that one operand alone has are summed before it meets another
  double budget = kEagerBudget;  // work of a search, in units of about a microsecond of one core
  uint64_t seed = 0;  // of searches that draw; the same seed and budget give the same order
  Labels sliced;      // of kind fixed: the labels of the plan that are looped over
  // No intermediate is to have more elements: where one has, labels are chosen to loop over.
  double most_elements = std::numeric_limits<double>::infinity();
  static constexpr double kEagerBudget = 5000;
  // Told while a search goes on: the work that it has done, its budget, and log2 of the products of
  // the best order so far.
  std::function<void(double units, double budget, double log2_mults)> watch;
  plan::StepTime step_time;  // of the device: what the plan's seconds are reckoned by
  // Searches for the least of these seconds instead of the least products. A proof (kind optimal)
  // for more than kMaxOptimal tensors counts products all the same.
  bool by_time = false;
};
// The names that users write, by kind, without fixed: "auto", "greedy", "optimal", "left", ...
std::span<const std::string_view> path_kind_names();
std::string_view path_kind_name(PathOptions::Kind kind);  // "given" for fixed
// Error(value) for another name.
PathOptions::Kind parse_path_kind(std::string_view name);

// One step. Slots 0..n-1 are the operands, later ones the results of pairwise steps. right = -1: a
// sum of one slot over the labels that it alone has; its result takes the slot's place.
struct EinsumStep {
  int left, right, result;
  Labels left_labels, right_labels, labels;
  double flops, elements;  // of the result
  bool sums;
  // "bda,dc->abc"; digits are axes of an ellipsis, 0 the last. "(7 3),(3 5)->(7 5)" of numbers.
  std::string expression() const;
};

struct EinsumPlan {
  std::string equation;
  std::vector<Labels> terms;  // one label per axis, as written
  Labels output;
  std::map<int64_t, int64_t> sizes;  // extent of each label
  // What the steps work on: each operand with its diagonals taken and its axes of extent 1 dropped.
  // They broadcast, so nothing depends on them.
  std::vector<Labels> operands;
  std::vector<Shape> shapes;  // of the operands, as given
  std::vector<EinsumStep> steps;
  ContractionPath path;
  // Labels that are looped over outside: the steps are carried out for each of their values, and
  // what steps say of work and elements is that of one slice. None is in the output.
  Labels sliced;
  double slices = 1;
  double flops = 0;                 // of all slices
  double seconds_model = 0;         // of all slices, by PathOptions::step_time
  double largest_intermediate = 0;  // elements; the output counts
  std::string_view family;          // which search found the order, by its name
  double units = 0;  // work of the search; with PathOptions' budget it finds the same
};

// Errors as parse_equation, bind_equation; Error(value) for a path that does not fit.
EinsumPlan plan_einsum(std::string_view equation, const std::vector<Shape>& shapes,
                       const PathOptions& options = {});
// Of numbers (any int32) instead of an equation's letters: one for each axis of each operand.
// Without an output: the numbers that occur once, sorted.
EinsumPlan plan_einsum(const std::vector<Labels>& terms, const std::optional<Labels>& output,
                       const std::vector<Shape>& shapes, const PathOptions& options = {});
// The plan's expression for other shapes or by other options.
EinsumPlan replanned(const EinsumPlan& plan, const std::vector<Shape>& shapes,
                     const PathOptions& options);

// Bytes of so many elements as the pool of a device gives them out.
double pool_bytes(double elements, DType dtype);
// Highest number of bytes alive while the plan is carried out: operands (held by the caller) and
// intermediates. With `keep`, as when derivatives will be asked for, no intermediate is dropped.
// `pooled`: as pool_bytes() counts them.
double peak_bytes(const EinsumPlan& plan, DType dtype, bool keep = false, bool pooled = false);

}  // namespace gradus
