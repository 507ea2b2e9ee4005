// `gradus graph CONFIG|SCRIPT`: one step of a config or script, recorded; its graph as text, DOT,
// JSON, SVG, a page.
#pragma once
#include "cli/look/one_step.hpp"

#include <iosfwd>

namespace gradus::inline v1::cli {

struct GraphOptions : OneStepConfig {
  std::string dot, json, svg, html;  // files; "-" is standard output; "" for none
  std::string record;                // a trace file of the step; "" for none
};
// The exit code, 0. Throws Error.
int run_graph(const GraphOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
