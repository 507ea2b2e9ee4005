// From a config to a finished run folder: which device, which folder, from the beginning or from a
// checkpoint. The training itself is the loop's.
#include "cli/frame/events.hpp"
#include "cli/train/train.hpp"

#include "cli/runs/form_file.hpp"
#include "cli/report/report.hpp"
#include "cli/runs/run_files.hpp"
#include "cli/frame/session.hpp"
#include "cli/train/train_loop.hpp"
#include "engine/files/file.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

constexpr const char* kTuning = "tuning.json";

// The first path at which two configs differ, or "".
std::string difference(const Json& a, const Json& b, const std::string& path) {
  if (a == b) return "";
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key)) return path_key(path, key);
      const std::string below = difference(value, b[key], path_key(path, key));
      if (!below.empty()) return below;
    }
    for (const auto& [key, value] : b.items())
      if (!a.contains(key)) return path_key(path, key);
  }
  if (a.is_array() && b.is_array() && a.size() == b.size())
    for (size_t i = 0; i < a.size(); ++i) {
      const std::string below = difference(a[i], b[i], path_index(path, i));
      if (!below.empty()) return below;
    }
  return path;
}

const Json& at_path(const Json& config, const std::string& path) {
  static const Json missing = "nothing";
  std::string pointer;
  for (const char c : path)
    if (c == '.' || c == '[')
      pointer += '/';
    else if (c != ']')
      pointer += c;
  const Json::json_pointer p("/" + pointer);
  return config.contains(p) ? config[p] : missing;
}

// A run may go on with another device or number of epochs, captured or not, and with what changes
// nothing of it.
void check_same(Json before, Json now, const Layered& layers) {
  for (const char* key :
       {"device", "epochs", "capture", "health", "log_every", "provenance", "report"}) {
    before.erase(key);
    now.erase(key);
  }
  const std::string path = difference(before, now, "");
  if (!path.empty())
    fail(ErrorKind::config, layers.origin(path), path, ": the run was started with ",
         shown(at_path(before, path)), ", now it is ", shown(at_path(now, path)),
         "; only device, epochs, capture, health, log_every, provenance and report may change on "
         "--resume");
}

// "configs/mlp/digits.json" -> "digits".
std::string stem(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  if (const size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.erase(dot);
  return name.empty() ? "run" : name;
}

// The result of a run that is finished at this number of epochs.
std::optional<ResultEvent> finished(const RunFolder& folder, int64_t epochs) {
  if (!folder.has(kSummary) || !folder.has(kModel)) return std::nullopt;
  const Json summary = read_summary(folder.path());
  if (summary["epochs"] != epochs) return std::nullopt;
  const Json& r = summary["result"];
  return ResultEvent{score_from(r),
                     r["steps"],
                     r["seconds"],
                     r["samples_per_second"],
                     r["device"].get<std::string>(),
                     r["run_dir"].get<std::string>()};
}

void write_results(const RunFolder& folder, Trainer& trainer, const ResultEvent& result,
                   int64_t epochs) {
  write_safetensors(folder.file(kModel), trainer.network().state(), {{"format", kModelFormat}});
  write_summary(folder, epochs, result);
}

// A process that ended between summary and report left a finished run without one.
void add_report(const RunFolder& folder, Device& device, Reporter& reporter) {
  if (folder.has("curves.svg") && folder.has("report.html")) return;
  try {
    Json config;
    const Experiment experiment = experiment_of(folder.path(), "", config);
    reporter.json_line(to_json(report_again(folder.path(), experiment, "", device, reporter)));
  } catch (const Error& e) {
    reporter.notice(join("gradus: no report: ", e.what()));
  }
}

RunFolder open_folder(const TrainOptions& options) {
  return options.out.empty() ? RunFolder::open_numbered(stem(options.config), options.resume)
                             : RunFolder::open(options.out, options.resume);
}

// Bits depend on the ways of contracting, so a run keeps those that it began with.
void keep_tuning(const RunFolder& folder, Session& session, bool goes_on) {
  const std::string file = folder.file(kTuning), device = tuning_name(session.device());
  if (goes_on) return session.tune(read_tuning(file, device));
  ::unlink(file.c_str());
  if (session.tuning().changes() > 0) write_tuning(file, device, session.tuning());
}

// What a run shows for itself. One that failed (`why`) has no predictions, but its curves say how
// it failed. A report that can't be made costs a line, and not the result.
void report_run(const RunFolder& folder, const Experiment& experiment, const Dataset& data,
                Trainer& trainer, Device& device, const std::string& why, Reporter& reporter) {
  if (!experiment.report) return;
  try {
    ReportData report{&data, {}, why, text_of(device)};
    Progress progress(reporter.people(), "predicting", "samples");
    if (why.empty())
      report.test =
          predict(trainer.network(), experiment.loss, data, data.test, device, std::ref(progress));
    progress.clear();
    reporter.json_line(to_json(write_report(folder.path(), report)));
  } catch (const Error& e) {
    reporter.notice(join("gradus: no report: ", e.what()));
  }
}

std::string result_json(const Score& score, int64_t samples, double seconds, Device& device,
                        const std::string& run_dir) {
  Event e{{"event", "result"}};
  add_to(e, score);
  e["samples"] = samples;
  e["seconds"] = seconds;
  e["samples_per_second"] = double(samples) / seconds;
  e["device"] = device.name();
  e["run_dir"] = run_dir;
  return e.dump();
}

}  // namespace

int run_train(const TrainOptions& options, std::ostream& out, std::ostream& err) {
  Reporter reporter(out, err, options.json);
  const Layered layers = layered_network(options.config, options.set);
  Json config = layers.resolve();
  const Experiment experiment = read_experiment(config, options.config);
  Session session(options.device, options.ledger, err, device_of(config), options.config);
  Device& device = session.device();
  if (options.opened) options.opened(device);
  config["device"] = device.name();

  std::optional<RunFolder> made;
  std::optional<RunFolder::Checkpoint> checkpoint;
  if (options.resume) {
    made = open_folder(options);
    std::vector<std::string> unreadable;
    checkpoint = made->newest_checkpoint(device, &unreadable);
    say_unreadable(unreadable, reporter);
    // Where nothing was saved, the run begins anew, by whatever config.
    if (checkpoint && made->has(kConfig)) check_same(read_run_config(made->path()), config, layers);
    if (const auto result = finished(*made, experiment.epochs)) {
      reporter.notice(join("gradus: ", made->path(), " is finished; nothing to do"));
      if (experiment.report) add_report(*made, device, reporter);
      reporter.result(*result);
      return 0;
    }
  }
  // A new folder is made last, so that a run that cannot begin leaves nothing behind.
  const Dataset data = load_data(experiment.data);
  if (checkpoint)
    if (const auto kept = read_form(made->path()))
      check_samples(*kept, data, "put them back, or begin a new run");
  Trainer trainer(experiment, data, device);
  if (!made) made = open_folder(options);
  RunFolder& folder = *made;

  TrainLoop loop(trainer, experiment, device, reporter, &folder);
  if (checkpoint)
    loop.restore(*checkpoint);
  else
    folder.cut_metrics(0);
  keep_tuning(folder, session, checkpoint.has_value());
  // From here on the folder is that of an unfinished run.
  for (const char* result : {kSummary, "curves.svg", "report.html"})
    ::unlink(folder.file(result).c_str());
  write_file_atomically(folder.file(kConfig), config.dump(2) + "\n");
  write_origins(folder, layers);
  write_form(folder.path(), data);

  reporter.start({device.name(), folder.path(), nn::count(trainer.network().parameters()),
                  data.train.count, data.test.count, experiment.epochs, trainer.batches_per_epoch(),
                  checkpoint ? trainer.steps() : -1, experiment.kind});
  ResultEvent result;
  try {
    result = loop.run();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::numeric) {
      // Losses are read some steps after they were computed.
      const int64_t step = trainer.failed_step() > 0 ? trainer.failed_step() : trainer.steps();
      folder.append_metrics(
          Event{{"event", "failed"}, {"step", step}, {"message", e.what()}}.dump());
    }
    report_run(folder, experiment, data, trainer, device, e.what(), reporter);
    throw;
  }
  write_results(folder, trainer, result, experiment.epochs);
  report_run(folder, experiment, data, trainer, device, "", reporter);
  reporter.result(result);
  if (folder.has("report.html") && !options.json)
    out << "look at " << folder.file("report.html") << "\n";
  return 0;
}

int run_eval(const EvalOptions& options, std::ostream& out, std::ostream& err) {
  Reporter reporter(out, err, options.json);
  Json config;
  const Experiment experiment = experiment_of(options.run_dir, options.data, config);
  const Session session(options.device, false, err, device_of(config),
                        path_in(options.run_dir, kConfig));
  Device& device = session.device();
  const Dataset data = test_data(experiment, options.run_dir, options.data);
  nn::Sequential network = load_network(experiment, data, options.run_dir, device, reporter);

  const auto begin = std::chrono::steady_clock::now();
  Progress progress(err, "evaluating", "samples");
  const Score score =
      evaluate(network, experiment.loss, data, data.test, device, std::ref(progress));
  progress.clear();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double rate = double(data.test.count) / seconds;
  if (options.json)
    reporter.json_line(result_json(score, data.test.count, seconds, device, options.run_dir));
  else
    out << text_of(score) << ", loss " << loss_text(score.loss) << " on " << data.test.count
        << " samples (" << short_number(rate) << " samples/s on " << device.name() << ")\n";
  return 0;
}

}  // namespace gradus::cli
