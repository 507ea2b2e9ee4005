// The commands that look at one step of a config, a script or a trace file.
#include "cli/declarations.hpp"
#include "cli/look/audit.hpp"
#include "cli/look/diff.hpp"
#include "cli/look/graph.hpp"
#include "cli/look/replay.hpp"
#include "cli/look/step.hpp"

namespace gradus::inline v1::cli {

void declare_audit(CLI::App& app, Action& action) {
  const auto o = std::make_shared<AuditOptions>();
  CLI::App* sub = command(app, "audit", "judge the derivative of every node of a step",
                          "  gradus audit configs/mlp/digits.json\n"
                          "  gradus audit configs/lenet/digits.json --ledger --cost\n"
                          "  gradus audit configs/lenet/digits.json --html lenet.html\n"
                          "  gradus audit mlp.json --against reference --json\n"
                          "  gradus audit mlp.json --fail-on nan,mismatch,unreached\n"
                          "  gradus audit mlp.json --explain layers.0.weight --top 3\n"
                          "  gradus audit mlp.json --explain %4\n"
                          "  gradus audit lenet.json --versions\n"
                          "  gradus audit lenet.json --health\n"
                          "  gradus audit train.lua --arg 0.1 --backward 3\n");
  of_step(sub, *o);
  text(sub, "--against", o->against, "every node on this device too", "D");
  sub->add_option("--fail-on", o->fail_on,
                  "nan, inf, mismatch, unreached, zero, alias: exit code 5")
      ->type_name("LIST")
      ->take_last();
  sub->add_flag("--ledger", o->ledger, "what is kept for backward, why; memory over time");
  sub->add_flag("--cost", o->cost, "flops, bytes and time of nodes, against the machine's peaks");
  text(sub, "--html", o->html, "a page of the graph with verdicts, memory and cost", "FILE");
  text(sub, "--explain", o->explain, "paths to a leaf's gradient, or node %K", "NAME");
  text(sub, "--element", o->element, "explain one element: 0,3", "I,J");
  whole(sub, "--top", o->top, "paths that are shown; 5 by default");
  text(sub, "--versions", o->written, "log of writes in place (to leaf NAME, node %K)", "NAME")
      ->expected(0, 1);
  sub->add_flag("--accounting", o->accounting, "are all cotangents added up rightly?");
  sub->add_flag("--health", o->health, "how large gradients are; what is dead or saturated");
  sub->parse_complete_callback([o, sub] { o->versions = sub->count("--versions") > 0; });
  json(sub, o->json);
  runs(sub, action, o, run_audit, &AuditOptions::file, "a CONFIG file");
}

void declare_graph(CLI::App& app, Action& action) {
  const auto o = std::make_shared<GraphOptions>();
  CLI::App* sub = command(app, "graph", "what one step records, and its backward",
                          "  gradus graph configs/mlp/digits.json\n"
                          "  gradus graph configs/lenet/digits.json --html lenet.html\n"
                          "  gradus graph mlp.json --dot - | dot -Tsvg > mlp.svg\n"
                          "  gradus graph configs/scripts/mlp_digits.lua --backward 2\n");
  of_step(sub, *o);
  text(sub, "--html", o->html, "a page to look at, by itself", "FILE");
  text(sub, "--svg", o->svg, "the picture alone", "FILE");
  text(sub, "--dot", o->dot, "for Graphviz; - prints it", "FILE");
  text(sub, "--json", o->json, "all there is; - prints it", "FILE");
  text(sub, "--record", o->record, "a trace file, for gradus replay", "FILE");
  runs(sub, action, o, run_graph, &GraphOptions::file, "a CONFIG file");
}

void declare_replay(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReplayOptions>();
  CLI::App* sub =
      command(app, "replay", "run a recorded step again, and compare every bit",
              "  gradus graph mlp.json --record step.safetensors\n"
              "  gradus replay step.safetensors\n"
              "  gradus replay step.safetensors --shrink small.safetensors --until nan\n");
  text(sub, "FILE", o->file, "a trace file", "FILE");
  whole(sub, "--runs", o->runs, "repeat it: does it always give the same bits?");
  text(sub, "--shrink", o->shrink, "write the smallest part that still fails", "FILE");
  text(sub, "--until", o->until, "nan, inf, mismatch; differs:DEVICE beyond rounding", "WHAT");
  device(sub, o->device);
  json(sub, o->json);
  runs(sub, action, o, run_replay, &ReplayOptions::file, "a trace FILE");
}

void declare_diff(CLI::App& app, Action& action) {
  const auto o = std::make_shared<DiffOptions>();
  CLI::App* sub = command(app, "diff", "two steps, in structure and numbers",
                          "  gradus diff before.json after.json\n"
                          "  gradus diff step.safetensors step.safetensors --device-b cuda\n"
                          "  gradus diff mlp.json mlp.json --dtype-b f64\n");
  text(sub, "A", o->a, "a config, a script or a trace file", "FILE");
  text(sub, "B", o->b, "another, or the same", "FILE");
  text(sub, "--device-a", o->device_a, "run A there", "D");
  text(sub, "--device-b", o->device_b, "run B there", "D");
  text(sub, "--dtype-b", o->dtype_b, "f64: run B in f64", "T");
  of_script(sub, o->script);
  json(sub, o->json);
  runs(sub, action, o, run_diff, &DiffOptions::a, "two files");
}

void declare_step(CLI::App& app, Action& action) {
  const auto o = std::make_shared<StepOptions>();
  CLI::App* sub = command(app, "step", "a debugger for backward: one node at a time, and back",
                          "  gradus step configs/mlp/digits.json\n"
                          "  printf 'break nan\\ncontinue\\n' | gradus step mlp.json\n"
                          "  gradus step mlp.json --commands look.txt --json\n");
  of_step(sub, *o);
  text(sub, "--commands", o->commands, "a script of commands", "FILE");
  json(sub, o->json);
  runs(sub, action, o, run_step, &StepOptions::file, "a CONFIG file");
}

}  // namespace gradus::cli
