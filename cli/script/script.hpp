// `gradus script FILE [ARGS...]` and `gradus repl`: Lua, see bindings/lua/manual.md.
#pragma once
#include "cli/script/sandbox.hpp"

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct ScriptRun {
  std::vector<std::string> arguments;  // the file ("-": standard input), then the script's own
  std::optional<std::string> code;     // -e: this instead of a file
  bool check = false;                  // syntax alone
  Sandbox sandbox{};
  double seconds = 0;  // 0: none
  int64_t instructions = 0;
  std::string device;
  bool json = false;
};
// The exit code. Throws Error: io for the file, config for a syntax error, value for a failure of
// the script (its traceback goes to `err`), numeric and memory for a limit. With a limit of seconds
// the script runs in a process of its own, which is ended if it does not end itself.
int run_script(const ScriptRun& options, std::ostream& out, std::ostream& err);

struct ReplOptions {
  Sandbox sandbox{};
  std::string device;
  bool json = false;
};
int run_repl(const ReplOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
