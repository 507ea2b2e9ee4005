// A network's step is that of a Trainer, without the optimiser.
#include "cli/look/one_step.hpp"

#include "ops/train/batches.hpp"
#include "cli/contract/contract.hpp"
#include "cli/contract/contract_verify.hpp"
#include "cli/contract/expression.hpp"
#include "ops/train/experiment.hpp"
#include "cli/look/one_step_script.hpp"
#include "cli/runs/run_files.hpp"
#include "engine/graph.hpp"
#include "engine/files/file.hpp"
#include "engine/random.hpp"
#include "ops/audit/step/trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace gradus::inline v1::cli {

namespace {

// What a config says of "layers[1] conv2d" or of "loss".
std::string source_in(const Json& config, const std::string& place) {
  const std::string path = place.substr(0, place.find(' '));
  if (path == "loss") return "\"loss\": " + config["loss"].dump();
  const Json* at = &config["model"];
  size_t end = 0, from = 0;
  while (from < path.size()) {
    size_t to = std::min(path.find_first_of(".[]", from), path.size());
    const std::string key = path.substr(from, to - from);
    const bool index = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
    // The layers of a "repeat" are those of its list, over and over.
    if (index && at->is_object() && at->contains("layers")) at = &(*at)["layers"];
    if (index && at->is_array() && !at->empty())
      at = &(*at)[std::stoul(key) % at->size()];
    else if (!key.empty() && at->is_object() && at->contains(key))
      at = &(*at)[key];
    else if (!key.empty())
      break;
    end = std::min(to + (path[to] == ']'), path.size());
    from = to + 1;
  }
  if (end == 0) return "";
  return "model." + path.substr(0, end) + ": " + at->dump();
}

OneStep network_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready) {
  const Json resolved = layered_network(config.file, config.set).resolve();
  const Experiment e = read_experiment(resolved, config.file);
  const Dataset data = load_data(e.data);
  manual_seed(e.seed);
  nn::Sequential network = build_network(e, data, device);
  std::vector<int64_t> order(size_t(data.train.count));
  std::iota(order.begin(), order.end(), int64_t(0));
  if (e.shuffle) order = epoch_order(data.train.count, e.seed, 0);
  order.resize(size_t(std::min(e.batch_size, data.train.count)));
  Batches batches(data, data.train, device);
  const auto& batch = batches.fill(order);
  default_generator().begin_step();
  ready();
  const Tensor outputs = nn::outputs_of(network, batch.inputs);
  const Trace trace("loss");
  OneStep step{{nn::loss_of(e.loss, outputs, batch.targets)}, network.parameters()};
  step.source = [resolved](const std::string& place) { return source_in(resolved, place); };
  return step;
}

OneStep contraction_step(const OneStepConfig& config, Device& device,
                         const std::function<void()>& ready) {
  if (!config.set.empty())
    fail(ErrorKind::config, "--set", "belongs to configs of networks; ", config.file,
         " is a contraction");
  Contraction c = drawn_contraction(config.file, device);
  OneStep step;
  for (size_t k = 0; k < c.operands.size(); ++k)
    step.leaves.emplace_back(join("operand", int64_t(k)), c.operands[k].set_requires_grad());
  ready();
  const Tensor value = einsum(c.plan, c.operands, c.algebra);
  step.roots.push_back(c.repeated ? on_diagonals(value, *c.repeated) : value);
  return step;
}

OneStep recorded_step(const OneStepConfig& config, Device& device,
                      const std::function<void()>& ready) {
  if (!config.set.empty())
    fail(ErrorKind::config, "--set", "belongs to configs of networks; ", config.file,
         " is a recorded step");
  const audit::RecordedStep step = audit::read_trace(config.file, device);
  {
    // What is wrong with the file is found before anybody looks on, and is no fault of the command.
    const Unwatched quiet;
    audit::run_again(step, device);
  }
  ready();
  const audit::LiveStep live = audit::run(step, device);
  return {live.roots, live.leaves, live.seeds, 0, true};
}

bool is_recorded(const std::string& file) {
  return file.ends_with(".safetensors") || audit::is_trace(file);
}

Json config_in(const std::string& file) {
  const std::string text = read_text(file);
  if (text.empty())
    fail(ErrorKind::io, file,
         "is empty; expected a config (JSON), a script (.lua) or a recorded step (.safetensors)");
  return parse_json(text, file);
}

}  // namespace

Json config_device(const std::string& file) {
  if (is_script(file)) return nullptr;
  if (is_recorded(file)) return audit::device_of_trace(file);
  const Json config = config_in(file);
  return config.is_object() ? config.value("device", Json()) : Json();
}

OneStep run_one_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready) {
  if (is_script(config.file)) return script_step(config, device, ready);
  refuse_script_options(config.script, config.file);
  if (is_recorded(config.file)) return recorded_step(config, device, ready);
  const Json json = config_in(config.file);
  const bool contraction = json.is_object() && json.value("experiment", Json()) == "contraction";
  return contraction ? contraction_step(config, device, ready)
                     : network_step(config, device, ready);
}

OneStep run_traced_step(const OneStepConfig& config, Device& device,
                        const std::function<void()>& ready) {
  std::optional<DetectAnomaly> traces;
  return run_one_step(config, device, [&] {
    traces.emplace();
    ready();
  });
}

std::unique_ptr<Session> open_session(const OneStepConfig& config, std::ostream& err) {
  const Json named = config_device(config.file);
  return std::make_unique<Session>(config.device, false, err, named.is_null() ? nullptr : &named,
                                   config.file);
}

}  // namespace gradus::cli
