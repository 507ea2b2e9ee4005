// The only file that includes CLI11, which parses and does no more: layering of configs, messages
// and exit codes are ours (facts/ecosystem.md 3.1 has the reasons). Each command has one function
// here that declares its options and hands a filled struct to the command's own file.
#include "cli/app.hpp"

#include "cli/check.hpp"
#include "cli/check_exact.hpp"
#include "cli/config_command.hpp"
#include "cli/contract.hpp"
#include "cli/demo.hpp"
#include "cli/devices.hpp"
#include "cli/op.hpp"
#include "cli/ops_list.hpp"
#include "cli/train.hpp"
#include "engine/device.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/init.hpp"
#include "ops/user.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

#include <CLI/CLI.hpp>

namespace gradus::cli {

namespace {

constexpr const char* kVersion = "0.1.0";
constexpr int kUsage = 2, kDefect = 1;

using Action = std::function<int(std::ostream& out, std::ostream& err)>;

// ---- numbers as people write them: CLI11 would take 1e400 for inf and "5x" for out of range.

std::string whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "expected a whole number, got \"" + text + "\"";
}

// ---- the commands. `action` is set by the one that was typed.

class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {
    demo();
    train();
    eval();
    contract();
    op();
    ops();
    devices();
    check();
    config();
    version();
  }
  const Action& action() const { return action_; }

 private:
  CLI::App* command(CLI::App& parent, const char* name, const char* doc, const char* examples) {
    CLI::App* sub = parent.add_subcommand(name, doc);
    sub->footer(std::string("Examples:\n") + examples);
    sub->allow_extras();  // reported by us, with the nearest name
    return sub;
  }
  static void device(CLI::App* sub, std::string& to) {
    sub->add_option("--device", to, "auto, cpu, cuda:N, hip:N, emu:N, reference, a .json")
        ->type_name("D")
        ->take_last();
  }
  static void json(CLI::App* sub, bool& to) {
    sub->add_flag("--json", to, "one JSON object per line on standard output");
  }
  static void ledger(CLI::App* sub, bool& to) {
    sub->add_flag("--ledger", to, "calls, time and bytes by op, on standard error");
  }
  static CLI::Option* files(CLI::App* sub, const char* name, std::vector<std::string>& to,
                            const char* doc) {
    return sub->add_option(name, to, doc)->type_name("FILE");
  }
  static CLI::Option* text(CLI::App* sub, const char* name, std::string& to, const char* doc,
                           const char* type = "TEXT") {
    return sub->add_option(name, to, doc)->type_name(type)->take_last();
  }
  static void repeated(CLI::App* sub, const char* name, std::vector<std::string>& to,
                       const char* doc, const char* type) {
    sub->add_option(name, to, doc)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  }
  // The command's positional argument must be there; CLI11's own message names no command.
  void need(const std::string& value, const char* command, const char* what) {
    if (value.empty())
      fail(ErrorKind::config, command, "needs ", what, "; see gradus ", command, " --help");
  }

  void demo();
  void train();
  void eval();
  void contract();
  void op();
  void ops();
  void devices();
  void check();
  void config();
  void config_action(CLI::App* parent, const char* name, const char* doc,
                     ConfigOptions::Action what, const char* example);
  void version();

  CLI::App& app_;
  Action action_;
  DemoOptions demo_;
  TrainOptions train_;
  EvalOptions eval_;
  ContractOptions contract_;
  std::string einsum_, repeat_, contract_seed_;
  OpOptions op_;
  std::string op_seed_ = "0";
  OpsOptions ops_;
  DevicesOptions devices_;
  CheckOptions check_;
  std::string check_seed_ = "1", check_cases_ = "8";
  ConfigOptions config_;
  bool version_json_ = false;
};

void Commands::demo() {
  CLI::App* sub =
      command(app_, "demo", "the tour: trains a network, runs a contraction", "  gradus demo\n");
  device(sub, demo_.device);
  json(sub, demo_.json);
  sub->callback(
      [this] { action_ = [this](auto& out, auto& err) { return run_demo(demo_, out, err); }; });
}

void Commands::train() {
  CLI::App* sub = command(app_, "train", "train by a config",
                          "  gradus train configs/lenet/digits.json\n"
                          "  gradus train mlp.json --set optimizer.lr=0.01 --out runs/a\n"
                          "  gradus train mlp.json --out runs/a --resume\n");
  text(sub, "CONFIG", train_.config, "file of an experiment \"network\"", "FILE");
  repeated(sub, "--set", train_.set, "override one value of the config", "PATH=VALUE");
  device(sub, train_.device);
  text(sub, "--out", train_.out, "run folder", "DIR");
  sub->add_flag("--resume", train_.resume, "go on from the last checkpoint");
  ledger(sub, train_.ledger);
  json(sub, train_.json);
  sub->callback([this] {
    action_ = [this](auto& out, auto& err) {
      need(train_.config, "train", "a CONFIG file");
      return run_train(train_, out, err);
    };
  });
}

void Commands::eval() {
  CLI::App* sub = command(app_, "eval", "test a finished run", "  gradus eval runs/a\n");
  text(sub, "RUN_DIR", eval_.run_dir, "run folder", "DIR");
  text(sub, "--data", eval_.data, "folder of IDX files; else the run's own", "DIR");
  device(sub, eval_.device);
  json(sub, eval_.json);
  sub->callback([this] {
    action_ = [this](auto& out, auto& err) {
      need(eval_.run_dir, "eval", "a RUN_DIR");
      return run_eval(eval_, out, err);
    };
  });
}

void Commands::contract() {
  CLI::App* sub = command(app_, "contract", "run one einsum, with plan and gradients",
                          "  gradus contract --einsum ij,jk->ik --sizes i=3,j=4,k=5\n"
                          "  gradus contract --einsum ij,jk->ik --in a.npy b.npy --out c.npy\n"
                          "  gradus contract big.json --plan-only\n");
  ContractOptions& o = contract_;
  text(sub, "CONFIG", o.config, "file of an experiment \"contraction\"", "FILE");
  text(sub, "--einsum", einsum_, "the expression, as numpy writes it", "EXPR");
  text(sub, "--sizes", o.sizes, "extents for random operands: i=3,j=4", "SIZES");
  files(sub, "--in", o.in, "one .npy file per operand");
  text(sub, "--dtype", o.dtype, "f32, f64, c64, c128, i32, i64, ...", "T");
  text(sub, "--algebra", o.algebra, "standard, max-plus, min-plus, max-times", "A");
  text(sub, "--out", o.out, "the value", "FILE");
  text(sub, "--cotangent", o.cotangent, "cotangent of the value", "FILE");
  files(sub, "--grads", o.grads, "one file per operand, - for none");
  text(sub, "--path", o.path, "auto, greedy, optimal, left, [[0,1],...]", "PATH");
  text(sub, "--memory", o.memory, "limit of all intermediates: 1GiB", "BYTES");
  sub->add_flag("--plan-only", o.plan_only, "plan, do not compute");
  sub->add_flag("--verify", o.verify, "check value and gradients");
  text(sub, "--repeat", repeat_, "time N runs", "N")->check(whole_number);
  text(sub, "--seed", contract_seed_, "of random operands", "N")->check(whole_number);
  ledger(sub, o.ledger);
  device(sub, o.device);
  json(sub, o.json);
  sub->callback([this, sub] {
    if (sub->count("--einsum") > 0) contract_.einsum = einsum_;
    if (!repeat_.empty()) contract_.repeat = std::stoll(repeat_);
    if (!contract_seed_.empty()) contract_.seed = std::stoll(contract_seed_);
    action_ = [this](auto& out, auto& err) { return run_contract(contract_, out, err); };
  });
}

void Commands::op() {
  CLI::App* sub = command(app_, "op", "run any op on .npy files, with its derivatives",
                          "  gradus op softmax --in x.npy --attr dim=1 --out y.npy\n"
                          "  gradus op mul --in a.npy b.npy --cotangent g.npy --grads da.npy -\n"
                          "  gradus op exp --in x.npy --tangents t.npy --jvp jy.npy\n"
                          "  gradus op matmul --in a.npy b.npy --in-dims 0,none --jacobian\n"
                          "  gradus op normal --attr size=[2,3] --seed 7\n");
  OpOptions& o = op_;
  text(sub, "NAME", o.name, "an op of `gradus ops`", "");
  files(sub, "--in", o.inputs, "one .npy file per operand");
  repeated(sub, "--attr", o.attrs, "an attribute, such as dim=[0,2]", "KEY=VALUE");
  files(sub, "--out", o.outputs, "one file per output; else printed");
  files(sub, "--cotangent", o.cotangents, "one file per floating output");
  files(sub, "--grads", o.grads, "one file per floating operand, or -");
  files(sub, "--tangents", o.tangents, "one file per floating operand, or -");
  files(sub, "--jvp", o.jvps, "one file per floating output");
  files(sub, "--jacobian", o.jacobians, "a file per operand; else printed")->expected(0, 1 << 20);
  files(sub, "--hessian", o.hessians, "of a scalar; else printed")->expected(0, 1 << 20);
  files(sub, "--hvp", o.vectors, "Hessian times v: one v per operand, or -");
  files(sub, "--hvp-out", o.hvps, "one file per floating operand");
  text(sub, "--in-dims", o.in_dims, "vmap: an axis or none per operand: 0,none", "DIMS");
  text(sub, "--dtype", o.dtype, "cast real and complex operands to it", "T");
  text(sub, "--seed", op_seed_, "of random ops", "N")->check(whole_number);
  ledger(sub, o.ledger);
  device(sub, o.device);
  json(sub, o.json);
  sub->callback([this, sub] {
    op_.jacobian = sub->count("--jacobian") > 0;
    op_.hessian = sub->count("--hessian") > 0;
    op_.seed = std::stoll(op_seed_);
    action_ = [this](auto& out, auto& err) {
      need(op_.name, "op", "the NAME of an op");
      return run_op(op_, out, err);
    };
  });
}

void Commands::ops() {
  CLI::App* sub = command(app_, "ops", "list the ops, or describe one",
                          "  gradus ops\n  gradus ops sigmoid\n  gradus ops --json\n");
  text(sub, "NAME", ops_.name, "formula, derivative, attributes of one op", "");
  json(sub, ops_.json);
  sub->callback(
      [this] { action_ = [this](auto& out, auto& err) { return run_ops(ops_, out, err); }; });
}

void Commands::devices() {
  CLI::App* sub =
      command(app_, "devices", "what is there, what is missing and why", "  gradus devices\n");
  json(sub, devices_.json);
  sub->callback([this] {
    action_ = [this](auto& out, auto& err) { return run_devices(devices_, out, err); };
  });
}

void Commands::check() {
  CLI::App* sub = command(app_, "check", "test every op and its derivatives on a device",
                          "  gradus check\n  gradus check --device cuda --op softmax\n"
                          "  gradus check --record ops.safetensors --cases 20\n");
  text(sub, "--op", check_.op, "one op alone", "NAME");
  text(sub, "--record", check_.record, "write what the ops give instead", "FILE");
  text(sub, "--seed", check_seed_, "of recorded random cases", "N")->check(whole_number);
  text(sub, "--cases", check_cases_, "random cases recorded per op", "N")->check(whole_number);
  sub->add_flag("--exact", check_.exact, "prove derivatives modulo a prime and over fractions");
  device(sub, check_.device);
  json(sub, check_.json);
  sub->callback([this] {
    check_.seed = std::stoll(check_seed_);
    check_.cases = std::stoll(check_cases_);
    action_ = [this](auto& out, auto& err) {
      return check_.exact ? run_check_exact(check_, out, err) : run_check(check_, out, err);
    };
  });
}

void Commands::config_action(CLI::App* parent, const char* name, const char* doc,
                             ConfigOptions::Action what, const char* example) {
  CLI::App* sub = command(*parent, name, doc, example);
  const bool schema = what == ConfigOptions::Action::schema;
  if (schema)
    text(sub, "KIND", config_.kind, "experiment, network, contraction or device", "");
  else
    text(sub, "FILE", config_.file, "a config", "");
  if (!schema) repeated(sub, "--set", config_.set, "override one value", "PATH=VALUE");
  json(sub, config_.json);
  sub->callback([this, what, schema, name] {
    config_.action = what;
    action_ = [this, schema, name](auto& out, auto& err) {
      if (!schema) need(config_.file, (std::string("config ") + name).c_str(), "a FILE");
      return run_config(config_, out, err);
    };
  });
}

void Commands::config() {
  CLI::App* sub = command(app_, "config", "show, describe or check a config",
                          "  gradus config show mlp.json --set epochs=2\n"
                          "  gradus config schema > gradus.schema.json\n"
                          "  gradus config validate mlp.json\n");
  config_action(sub, "show", "the merged config with the origin of each value",
                ConfigOptions::Action::show, "  gradus config show mlp.json\n");
  config_action(sub, "schema", "the JSON Schema of a config", ConfigOptions::Action::schema,
                "  gradus config schema device\n");
  config_action(sub, "validate", "check a config file without running it",
                ConfigOptions::Action::validate, "  gradus config validate mlp.json\n");
}

void Commands::version() {
  CLI::App* sub = command(app_, "version", "the version of this program", "  gradus version\n");
  json(sub, version_json_);
  sub->callback([this] {
    action_ = [this](std::ostream& out, std::ostream&) {
      if (version_json_)
        out << nlohmann::json{{"event", "version"},
                              {"version", kVersion},
                              {"compiler", __VERSION__}}
                   .dump()
            << "\n";
      else
        out << "gradus " << kVersion << "\n";
      return 0;
    };
  });
}

// ---- wrong arguments

// The command that was typed, with its subcommand.
CLI::App* typed_command(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

std::string full_name(CLI::App* sub) {
  std::string name;
  for (CLI::App* at = sub; at->get_parent(); at = at->get_parent())
    name = at->get_name() + (name.empty() ? "" : " " + name);
  return name;
}

std::vector<std::string> subcommand_names(CLI::App& app) {
  std::vector<std::string> names;
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// What was left over: a command, an option or an argument that nobody knows.
void refuse_extras(CLI::App& app) {
  CLI::App* sub = typed_command(app);
  const std::vector<std::string> extras = app.remaining(true);
  const std::string where = full_name(sub);
  if (!extras.empty()) {
    const std::string& first = extras.front();
    if (first.size() > 1 && first[0] == '-' && !(first[1] >= '0' && first[1] <= '9')) {
      std::vector<std::string> names{"--help"};
      for (const CLI::Option* option : sub->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      const std::string option = first.substr(0, first.find('='));
      fail(ErrorKind::config, where, "there is no option \"", option, "\"",
           did_you_mean(option, names),
           where.empty() ? "" : join("; see gradus ", where, " --help"));
    }
    const std::vector<std::string> commands = subcommand_names(*sub);
    if (!commands.empty())
      fail(ErrorKind::config, where, "there is no command \"", first, "\"",
           did_you_mean(first, commands), "; see gradus ", where.empty() ? "" : where + " ",
           "--help");
    fail(ErrorKind::config, where, "unexpected argument \"", first, "\"");
  }
  if (!subcommand_names(*sub).empty())
    fail(ErrorKind::config, where, "a command is missing; see gradus ",
         where.empty() ? "" : where + " ", "--help");
}

// `gradus help X` is `gradus X --help`. CLI11 takes arguments from the end of the vector.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    args.push_back("--help");
  }
  std::reverse(args.begin(), args.end());
  return args;
}

bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* a) { return std::string_view(a) == "--json"; });
}

// One line on `err`; with --json the same as an event on `out`.
int report(const char* kind, const std::string& message, int code, bool json, std::ostream& out,
           std::ostream& err) {
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  err << "gradus: " << line << "\n";
  if (json) {
    const nlohmann::json event{
        {"event", "error"}, {"kind", kind}, {"message", line}, {"code", code}};
    out << event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return code;
}

int parse_and_run(int argc, char** argv, std::ostream& out, std::ostream& err) {
  CLI::App app("gradus: a small, auditable autograd engine", "gradus");
  app.get_formatter()->column_width(26);  // one formatter serves all commands
  app.allow_extras();
  app.require_subcommand(0, 1);  // a second one is an argument: `gradus ops contract`
  app.set_version_flag("--version", std::string("gradus ") + kVersion);
  app.footer(
      "`gradus COMMAND --help` shows examples. Exit codes: 0 done, 2 wrong usage or\n"
      "config, 3 file, 4 device, 5 numeric failure or memory limit, 130 interrupted.");
  std::vector<std::string> libraries;
  app.add_option("--load", libraries, "a library of ops of your own; before the command")
      ->type_name("LIB.so")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  Commands commands(app);
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
    std::string parent = sub->get_parent() ? "gradus" : "";
    if (parent.size() && sub->get_parent()->get_parent())
      parent += " " + full_name(sub->get_parent());
    out << sub->help(parent);
    return 0;
  }
  refuse_extras(app);
  init();
  register_table(cpu::table(), "built in");
  register_table(reference::table(), "built in");
  for (const std::string& library : libraries) load_ops(library);
  return commands.action()(out, err);
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
  const bool json = wants_json(argc, argv);
  int code = 0;
  try {
    code = parse_and_run(argc, argv, out, err);
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
