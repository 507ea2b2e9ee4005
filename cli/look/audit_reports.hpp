// `gradus audit --ledger`, `--cost`: a step that is measured, and what is said of it.
#pragma once
#include "cli/look/one_step.hpp"
#include "ops/audit/step/graph_view.hpp"

#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

// The step's graph, with its memory over time, its times and the machine's peaks. Runs it three
// times: for its memory, to warm up the device, for its times; a script prints the first time
// alone. With `values`, statistics of every value too.
audit::GraphView measured_step(OneStepConfig target, Device& device, bool values);

// Saved tensors, the largest first, memory over time by op, checkpoints; nodes and ops, the slowest
// first. The view is of a measured_step().
std::string ledger_text(const audit::GraphView& view);
std::string cost_text(const audit::GraphView& view);
// To `out`: those tables, or with `json` one object per line.
void report_ledger(const audit::GraphView& view, bool json, std::ostream& out);
void report_cost(const audit::GraphView& view, bool json, std::ostream& out);

}  // namespace gradus::cli
