// What is read is checked: against the spec of its kind, and by checksums.
#include "cli/frame/events.hpp"
#include "cli/runs/run_files.hpp"

#include "cli/runs/form_file.hpp"
#include "engine/config/device_config.hpp"
#include "engine/files/file.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

// Of what a summary says without the sum itself.
std::string sum_of(Json summary) {
  summary.erase("crc32");
  return crc32_text(crc32_of(summary.dump()));
}

}  // namespace

void say_unreadable(const std::vector<std::string>& reasons, Reporter& reporter) {
  for (const std::string& reason : reasons)
    reporter.notice("gradus: a checkpoint cannot be read, an older one is used: " + reason);
}

void write_origins(const RunFolder& folder, const Layered& layers) {
  Event origins = Event::array();
  for (const Layered::Leaf& leaf : layers.leaves())
    origins.push_back({{"path", leaf.path}, {"value", leaf.value}, {"origin", leaf.origin}});
  write_file_atomically(folder.file(kOrigins), origins.dump(1) + "\n");
}

void write_summary(const RunFolder& folder, int64_t epochs, const ResultEvent& result) {
  Event summary{{"epochs", epochs}, {"result", Event::parse(to_json(result))}};
  summary["crc32"] = sum_of(Json::parse(summary.dump()));
  write_file_atomically(folder.file(kSummary), summary.dump(2) + "\n");
}

const Json* device_of(const Json& config) {
  return config.contains("device") ? &config["device"] : nullptr;
}

Json read_summary(const std::string& run_dir) {
  const auto number = [](const char* doc) { return Spec::number(doc).at_least(0); };
  const Spec result = Spec::object("what the run came to")
                          .with("event", Spec::string("result").one_of({"result"}))
                          .with("loss", Spec::number("on the test set"))
                          .maybe("accuracy", number("on the test set").at_most(1))
                          .maybe("rmse", number("of numbers, on the test set"))
                          .maybe("r2", Spec::number("of numbers, on the test set"))
                          .with("steps", Spec::integer("of the optimiser").at_least(0))
                          .with("seconds", number("that it took"))
                          .with("samples_per_second", number("over steps of the optimiser"))
                          .with("device", Spec::string("that it ran on"))
                          .with("run_dir", Spec::string("its folder"));
  const Spec spec = Spec::object("the summary of a run")
                        .with("epochs", Spec::integer("that it trained for").at_least(1))
                        .with("result", result)
                        .maybe("crc32", Spec::string("of the rest, on one line, keys sorted"));
  const std::string file = path_in(run_dir, kSummary);
  const Json summary = read_json(file, spec);
  if (summary.contains("crc32") && summary["crc32"] != sum_of(summary))
    fail(ErrorKind::io, file, "damaged: its values give the CRC-32 ", sum_of(summary), ", it says ",
         shown(summary["crc32"]));
  return summary;
}

std::vector<Layered::Leaf> read_origins(const std::string& run_dir) {
  const Spec leaf = Spec::object("a value")
                        .with("path", Spec::string("where it stands"))
                        .with("value", Spec::string("as JSON"))
                        .with("origin", Spec::string("where it came from"));
  std::vector<Layered::Leaf> out;
  for (const Json& e :
       read_json(path_in(run_dir, kOrigins), Spec::array(leaf, "a config's values")))
    out.push_back({e["path"].get<std::string>(), e["value"].get<std::string>(),
                   e["origin"].get<std::string>()});
  return out;
}

Json read_run_config(const std::string& run_dir) {
  check_run_folder(run_dir);
  const std::string file = path_in(run_dir, kConfig);
  Json config = read_json(file, network_spec());
  if (const Json* device = device_of(config)) check_found_device(*device, file);
  return config;
}

Experiment experiment_of(const std::string& run_dir, const std::string& data, Json& config) {
  config = read_run_config(run_dir);
  Experiment experiment = read_experiment(config, path_in(run_dir, kConfig));
  if (!data.empty()) experiment.data = tested_on(experiment.data, data);
  if (experiment.data.drawn()) experiment.data.train = 1;  // but not looked at
  return experiment;
}

Dataset test_data(const Experiment& experiment, const std::string& run_dir,
                  const std::string& data) {
  const auto kept = read_form(run_dir);
  if (experiment.data.own.test_only && !kept)
    fail(ErrorKind::io, path_in(run_dir, kFormFile), "is missing: it says how the data was scaled");
  Dataset out;
  try {
    out = load_data(experiment.data, kept ? &kept->form : nullptr);
  } catch (const Error& e) {
    if (!data.empty() || e.kind() != ErrorKind::io || !e.message().starts_with("cannot open"))
      throw;
    fail(e.kind(), e.op(), e.message(), "; the run's data has moved: --data says where to, and ",
         "GRADUS_DATA the folder of all data sets");
  }
  if (kept && data.empty() && experiment.data.own.any())
    check_samples(*kept, out, "--data names others to test on");
  return out;
}

Safetensors read_model(const std::string& file, Device& device) {
  Safetensors model = read_safetensors(file, device);
  const std::string& format = model.metadata["format"];
  if (!format.starts_with("gradus.model/"))
    fail(ErrorKind::io, file, "is no model of a run: ",
         format.empty() ? std::string("it names no format") : "its format is \"" + format + "\"",
         ", expected \"", kModelFormat, "\"");
  if (format == kModelFormat && !model.checked)
    fail(ErrorKind::io, file, "damaged: it lacks its checksum");
  return model;
}

nn::Sequential load_network(const Experiment& experiment, const Form& form,
                            const std::string& run_dir, Device& device, Reporter& reporter) {
  nn::Sequential network = build_network(experiment, form, device);
  const std::string model = path_in(run_dir, kModel);
  if (::access(path_in(run_dir, kSummary).c_str(), F_OK) == 0) {
    network.load(read_model(model, device).tensors, model);
    return network;
  }
  std::vector<std::string> unreadable;
  const auto checkpoint = newest_checkpoint(run_dir, device, &unreadable);
  say_unreadable(unreadable, reporter);
  if (!checkpoint) fail(ErrorKind::io, run_dir, "holds neither a finished model nor a checkpoint");
  reporter.notice(join("gradus: the run is not finished; using ", checkpoint->file));
  network.load(with_prefix(checkpoint->state.tensors, "model."), checkpoint->file);
  return network;
}

Layered layered_network(const std::string& file, const std::vector<std::string>& set) {
  Layered layers(network_spec());
  layers.add_file(file);
  // An optimizer that is not named is adam, so that a single key of it can be set.
  if (const Json& v = layers.merged(); v.is_object())
    if (!v.contains("optimizer") ||
        (v["optimizer"].is_object() && !v["optimizer"].contains("name")))
      layers.add_value({{"optimizer", {{"name", "adam"}}}}, "default");
  layers.add_environment("GRADUS_", {"device"}, {"data"});  // GRADUS_DATA is a folder of them
  for (const std::string& assignment : set) layers.set(assignment);
  if (!layers.merged().is_object())
    fail(ErrorKind::config, file, "a config is a JSON object, this is ", shown(layers.merged()));
  if (layers.merged().value("experiment", Json()) == "contraction")
    fail(ErrorKind::config, file, "experiment: \"contraction\" is run by `gradus contract ", file,
         "`");
  return layers;
}

}  // namespace gradus::cli
