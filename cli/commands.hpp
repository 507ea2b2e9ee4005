// The commands of the program, declared for CLI11: their options, words of help and examples.
#pragma once
#include <functional>
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace gradus::inline v1::cli {

// Runs a command with the options that were typed; gives its exit code.
using Action = std::function<int(std::ostream& out, std::ostream& err)>;

// Adds every command to `app`. Parsing sets `action`, which must outlive `app`, to the one that was
// typed.
void declare_commands(CLI::App& app, Action& action);

// "config show": a command with those it stands in, without the program's own name.
std::string full_name(CLI::App* command);

}  // namespace gradus::cli
