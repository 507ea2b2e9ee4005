// The commands, each a function that declares its options and says what runs; the struct of options
// is its own. CLI11 parses and does no more: layering of configs, messages and exit codes are ours.
#include "cli/declarations.hpp"
#include "bindings/cpp/start.hpp"
#include "cli/ops/check.hpp"
#include "cli/ops/check_exact.hpp"
#include "cli/config_command.hpp"
#include "cli/contract/contract.hpp"
#include "cli/teach/demo.hpp"
#include "cli/frame/devices.hpp"
#include "cli/manual.hpp"
#include "cli/teach/lesson.hpp"
#include "cli/ops/op.hpp"
#include "cli/ops/ops_list.hpp"
#include "cli/train/predict.hpp"
#include "cli/report/report.hpp"
#include "cli/script/script.hpp"
#include "cli/train/train.hpp"
#include "cli/tune.hpp"
#include "cli/verify.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

void declare_demo(CLI::App& app, Action& action) {
  const auto o = std::make_shared<DemoOptions>();
  CLI::App* sub =
      command(app, "demo", "the tour: trains a network, runs a contraction", "  gradus demo\n");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_demo);
}

void declare_train(CLI::App& app, Action& action) {
  const auto o = std::make_shared<TrainOptions>();
  CLI::App* sub = command(app, "train", "train by a config",
                          "  gradus train configs/lenet/digits.json\n"
                          "  gradus train mlp.json --set optimizer.lr=0.01 --out runs/a\n"
                          "  gradus train mlp.json --out runs/a --resume\n");
  text(sub, "CONFIG", o->config, "file of an experiment \"network\"", "FILE");
  repeated(sub, "--set", o->set, "override one value of the config", "PATH=VALUE");
  device(sub, o->device);
  text(sub, "--out", o->out, "run folder", "DIR");
  sub->add_flag("--resume", o->resume, "go on from the last checkpoint");
  ledger(sub, o->ledger);
  json(sub, o->json);
  runs(sub, action, o, run_train, &TrainOptions::config, "a CONFIG file");
}

void declare_eval(CLI::App& app, Action& action) {
  const auto o = std::make_shared<EvalOptions>();
  CLI::App* sub = command(app, "eval", "test a finished run", "  gradus eval runs/a\n");
  text(sub, "RUN_DIR", o->run_dir, "run folder", "DIR");
  text(sub, "--data", o->data, "other data of the same format to test on", "DIR");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_eval, &EvalOptions::run_dir, "a RUN_DIR");
}

void declare_predict(CLI::App& app, Action& action) {
  const auto o = std::make_shared<PredictOptions>();
  CLI::App* sub = command(app, "predict", "what a run's network says of new samples",
                          "  gradus predict runs/flowers new.csv\n"
                          "  gradus predict runs/flowers \"[5.1,3.5,1.4,0.2]\" --json\n"
                          "  gradus predict runs/digits-1 seven.png eight.png\n"
                          "  gradus predict runs/flowers new.csv --out y.npy\n");
  text(sub, "RUN_DIR", o->run_dir, "run folder", "DIR");
  files(sub, "INPUT", o->inputs, ".npy, .npz, .csv or .png, or typed numbers");
  text(sub, "--out", o->out, "a .npy for all that is said", "FILE");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_predict, &PredictOptions::run_dir, "a RUN_DIR");
}

void declare_report(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReportOptions>();
  CLI::App* sub = command(app, "report", "curves.svg and report.html of a run, made anew",
                          "  gradus report runs/digits-1\n");
  text(sub, "RUN_DIR", o->run_dir, "run folder", "DIR");
  text(sub, "--data", o->data, "other data of the same format to test on", "DIR");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_report, &ReportOptions::run_dir, "a RUN_DIR");
}

void declare_verify(CLI::App& app, Action& action) {
  const auto o = std::make_shared<VerifyOptions>();
  CLI::App* sub = command(app, "verify", "is a run, or a file of tensors, as it was written?",
                          "  gradus verify runs/digits-1\n"
                          "  gradus verify model.safetensors --json\n");
  text(sub, "PATH", o->path, "a run folder, a .safetensors or a .npy file", "DIR|FILE");
  json(sub, o->json);
  runs(sub, action, o, run_verify, &VerifyOptions::path, "a run folder or a file");
}

void declare_contract(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ContractOptions>();
  CLI::App* sub =
      command(app, "contract", "run one einsum, with plan and gradients",
              "  gradus contract --einsum \"ij,jk->ik\" --sizes i=3,j=4,k=5\n"
              "  gradus contract --einsum \"ij,jk->ik\" --in a.npy b.npy --out c.npy\n"
              "  gradus contract big.json --plan-only\n"
              "  gradus contract --network networks.json#ring --timeout 1 --html order.html\n");
  text(sub, "CONFIG", o->config, "file of an experiment \"contraction\"", "FILE");
  sub->add_option("--einsum", o->einsum, "the expression, as numpy writes it")
      ->type_name("EXPR")
      ->take_last();
  text(sub, "--network", o->network, "a network of labels instead, from JSON", "FILE[#NAME]");
  text(sub, "--sizes", o->sizes, "extents for random operands: i=3,j=4", "SIZES");
  files(sub, "--in", o->in, "one .npy file per operand");
  text(sub, "--tensors", o->tensors, "operands by name, from .safetensors", "FILE");
  text(sub, "--dtype", o->dtype, "f32, f64, c64, c128, i32, i64, ...", "T");
  text(sub, "--algebra", o->algebra, "sum and product: max-plus, ..., mod P", "A");
  text(sub, "--winners", o->winners, "which index of each summed label won", "FILE");
  text(sub, "--out", o->out, "the value", "FILE");
  text(sub, "--cotangent", o->cotangent, "cotangent of the value", "FILE");
  files(sub, "--grads", o->grads, "one file per operand, - for none");
  text(sub, "--path", o->path, "auto, greedy, optimal, ..., [[0,1],...]", "PATH");
  sub->add_option("--budget", o->budget, "work of its search, in units of about 1 us")
      ->type_name("N");
  sub->add_option("--timeout", o->timeout, "most seconds of its search")->type_name("S");
  text(sub, "--cost", o->cost, "what a step costs, from gradus tune", "FILE");
  text(sub, "--plan-out", o->plan_out, "the order as JSON", "FILE");
  text(sub, "--plan-in", o->plan_in, "the order, from --plan-out", "FILE");
  text(sub, "--plan-cache", o->plan_cache, "keeps orders that were found", "DIR");
  text(sub, "--svg", o->svg, "its tree as a picture", "FILE");
  text(sub, "--html", o->html, "its tree and steps as a page", "FILE");
  text(sub, "--memory", o->memory, "limit of all intermediates: 1GiB", "BYTES");
  sub->add_flag("--plan-only", o->plan_only, "plan, do not compute");
  sub->add_flag("--verify", o->verify, "check value and gradients");
  whole(sub, "--repeat", o->repeat, "time N runs");
  whole(sub, "--seed", o->seed, "of random operands");
  ledger(sub, o->ledger);
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_contract);
}

void declare_op(CLI::App& app, Action& action) {
  const auto o = std::make_shared<OpOptions>();
  CLI::App* sub = command(app, "op", "run any op on files or numbers, with its derivatives",
                          "  gradus op softmax --in x.npy --attr dim=1 --out y.npy\n"
                          "  gradus op mul --in a.npy b.npy --cotangent g.npy --grads da.npy -\n"
                          "  gradus op exp --in x.npy --tangents t.npy --jvp jy.npy\n"
                          "  gradus op matmul --in a.npy b.npy --in-dims 0,none --jacobian\n"
                          "  gradus op sigmoid --in \"[-1,0,2]\" --cotangent \"[1,1,1]\"\n"
                          "  gradus op normal --attr size=[2,3] --seed 7\n");
  text(sub, "NAME", o->name, "an op of `gradus ops`", "");
  files(sub, "--in", o->inputs, "per operand a .npy file, or [[1,2],[3,4]]");
  repeated(sub, "--attr", o->attrs, "an attribute, such as dim=[0,2]", "KEY=VALUE");
  files(sub, "--out", o->outputs, "one file per output; else printed");
  files(sub, "--cotangent", o->cotangents, "one file per floating output");
  files(sub, "--grads", o->grads, "one file per floating operand, or -");
  files(sub, "--tangents", o->tangents, "one file per floating operand, or -");
  files(sub, "--jvp", o->jvps, "one file per floating output");
  files(sub, "--jacobian", o->jacobians, "a file per operand; else printed")->expected(0, 1 << 20);
  files(sub, "--hessian", o->hessians, "of a scalar; else printed")->expected(0, 1 << 20);
  files(sub, "--hvp", o->vectors, "Hessian times v: one v per operand, or -");
  files(sub, "--hvp-out", o->hvps, "one file per floating operand");
  text(sub, "--in-dims", o->in_dims, "vmap: an axis or none per operand: 0,none", "DIMS");
  text(sub, "--dtype", o->dtype, "cast real and complex operands to it", "T");
  whole(sub, "--seed", o->seed, "of random ops");
  ledger(sub, o->ledger);
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_op, &OpOptions::name, "the NAME of an op");
  sub->parse_complete_callback([o, sub] {
    o->jacobian = sub->count("--jacobian") > 0;
    o->hessian = sub->count("--hessian") > 0;
    // CLI11 gives an option without a value an empty one.
    std::erase(o->jacobians, "");
    std::erase(o->hessians, "");
  });
}

void declare_ops(CLI::App& app, Action& action) {
  const auto o = std::make_shared<OpsOptions>();
  CLI::App* sub = command(app, "ops", "list the ops, or describe one",
                          "  gradus ops\n  gradus ops sigmoid\n  gradus ops --json\n");
  text(sub, "NAME", o->name, "one op: formula, derivative, example, its check", "");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_ops);
}

void declare_devices(CLI::App& app, Action& action) {
  const auto o = std::make_shared<DevicesOptions>();
  CLI::App* sub =
      command(app, "devices", "what is there, what is missing and why", "  gradus devices\n");
  json(sub, o->json);
  runs(sub, action, o, run_devices);
}

void declare_tune(CLI::App& app, Action& action) {
  const auto o = std::make_shared<TuneOptions>();
  CLI::App* sub = command(app, "tune", "find a GPU's fastest ways of contracting",
                          "  gradus tune configs/mlp/digits.json --device cuda\n"
                          "  gradus tune --cost cost.json --dtype f64\n");
  text(sub, "CONFIG", o->config, "file of an experiment", "FILE");
  text(sub, "--cost", o->cost, "instead: what a step of a contraction costs", "FILE");
  text(sub, "--dtype", o->dtype, "of --cost", "T");
  repeated(sub, "--set", o->set, "override one value of the config", "PATH=VALUE");
  text(sub, "--file", o->file, "tuning file; else that of this user", "FILE");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_tune);
}

void declare_script(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ScriptRun>();
  CLI::App* sub = command(app, "script", "run a FILE.lua (- for standard input) with its ARGS",
                          "  gradus script train.lua 0.1\n"
                          "  gradus script -e 'print(gradus.randn(2, 3))'\n"
                          "  gradus script --max-memory 50MiB --max-seconds 10 strange.lua\n"
                          "  gradus script --allow-read ../mnist train.lua\n");
  sub->prefix_command();  // what follows the file is the script's own
  sub->add_option("-e", o->code, "run this text")->type_name("CODE")->take_last();
  sub->add_flag("--check", o->check, "look at the syntax, run nothing");
  sandbox(sub, o->sandbox);
  limits(sub, o->sandbox.memory, o->seconds, o->instructions);
  device(sub, o->device);
  json(sub, o->json, "each print as one JSON object per line");
  runs(sub, action, o, run_script);
  sub->parse_complete_callback([o, sub] { o->arguments = sub->remaining(); });
}

void declare_repl(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReplOptions>();
  CLI::App* sub = command(app, "repl", "a prompt for Lua over tensors", "  gradus repl\n");
  sandbox(sub, o->sandbox);
  device(sub, o->device);
  json(sub, o->json, "each print as one JSON object per line");
  runs(sub, action, o, run_repl);
}

void declare_lesson(CLI::App& app, Action& action) {
  const auto o = std::make_shared<LessonOptions>();
  CLI::App* sub = command(app, "lesson", "thirteen lessons, from the chain rule on",
                          "  gradus lesson\n  gradus lesson 5\n"
                          "  gradus lesson 5 --source > mine.lua; gradus script mine.lua\n");
  text(sub, "N", o->which, "one of them: its number, name or title, or how that begins", "");
  sub->add_flag("--list", o->list, "their names and titles");
  sub->add_flag("--source", o->source, "the script of a lesson, to change");
  text(sub, "--html", o->html, "a page of the first graph that a lesson walks through", "FILE");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_lesson);
}

void declare_check(CLI::App& app, Action& action) {
  const auto o = std::make_shared<CheckOptions>();
  CLI::App* sub = command(app, "check", "test every op and its derivatives on a device",
                          "  gradus check\n  gradus check --device cuda --op softmax\n"
                          "  gradus check --record ops.safetensors --cases 20\n");
  text(sub, "--op", o->op, "one op alone", "NAME");
  text(sub, "--record", o->record, "write what the ops give instead", "FILE");
  text(sub, "--calls", o->calls, "with --record: calls that another program wrote", "FILE");
  whole(sub, "--seed", o->seed, "of recorded random cases");
  whole(sub, "--cases", o->cases, "random cases recorded per op");
  sub->add_flag("--exact", o->exact, "prove derivatives modulo a prime and over fractions");
  device(sub, o->device);
  json(sub, o->json);
  runs<CheckOptions>(sub, action, o,
                     [](const CheckOptions& c, std::ostream& out, std::ostream& err) {
                       return c.exact ? run_check_exact(c, out, err) : run_check(c, out, err);
                     });
}

void declare_config_action(CLI::App* parent, Action& action, const char* name, const char* doc,
                           ConfigOptions::Action what, const char* example) {
  const auto o = std::make_shared<ConfigOptions>();
  o->action = what;
  CLI::App* sub = command(*parent, name, doc, example);
  json(sub, o->json);
  if (what == ConfigOptions::Action::schema) {
    text(sub, "KIND", o->kind, "experiment, network, contraction or device", "");
    return runs(sub, action, o, run_config);
  }
  text(sub, "FILE", o->file, "a config", "");
  repeated(sub, "--set", o->set, "override one value", "PATH=VALUE");
  runs(sub, action, o, run_config, &ConfigOptions::file, "a FILE");
}

void declare_config(CLI::App& app, Action& action) {
  CLI::App* sub = command(app, "config", "show, describe or check a config",
                          "  gradus config show mlp.json --set epochs=2\n"
                          "  gradus config schema > gradus.schema.json\n"
                          "  gradus config validate mlp.json\n");
  declare_config_action(sub, action, "show", "the merged config with the origin of each value",
                        ConfigOptions::Action::show, "  gradus config show mlp.json\n");
  declare_config_action(sub, action, "schema", "the JSON Schema of a config",
                        ConfigOptions::Action::schema, "  gradus config schema device\n");
  declare_config_action(sub, action, "validate", "check a config file without running it",
                        ConfigOptions::Action::validate, "  gradus config validate mlp.json\n");
}

void declare_version(CLI::App& app, Action& action) {
  CLI::App* sub = command(app, "version", "the version of this program", "  gradus version\n");
  const auto as_json = std::make_shared<bool>(false);
  json(sub, *as_json);
  sub->callback([as_json, &action] {
    action = [as_json](std::ostream& out, std::ostream&) {
      if (*as_json)
        out << nlohmann::json{{"event", "version"},
                              {"version", version()},
                              {"compiler", __VERSION__}}
                   .dump()
            << "\n";
      else
        out << "gradus " << version() << "\n";
      return 0;
    };
  });
}

void declare_man(CLI::App& app, Action& action) {
  struct Options {
    std::vector<std::string> command;
    bool list = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* sub = command(app, "man", "the manual page of a command",
                          "  gradus man train > gradus-train.1\n"
                          "  gradus man --list\n");
  sub->add_option("COMMAND", o->command, "\"train\", \"config show\"; none: the program itself");
  sub->add_flag("--list", o->list, "the names of all pages");
  sub->callback([o, &app, &action] {
    action = [o, &app](std::ostream& out, std::ostream&) {
      std::string name;
      for (const std::string& word : o->command) name += (name.empty() ? "" : " ") + word;
      out << (o->list ? manual_names(app) : manual_page(app, name));
      return 0;
    };
  });
}

void declare_completion(CLI::App& app, Action& action) {
  struct Options {
    std::string shell;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* sub = command(app, "completion", "what a shell needs to complete commands",
                          "  gradus completion bash > gradus.bash\n");
  text(sub, "SHELL", o->shell, "bash, zsh or fish", "");
  sub->callback([o, &app, &action] {
    action = [o, &app](std::ostream& out, std::ostream&) {
      out << completion(app, o->shell);
      return 0;
    };
  });
}

}  // namespace

std::string full_name(CLI::App* sub) {
  std::string name;
  for (CLI::App* at = sub; at->get_parent(); at = at->get_parent())
    name = at->get_name() + (name.empty() ? "" : " " + name);
  return name;
}

void declare_commands(CLI::App& app, Action& action) {
  for (const auto declare :
       {declare_demo,   declare_train,    declare_eval,       declare_predict, declare_report,
        declare_verify, declare_contract, declare_op,         declare_ops,     declare_devices,
        declare_tune,   declare_audit,    declare_graph,      declare_step,    declare_replay,
        declare_diff,   declare_script,   declare_repl,       declare_lesson,  declare_check,
        declare_config, declare_man,      declare_completion, declare_version})
    declare(app, action);
}

}  // namespace gradus::cli
