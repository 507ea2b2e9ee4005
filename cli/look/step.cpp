// Where the commands come from; what they do, debugger.cpp knows.
#include "cli/look/step.hpp"

#include "cli/look/debugger.hpp"
#include "cli/frame/lines.hpp"
#include "engine/files/file.hpp"
#include "engine/base/text.hpp"

#include <iostream>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

// A person may err and go on.
void converse(Debugger& debugger, Lines& lines, std::ostream& err) {
  std::string line, last;
  for (bool going = true; going;) {
    const Lines::Typed typed = lines.next("(step) ", line);
    if (typed == Lines::Typed::end) return;
    if (typed == Lines::Typed::dropped) continue;
    if (line.empty()) line = Debugger::repeats(last) ? last : "";  // as debuggers do
    last = line;
    try {
      going = debugger.run(line);
    } catch (const Error& e) {
      err << e.what() << "\n";
    }
  }
}

void run_commands(Debugger& debugger, std::istream& in, const std::string& name, bool echo,
                  std::ostream& out) {
  std::string line;
  for (int n = 1; std::getline(in, line); ++n) {
    if (echo && line.find_first_not_of(" \t") != std::string::npos)
      out << "(step) " << printable(line) << "\n";
    try {
      if (!debugger.run(line)) return;
    } catch (const Error& e) {
      fail(e.kind(), name, "line ", n, ": ", e.what());
    }
  }
}

}  // namespace

int run_step(const StepOptions& o, std::ostream& out, std::ostream& err) {
  const auto session = open_session(o, err);
  std::istringstream file(o.commands.empty() ? "" : read_text(o.commands));
  const OneStep step = run_traced_step(o, session->device());
  audit::Stepper stepper(step.roots, step.leaves, step.seeds);
  Debugger debugger(stepper, o.json, out);
  debugger.begin(o.file);
  if (!o.commands.empty()) {
    run_commands(debugger, file, o.commands, !o.json, out);
  } else {
    Lines lines("step_history", [&](const std::string& begun) { return debugger.complete(begun); });
    if (lines.person()) {
      converse(debugger, lines, err);
      return 0;
    }
    run_commands(debugger, std::cin, "standard input", !o.json, out);
  }
  debugger.end();
  return 0;
}

}  // namespace gradus::cli
