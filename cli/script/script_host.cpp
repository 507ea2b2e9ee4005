// Doors from a script to the program's own parts, and what surrounds its run.
#include "cli/script/script_host.hpp"

#include "ops/train/batches.hpp"
#include "cli/frame/devices.hpp"
#include "ops/train/experiment.hpp"
#include "cli/frame/progress.hpp"
#include "cli/runs/run_files.hpp"
#include "cli/train/train.hpp"
#include "engine/config/options.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/time.h>

namespace gradus::inline v1::cli {

namespace {

constexpr size_t kMemory = size_t(2) << 30;  // in the sandbox, unless --max-memory says another

std::atomic<lua::Script*> running = nullptr;

void check_data(const Experiment& experiment, const lua::Paths& paths) {
  if (!experiment.data.idx.empty()) paths.check_folder(experiment.data.idx, lua::Access::read);
  for (const std::string& file : files_of(experiment.data.own))
    paths.check(file, lua::Access::read);
  for (const std::string& folder : folders_of(experiment.data.own)) {
    paths.check_folder(folder, lua::Access::read);
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
      if (entry.is_directory()) paths.check_folder(entry.path(), lua::Access::read);
  }
}

// gradus.data{name = "digits", train = 600, test = 100} or {idx = DIR}: inputs (pixels in [0, 1],
// tokens, or numbers as they are scaled) and labels, from 0, of both parts; of numbers that are
// told the targets.
lua::Answer data_door(const std::string& json, const lua::Bounds& bounds, Device& device) {
  Json config{
      {"experiment", "network"}, {"data", Json::parse(json)}, {"model", {{"layers", {"relu"}}}}};
  const Experiment experiment =
      read_experiment(check(network_spec(), config, "gradus.data"), "gradus.data");
  check_data(experiment, bounds.paths);
  const Dataset data = load_data(experiment.data);
  lua::Answer out;
  const auto add = [&](const std::string& name, const Samples& set) {
    const Batches::Batch batch = whole_set(data, set, device);
    out.tensors.emplace_back(name + "_inputs", batch.inputs);
    out.tensors.emplace_back(name + (data.classifies() ? "_labels" : "_targets"), batch.targets);
  };
  add("train", data.train);
  add("test", data.test);
  out.json = Json{{"name", data.name},
                  {"classes", data.classes},
                  {"rows", data.rows()},
                  {"cols", data.cols()}}
                 .dump();
  return out;
}

// A device of an experiment may name code to load, or another limit of memory: not in the sandbox.
// Nor may a config lead to data that the script could not read itself.
void check_harmless(const TrainOptions& o, const lua::Paths& paths) {
  paths.check(o.config, lua::Access::read);
  paths.check_folder(o.out.empty() ? "runs" : o.out, lua::Access::write);
  const Json config = layered_network(o.config, o.set).resolve();
  check_data(read_experiment(config, o.config), paths);
  const auto plain = [](const std::string& s) {
    return s.find_first_of("{/.") == std::string::npos;
  };
  const Json device = config.value("device", Json(""));
  if (!plain(o.device) ||
      !(device.is_number() || (device.is_string() && plain(device.get<std::string>()))))
    fail(ErrorKind::value, "experiment",
         "in the sandbox a device is a name such as cuda:0; run the script with --unsafe");
}

// gradus.experiment(FILE) or gradus.experiment{config = FILE, set = {"epochs=1"}, out = DIR}:
// trains as `gradus train` does, and gives its result.
lua::Answer experiment_door(const std::string& json, const lua::Bounds& bounds, bool sandboxed,
                            std::ostream& err) {
  const Json given = Json::parse(json);
  TrainOptions o;
  o.json = true;
  o.opened = bounds.device;
  if (given.is_string())
    o.config = given.get<std::string>();
  else
    for (const auto& [key, value] : given.items())
      if (key == "config" && value.is_string())
        o.config = value.get<std::string>();
      else if (key == "out" && value.is_string())
        o.out = value.get<std::string>();
      else if (key == "device" && value.is_string())
        o.device = value.get<std::string>();
      else if (key == "set" && (value.is_array() || value.empty()) &&
               std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }))
        for (const Json& v : value) o.set.push_back(v.get<std::string>());
      else
        fail(ErrorKind::value, "experiment", "there is no option \"", key,
             "\" of that kind; config, out, device (texts) and set (texts)");
  if (o.config.empty()) fail(ErrorKind::value, "experiment", "expected the file of a config");
  if (sandboxed) check_harmless(o, bounds.paths);
  std::ostringstream lines;
  run_train(o, lines, err);
  if (!lines) throw std::bad_alloc();  // a stream keeps that to itself
  lua::Answer out;
  std::istringstream in(lines.str());
  for (std::string line; std::getline(in, line);)
    if (Json event = Json::parse(line); event["event"] == "result") out.json = line;
  return out;
}

}  // namespace

lua::ScriptOptions script_options(const Sandbox& sandbox, Device& device, std::ostream& err) {
  lua::ScriptOptions options;
  const bool sandboxed = !sandbox.unsafe;
  options.unsafe = sandbox.unsafe;
  options.read = sandbox.read;
  options.write = sandbox.write;
  options.limits.memory =
      sandbox.memory.empty() ? (sandboxed ? kMemory : 0) : byte_size(Json(sandbox.memory));
  options.device = &device;
  options.doors["data"] = [&device](const std::string& json, const lua::Bounds& bounds) {
    return data_door(json, bounds, device);
  };
  options.doors["devices"] = [](const std::string& json, const lua::Bounds&) {
    if (json != "null")
      fail(ErrorKind::value, "devices",
           "takes no arguments; gradus.available(\"cuda\") asks for one");
    lua::Answer out;
    Json all = Json::array();
    for (Json& device : survey_devices()) {
      device.erase("event");
      all.push_back(std::move(device));
    }
    out.json = all.dump();
    return out;
  };
  options.network = [](const std::string& layers, Tensor probe) {
    const Json checked =
        check(Spec::array(layer_spec(), "layers"), Json::parse(layers), "gradus.nn");
    return build_layers(read_layers(checked), probe, "layers");
  };
  options.doors["experiment"] = [&err, sandboxed](const std::string& json,
                                                  const lua::Bounds& bounds) {
    return experiment_door(json, bounds, sandboxed, err);
  };
  if (const auto bar = std::make_shared<ProgressBar>(err); bar->shown())
    options.progress = [bar](const lua::LoopState* loop) {
      if (!loop) return bar->clear();
      if (loop->done == 0 || loop->seconds <= 0) return;  // no rate yet
      const double rate = double(loop->done) / loop->seconds;
      bar->draw(loop->text, loop->done, loop->total, rate, "steps",
                double(loop->total - loop->done) / rate, loop->values);
    };
  return options;
}

namespace {
void alarm_after(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = time_t(seconds);
  timer.it_value.tv_usec = suseconds_t((seconds - std::floor(seconds)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}
}  // namespace

ScriptInterrupt::ScriptInterrupt(lua::Script& script, double seconds) {
  running = &script;
  struct sigaction action {};
  action.sa_flags = SA_RESETHAND;  // a second one ends the process, whatever it is in
  action.sa_handler = [](int) {
    if (lua::Script* const s = running) s->interrupt();
  };
  ::sigaction(SIGINT, &action, &before_);
  // Lua looks at the clock now and then; few ops may take long.
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    if (lua::Script* const s = running) s->look_at_clock();
  };
  ::sigaction(SIGALRM, &action, &clock_before_);
  alarm_after(std::min(seconds, 1e8));
}
ScriptInterrupt::~ScriptInterrupt() {
  alarm_after(0);
  ::sigaction(SIGALRM, &clock_before_, nullptr);
  ::sigaction(SIGINT, &before_, nullptr);
  running = nullptr;
}

void with_traceback(std::ostream& err, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    const size_t end = e.message().find("\nstack traceback:");
    if (end == std::string::npos) throw;
    err << e.message().substr(end + 1) << "\n";
    fail(e.kind(), e.op(), e.message().substr(0, end));
  }
}

}  // namespace gradus::cli
