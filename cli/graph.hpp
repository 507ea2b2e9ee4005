// `gradus graph CONFIG`: one step of a config, recorded; its graph as text, DOT, JSON, SVG, a page.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::cli {

struct GraphOptions {
  std::string config;
  std::vector<std::string> set;      // of a network
  std::string dot, json, svg, html;  // files; "-" is standard output; "" for none
  std::string record;                // a trace file of the step; "" for none
  std::string device;
};
// The exit code, 0. Throws Error.
int run_graph(const GraphOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
