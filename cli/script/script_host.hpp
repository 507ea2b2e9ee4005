// What a script meets in this program, whoever runs it: data sets, experiments and networks of
// configs as functions, the sandbox's limits, Ctrl-C, and how its errors are shown.
#pragma once
#include "bindings/lua/script.hpp"
#include "cli/script/sandbox.hpp"

#include <csignal>
#include <functional>
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

// Whatever trains says so on `err`. The device and `err` outlive the script. Error(config) for what
// is no size of memory.
lua::ScriptOptions script_options(const Sandbox& sandbox, Device& device, std::ostream& err);

// While it lives, Ctrl-C stops the script at its next instruction; one at a time.
class ScriptInterrupt {
 public:
  // `seconds`: the script's limit, or 0.
  ScriptInterrupt(lua::Script& script, double seconds);
  ~ScriptInterrupt();
  ScriptInterrupt(const ScriptInterrupt&) = delete;
  ScriptInterrupt& operator=(const ScriptInterrupt&) = delete;

 private:
  struct sigaction before_ {
  }, clock_before_{};
};

// Runs f; of a script's error the traceback goes to `err`, the error itself on as every other.
void with_traceback(std::ostream& err, const std::function<void()>& f);

}  // namespace gradus::cli
