// Options to files; what a graph looks like, ops/audit/ knows.
#include "cli/look/graph.hpp"

#include "cli/frame/terminal.hpp"
#include "engine/files/file.hpp"
#include "ops/audit/step/diff.hpp"
#include "ops/audit/step/graph_view.hpp"

#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

// The text of a graph; its headings and remarks stand apart where there are colours.
void print(const std::string& text, std::ostream& out) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "forward" || line == "backward")
      out << heading(line);
    else if (line.starts_with("#"))
      out << soft(line);
    else
      out << line;
    out << "\n";
  }
}

}  // namespace

int run_graph(const GraphOptions& o, std::ostream& out, std::ostream& err) {
  const auto session = open_session(o, err);
  Device& device = session->device();
  const bool values = !o.html.empty() || !o.json.empty() || !o.svg.empty();
  std::optional<audit::Watch> watch;
  std::optional<audit::GraphRecorder> recorder;
  const OneStep step = run_one_step(o, device, [&] {
    if (!o.record.empty()) watch.emplace();
    recorder.emplace(device, values);
  });
  audit::GraphView view = audit::read_graph(step.roots, step.leaves, &*recorder);
  view.title = o.file;
  if (step.source) add_sources(view, step.source);
  recorder.reset();
  if (watch) {
    audit::RecordedStep recorded = audit::record(*watch, step.roots, step.leaves, step.seeds);
    recorded.title = o.file;
    audit::save_trace(o.record, recorded, device);
    out << o.record << ": " << audit::plural(recorded.nodes.size(), "node") << "; `gradus replay "
        << o.record << "` runs them again\n";
  }
  const auto write = [&](const std::string& file, const auto& text_of) {
    if (file.empty()) return;
    const std::string text = text_of(view);
    if (file == "-") {
      const Verbatim as_is(out);
      out << text << "\n";
    } else {
      write_file_atomically(file, text);
    }
  };
  if (o.dot.empty() && o.json.empty() && o.svg.empty() && o.html.empty() && !watch)
    print(to_text(view), out);
  write(o.dot, audit::to_dot);
  write(o.json, audit::to_json);
  write(o.svg, audit::to_svg);
  write(o.html, audit::to_html);
  return 0;
}

}  // namespace gradus::cli
