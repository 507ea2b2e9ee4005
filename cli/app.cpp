// From arguments to an exit code: parsing, what was mistyped, errors as one line.
#include "cli/app.hpp"

#include "cli/commands.hpp"
#include "cli/frame/events.hpp"
#include "ops/train/experiment.hpp"
#include "cli/frame/interrupt.hpp"
#include "cli/frame/terminal.hpp"
#include "bindings/cpp/start.hpp"
#include "engine/device/device.hpp"
#include "engine/config/options.hpp"
#include "engine/op_info.hpp"
#include "engine/base/text.hpp"
#include "ops/check/user.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace gradus::inline v1::cli {

namespace {

constexpr int kUsage = 2, kDefect = 1;

// ---- wrong arguments

// The command that was typed, with its subcommand.
CLI::App* typed_command(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

std::vector<std::string> subcommand_names(CLI::App& app) {
  std::vector<std::string> names;
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// ---- what to type instead

bool is_option(const std::string& text) {
  return text.size() > 1 && text[0] == '-' && !(text[1] >= '0' && text[1] <= '9');
}

bool takes(CLI::App* sub, const char* option) {
  return sub->get_option_no_throw(option) != nullptr;
}

// `--lr 0.1` of a command that takes a config is --set optimizer.lr=0.1, and `--dim 0` of an op is
// --attr dim=0. `near` is the option whose name is near, if one's is.
std::string as_value(CLI::App* sub, const std::vector<std::string>& extras,
                     const std::string& near) {
  const std::string& option = extras[0];
  const size_t equals = option.find('=');
  std::string key = option.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(key.begin(), key.end(), '-', '_');
  std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (value.empty() && extras.size() > 1 && !is_option(extras[1])) value = extras[1];
  if (value.empty()) value = "VALUE";
  if (takes(sub, "--set")) {
    const std::string path = path_of_key(training::network_spec(), key);
    const bool same = path == key || path.ends_with("." + key);
    return path.empty() || !(same || near.empty()) ? "" : "; write --set " + path + "=" + value;
  }
  if (!takes(sub, "--attr") || sub->count("NAME") == 0) return "";
  start();
  const OpInfo* op = find_op(sub->get_option("NAME")->as<std::string>());
  return op && op->attr_index(key) >= 0 ? "; write --attr " + key + "=" + value : "";
}

// What an argument that stands alone was meant to be.
std::string as_argument(CLI::App* sub, const std::string& text) {
  const bool assigns = text.find('=') != std::string::npos && text[0] != '[';
  if (assigns)
    for (const char* option : {"--set", "--attr"})
      if (takes(sub, option)) return join("; write ", option, " ", text);
  if (takes(sub, "--in")) return "; write --in " + text;
  return "; see gradus " + full_name(sub) + " --help";
}

CLI::Option* declare_colour(CLI::App& app, const std::function<void(const std::string&)>& set) {
  return app.add_option_function<std::string>("--color", set, "auto, always or never")
      ->type_name("WHEN")
      ->take_last();
}

// What was left over: a command, an option or an argument that nobody knows.
void refuse_extras(CLI::App& app) {
  CLI::App* sub = typed_command(app);
  const std::vector<std::string> extras = app.remaining(true);
  const std::string where = full_name(sub);
  // Behind a script all is the script's; what stands in the place of its name is not.
  if (sub->get_prefix_command() &&
      (sub->count("-e") > 0 || extras.empty() || !is_option(extras.front())))
    return;
  if (!extras.empty()) {
    const std::string& first = extras.front();
    if (is_option(first)) {
      std::vector<std::string> names{"--help"};
      for (const CLI::Option* option : sub->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      const std::string option = first.substr(0, first.find('='));
      const std::vector<std::string> before = app.remaining(false);
      if (sub != &app && !before.empty() && before.front() == first &&
          std::count(names.begin(), names.end(), option) > 0)
        fail(ErrorKind::config, where, "options stand behind the command: gradus ", where, " ",
             option);
      const std::string near = did_you_mean(option, names);
      const std::string meant = first.starts_with("--") ? as_value(sub, extras, near) : "";
      fail(ErrorKind::config, where, "there is no option \"", option, "\"",
           meant.empty() ? near : meant,
           where.empty() ? "" : join("; see gradus ", where, " --help"));
    }
    const std::vector<std::string> commands = subcommand_names(*sub);
    if (!commands.empty())
      fail(ErrorKind::config, where, "there is no command \"", first, "\"",
           did_you_mean(first, commands), "; see gradus ", where.empty() ? "" : where + " ",
           "--help");
    fail(ErrorKind::config, where, "unexpected argument \"", first, "\"", as_argument(sub, first));
  }
  if (!subcommand_names(*sub).empty())
    fail(ErrorKind::config, where, "a command is missing; see gradus ",
         where.empty() ? "" : where + " ", "--help");
}

// `gradus help X` is `gradus X --help`. CLI11 takes arguments from the end of the vector, and would
// cut "[1,2]" into two.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    args.push_back("--help");
  }
  if (!args.empty() && (args[0] == "op" || args[0] == "predict"))
    for (std::string& arg : args)
      if (arg.starts_with("[")) arg.insert(0, " ");
  std::reverse(args.begin(), args.end());
  return args;
}

bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* a) { return std::string_view(a) == "--json"; });
}

nlohmann::json error_event(const char* kind, const std::string& message, int code) {
  return {{"event", "error"}, {"kind", kind}, {"message", message}, {"code", code}};
}

// What Ctrl-C leaves of a command.
std::string interrupted_line(const std::string& message, std::ostream& err) {
  std::ostringstream text;
  if (redraws(terminal_of(err))) text << "\r\033[K";  // where a bar may stand
  text.copyfmt(err);                                  // its colours
  write_notice(text, "gradus: " + message, Tone::bad);
  return text.str();
}

// One line on `err`; with --json the same as an event on `out`.
int report(const char* kind, const std::string& message, int code, bool json, std::ostream& out,
           std::ostream& err) {
  std::string line = printable(message);  // CLI11 quotes arguments as they are
  std::replace(line.begin(), line.end(), '\n', ' ');
  write_notice(err, "gradus: " + line, Tone::bad);
  if (json) emit(out, error_event(kind, line, code));
  return code;
}

// `json`: what run_app() took for the wish for it.
int parse_and_run(int argc, char** argv, bool& json, Screens& screens, std::ostream& out,
                  std::ostream& err) {
  CLI::App app("gradus: a small, auditable autograd engine", "gradus");
  app.get_formatter()->column_width(26);  // one formatter serves all commands
  app.allow_extras();
  app.require_subcommand(0, 1);  // a second one is an argument: `gradus ops contract`
  app.set_version_flag("--version", std::string("gradus ") + version());
  app.footer(
      "`gradus COMMAND --help` shows examples. Exit codes: 0 done, 2 wrong usage or\n"
      "config, 3 file, 4 device, 5 numeric failure or memory limit, 130 interrupted.");
  std::vector<std::string> libraries;
  app.add_option("--load", libraries, "a library of ops of your own; before the command")
      ->type_name("LIB.so")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  Action action;
  const auto colour = [&screens](const std::string& when) { screens.colour(when); };
  declare_colour(app, colour);
  declare_commands(app, action);
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
    declare_colour(*sub, colour)->group("");  // one page shows it
  if (argc < 2) {
    err << app.help();
    return kUsage;
  }
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::CallForVersion& e) {
    out << e.what() << "\n";
    return 0;
  } catch (const CLI::Success& e) {
    CLI::App* sub = typed_command(app);
    const std::vector<std::string> extras = app.remaining(true);
    if (std::string_view(argv[1]) == "help" && !subcommand_names(*sub).empty() && !extras.empty())
      refuse_extras(app);
    std::string parent = sub->get_parent() ? "gradus" : "";
    if (parent.size() && sub->get_parent()->get_parent())
      parent += " " + full_name(sub->get_parent());
    out << sub->help(parent);
    return 0;
  }
  if (CLI::App* sub = typed_command(app); sub->get_prefix_command())
    json = sub->count("--json") > 0;  // another may be the script's
  refuse_extras(app);
  start();
  for (const std::string& library : libraries) load_ops(library);
  const Verbatim lines_of_json(out, json);
  const CLI::App* const sub = typed_command(app);
  if (sub->get_prefix_command()) return action(out, err);  // a script's interrupts are its own
  const std::string message = full_name(typed_command(app)) + ": interrupted";
  const InterruptEnds interrupts(
      interrupted_line(message, err),
      json ? line_of(error_event("interrupted", message, 130)) + "\n" : std::string());
  return action(out, err);
}

bool events = false;  // is an error one, too?

// A block that a script's limit refuses is an exception. Where none may pass (a destructor that
// asks for memory), the program ends by the same error.
void end_without_memory() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    report("memory", "memory: the script leaves no room (--max-memory)", 5, events, std::cout,
           std::cerr);
    std::cout.flush();
    ::_exit(5);
  } catch (const std::exception&) {
  }
  std::abort();
}

}  // namespace

const char* kind_name(ErrorKind kind) {
  constexpr const char* names[] = {"shape",    "dtype",   "value",       "index",
                                   "autograd", "config",  "io",          "device",
                                   "memory",   "numeric", "interrupted", "internal"};
  return names[int(kind)];
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::io:
      return 3;
    case ErrorKind::device:
      return 4;
    case ErrorKind::memory:
    case ErrorKind::numeric:
      return 5;
    case ErrorKind::interrupted:
      return 130;
    case ErrorKind::internal:
      return kDefect;
    default:
      return kUsage;
  }
}

int run_app(int argc, char** argv, std::ostream& out, std::ostream& err) {
  bool json = wants_json(argc, argv);
  events = json;
  Screens screens(out, err);
  std::set_terminate(end_without_memory);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond a limit of files is an error that is reported
  int code = 0;
  try {
    code = parse_and_run(argc, argv, json, screens, out, err);
  } catch (const CLI::ParseError& e) {
    code = report("config", e.what(), kUsage, json, out, err);
  } catch (const Error& e) {
    code = report(kind_name(e.kind()), e.what(), exit_code(e.kind()), json, out, err);
  } catch (const std::bad_alloc&) {
    code = report("memory", "the host is out of memory", 5, json, out, err);
  } catch (const std::exception& e) {
    code =
        report("internal", std::string("a defect of gradus: ") + e.what(), kDefect, json, out, err);
  }
  out.flush();
  if (!out && code == 0)
    code = report("io", "standard output can't be written", 3, false, out, err);
  return code;
}

}  // namespace gradus::cli
