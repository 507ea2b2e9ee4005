// Knows the three option tables (network, contraction, device) and nothing of what they mean.
#include "cli/config_command.hpp"

#include "cli/contract/contract.hpp"
#include "cli/contract/expression.hpp"
#include "ops/train/experiment.hpp"
#include "cli/runs/run_files.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/device/device.hpp"
#include "engine/config/device_config.hpp"
#include "engine/config/layered.hpp"
#include "engine/base/text.hpp"
#include "ops/contract/equation.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

Spec experiment_spec() {
  return Spec::any_of({network_spec(), contraction_spec()},
                      "an experiment: network or contraction");
}

Spec spec_of(const std::string& kind) {
  if (kind == "network" || kind == "mlp") return network_spec();
  if (kind == "contraction") return contraction_spec();
  if (kind == "device") return device_object_spec();
  if (kind == "experiment") return experiment_spec();
  const std::vector<std::string> known{"experiment", "network", "mlp", "contraction", "device"};
  fail(ErrorKind::config, "config schema", "there is no config of kind \"", kind, "\"",
       did_you_mean(kind, known),
       "; there are experiment, network (or mlp), contraction and device");
}

// The kind of a config file: what its key "experiment" says; without one it is a device's.
std::string kind_of(const std::string& file) {
  const Json config = read_config(file);
  if (!config.is_object())
    fail(ErrorKind::config, file, "a config is a JSON object, this is ", shown(config));
  if (!config.contains("experiment")) {
    if (config.contains("device") || config.empty() || config.contains("modules") ||
        config.contains("fallback") || config.contains("threads"))
      return "device";
    fail(ErrorKind::config, file, "experiment: missing; one of \"network\", \"contraction\"");
  }
  const Json& kind = config["experiment"];
  if (kind == "mlp") return "network";
  if (kind == "network" || kind == "contraction") return kind;
  const std::vector<std::string> known{"network", "mlp", "contraction"};
  const std::string text = kind.is_string() ? kind.get<std::string>() : "";
  fail(ErrorKind::config, file, "experiment: ", shown(kind),
       " is not one of \"network\", \"contraction\"", did_you_mean(text, known));
}

Layered layers_of(const ConfigOptions& options, const std::string& kind) {
  if (kind == "network") return layered_network(options.file, options.set);
  Layered layers(spec_of(kind));
  layers.add_file(options.file);
  if (kind != "device") layers.add_environment("GRADUS_", {"device"}, {"data"});
  for (const std::string& assignment : options.set) layers.set(assignment);
  return layers;
}

// What a table cannot say: the values taken together.
void check_meaning(const Json& config, const std::string& kind, const std::string& file) {
  if (kind == "network") read_experiment(config, file);
  if (kind != "contraction") return;
  refuse_unclear(config, file);
  if (config.contains("network")) return;
  try {
    parse_equation(config["expression"].get<std::string>());
  } catch (const Error& e) {
    fail(ErrorKind::config, file, "expression: ", e.message());
  }
}

// Shapes are those of one sample, on the CPU. Data that is not here leaves them unchecked.
void check_shapes(const Json& config, const std::string& file, std::ostream& err) {
  const Experiment experiment = read_experiment(config, file);
  Dataset data;
  try {
    data = probe_data(experiment.data);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::io) throw;
    err << printable(join("gradus: the shapes are not checked: ", e.what())) << "\n";
    return;
  }
  try {
    build_network(experiment, data, open_device("cpu"));
  } catch (const Error& e) {
    fail(e.kind(), file, e.what());
  }
}

void show(const ConfigOptions& options, std::ostream& out) {
  const std::string kind = kind_of(options.file);
  const Layered layers = layers_of(options, kind);
  const Json config = layers.resolve();
  check_meaning(config, kind, options.file);
  // The device has layers of its own: GRADUS_DEVICE, the config, gradus.json in the working folder.
  std::vector<std::string> warnings;
  const Json* own = kind == "device"            ? &config
                    : config.contains("device") ? &config["device"]
                                                : nullptr;
  const DeviceConfig device = resolve_device_config("", own, options.file, &warnings);
  if (options.json) {
    Json origins = Json::object();
    for (const Layered::Leaf& leaf : layers.leaves()) origins[leaf.path] = leaf.origin;
    out << Json{{"event", "config"},        {"kind", kind},
                {"config", config},         {"origins", origins},
                {"runs_on", device.device}, {"runs_on_origin", device.origin}}
               .dump()
        << "\n";
    return;
  }
  for (const Layered::Leaf& leaf : layers.leaves())
    out << printable(join(leaf.path, " = ", leaf.value, "    (", leaf.origin, ")")) << "\n";
  out << "runs on " << device.device << "    (" << device.origin << ")\n";
}

}  // namespace

int run_config(const ConfigOptions& options, std::ostream& out, std::ostream& err) {
  switch (options.action) {
    case ConfigOptions::Action::show:
      show(options, out);
      break;
    case ConfigOptions::Action::schema: {
      const std::string kind = options.kind.empty() ? "experiment" : options.kind;
      const Json schema = json_schema(spec_of(kind), "gradus " + kind);
      const Verbatim as_is(out);
      out << (options.json ? schema.dump() : schema.dump(2)) << "\n";
      break;
    }
    case ConfigOptions::Action::validate: {
      const std::string kind = kind_of(options.file);
      const Json config = layers_of(options, kind).resolve();
      check_meaning(config, kind, options.file);
      if (kind == "network") check_shapes(config, options.file, err);
      if (options.json)
        out << Json{{"event", "result"}, {"file", options.file}, {"kind", kind}, {"valid", true}}
                   .dump()
            << "\n";
      else
        out << options.file << ": a valid config (" << kind << ")\n";
      break;
    }
  }
  return 0;
}

}  // namespace gradus::cli
