// A script that is ended in the middle, with its graph kept.
#include "cli/look/one_step_script.hpp"

#include "cli/script/script_host.hpp"
#include "engine/graph.hpp"
#include "engine/files/file.hpp"
#include "engine/random.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <iostream>

namespace gradus::inline v1::cli {

bool is_script(const std::string& file) { return file.ends_with(".lua"); }

void refuse_script_options(const ScriptTarget& given, const std::string& file) {
  const ScriptTarget none;
  for (const auto& [flag, typed] : {std::pair("--backward", given.backward != none.backward),
                                    {"--arg", !given.arguments.empty()},
                                    {"--unsafe", given.sandbox.unsafe},
                                    {"--allow-read", !given.sandbox.read.empty()},
                                    {"--allow-write", !given.sandbox.write.empty()},
                                    {"--max-memory", !given.sandbox.memory.empty()},
                                    {"--max-seconds", given.seconds != 0},
                                    {"--max-instructions", given.instructions != 0}})
    if (typed) fail(ErrorKind::config, flag, "belongs to scripts; ", file, " is none");
}

OneStep script_step(const OneStepConfig& config, Device& device,
                    const std::function<void()>& ready) {
  const int64_t wanted = config.script.backward;
  if (!config.set.empty())
    fail(ErrorKind::config, "--set", "belongs to configs of networks; ", config.file,
         " is a script (its arguments are given with --arg)");
  if (wanted < 1) fail(ErrorKind::config, "--backward", "expected 1 or more, got ", wanted);
  OneStep step;
  int64_t walks = 0;
  uint64_t begun = 0;  // the number that the first node under the watch could have
  const auto begin = [&] {
    const EnableGrad on;
    begun = neg(Tensor::zeros({}, DType::f32, device).set_requires_grad()).grad_fn()->sequence();
    ready();
  };
  lua::ScriptOptions options = script_options(config.script.sandbox, device, std::cerr);
  options.limits.seconds = config.script.seconds;
  options.limits.instructions = uint64_t(config.script.instructions);
  options.arguments = config.script.arguments;
  options.folder = folder_of(config.file);
  static std::ostream nowhere(nullptr);
  options.out = config.script.quiet ? &nowhere : &std::cerr;
  options.looking = [&](const Tensors& roots, const Tensors& seeds, lua::Moment moment) {
    if (moment == lua::Moment::walked) {
      if (++walks == wanted - 1) begin();
      return false;
    }
    if (moment == lua::Moment::backward && walks + 1 < wanted) return false;
    for (const Tensor& r : roots)
      if (!r.requires_grad()) return false;  // backward itself says what is wrong
    step.roots = roots;
    step.seeds = seeds;
    return true;
  };
  manual_seed(0);  // each run of the script draws what a fresh process draws
  const auto script = std::make_shared<lua::Script>(options);
  if (wanted == 1) begin();
  const ScriptInterrupt interruptible(*script, options.limits.seconds);
  with_traceback(std::cerr, [&] {
    const std::string& code = config.script.code;
    script->run(code.empty() ? read_file(config.file, kMaxText) : code, config.file);
  });
  if (step.roots.empty())
    fail(ErrorKind::config, config.file, "it called backward() or gradus.grad() ", walks,
         " times, and number ", wanted,
         " was asked for (gradus.audit.backward, check and stepper count, gradus.func does not); ",
         "a line gradus.audit.mark(y) hands over the graph of any y");
  const auto nodes = audit::nodes_behind(step.roots);
  const auto older = std::count_if(nodes.begin(), nodes.end(),
                                   [&](const Ref<GradFn>& n) { return n->sequence() < begun; });
  step.unwatched = size_t(older);
  if (older > 0)
    std::cerr << "gradus: " << older << " of " << nodes.size() << " nodes are older than the walk "
              << "before this one and were not watched; gradus.audit.mark(y) in the script is seen "
              << "with all before it\n";
  step.leaves = script->leaves();
  step.keeps = script;
  step.source = [script](const std::string& place) { return script->source(place); };
  return step;
}

}  // namespace gradus::cli
