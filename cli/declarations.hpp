// What the declarations of commands share: options that several have, each with its words, and what
// runs when a command was typed. CLI11 parses and does no more.
#pragma once
#include "cli/commands.hpp"
#include "cli/look/one_step.hpp"
#include "cli/script/sandbox.hpp"
#include "engine/base/error.hpp"

#include <charconv>
#include <memory>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace gradus::inline v1::cli {

// CLI11 would take 1e400 for inf and "5x" for out of range.
inline std::string whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "expected a whole number, got \"" + text + "\"";
}

inline CLI::App* command(CLI::App& parent, const char* name, const char* doc,
                         const char* examples) {
  CLI::App* sub = parent.add_subcommand(name, doc);
  sub->footer(std::string("Examples:\n") + examples);
  sub->allow_extras();  // reported by us, with the nearest name
  return sub;
}
inline void device(CLI::App* sub, std::string& to) {
  sub->add_option("--device", to, "auto, cpu, cuda:N, hip:N, emu:N, reference, a .json")
      ->type_name("D")
      ->take_last();
}
inline void json(CLI::App* sub, bool& to,
                 const char* doc = "one JSON object per line on standard output") {
  sub->add_flag("--json", to, doc);
}
inline void ledger(CLI::App* sub, bool& to) {
  sub->add_flag("--ledger", to, "calls, time and bytes by op, on standard error");
}
inline CLI::Option* files(CLI::App* sub, const char* name, std::vector<std::string>& to,
                          const char* doc) {
  return sub->add_option(name, to, doc)->type_name("FILE");
}
inline CLI::Option* text(CLI::App* sub, const char* name, std::string& to, const char* doc,
                         const char* type = "TEXT") {
  return sub->add_option(name, to, doc)->type_name(type)->take_last();
}
inline void repeated(CLI::App* sub, const char* name, std::vector<std::string>& to, const char* doc,
                     const char* type) {
  sub->add_option(name, to, doc)
      ->type_name(type)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}
template <class Number>
void whole(CLI::App* sub, const char* name, Number& to, const char* doc) {
  sub->add_option_function<std::string>(
         name, [&to](const std::string& typed) { to = std::stoll(typed); }, doc)
      ->type_name("N")
      ->take_last()
      ->check(whole_number);
}
inline void sandbox(CLI::App* sub, Sandbox& to,
                    const char* unsafe = "all of Lua's libraries: any file, programs, bytecode") {
  repeated(sub, "--allow-read", to.read,
           "a script reads below this folder too, not only below its own and the working one",
           "DIR");
  repeated(sub, "--allow-write", to.write, "it writes and reads below this folder too", "DIR");
  sub->add_flag("--unsafe", to.unsafe, unsafe);
}
inline void limits(CLI::App* sub, std::string& memory, double& seconds, int64_t& instructions) {
  text(sub, "--max-memory", memory, "of all that a script makes; 2GiB by default", "BYTES");
  sub->add_option("--max-seconds", seconds, "then the script is ended")->type_name("S");
  whole(sub, "--max-instructions", instructions, "of Lua's machine");
}
inline void of_script(CLI::App* sub, ScriptTarget& to) {
  whole(sub, "--backward", to.backward, "of a script: look at its N-th backward()");
  repeated(sub, "--arg", to.arguments, "an argument of the script", "TEXT");
  sandbox(sub, to.sandbox, "the script runs outside the sandbox");
  limits(sub, to.sandbox.memory, to.seconds, to.instructions);
}
// Of commands that look at one step.
inline void of_step(CLI::App* sub, OneStepConfig& to) {
  text(sub, "CONFIG", to.file, "file of an experiment, a trace file, or a script .lua", "FILE");
  repeated(sub, "--set", to.set, "override one value of the config", "PATH=VALUE");
  of_script(sub, to.script);
  device(sub, to.device);
}
// What the command does. `must`, its positional argument, has to be there: CLI11's own message
// names no command.
template <class Options>
void runs(CLI::App* sub, Action& action, const std::shared_ptr<Options>& o,
          int (*run)(const Options&, std::ostream&, std::ostream&),
          std::type_identity_t<std::string Options::*> must = nullptr, const char* what = "") {
  sub->callback([=, &action] {
    action = [=](std::ostream& out, std::ostream& err) {
      if (must && ((*o).*must).empty())
        fail(ErrorKind::config, full_name(sub), "needs ", what, "; see gradus ", full_name(sub),
             " --help");
      return run(*o, out, err);
    };
  });
}

// Declared in commands_look.cpp.
void declare_audit(CLI::App& app, Action& action);
void declare_graph(CLI::App& app, Action& action);
void declare_replay(CLI::App& app, Action& action);
void declare_diff(CLI::App& app, Action& action);
void declare_step(CLI::App& app, Action& action);

}  // namespace gradus::cli
