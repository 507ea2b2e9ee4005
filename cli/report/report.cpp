// Reads what a run wrote into its folder, and asks its network about the test set.
#include "cli/report/report_page.hpp"

#include "cli/report/curves.hpp"
#include "cli/frame/devices.hpp"
#include "cli/frame/events.hpp"
#include "ops/train/outputs.hpp"
#include "cli/frame/progress.hpp"
#include "cli/report/report_health.hpp"
#include "cli/runs/run_folder.hpp"
#include "cli/frame/session.hpp"
#include "bindings/cpp/start.hpp"
#include "cli/runs/run_files.hpp"
#include "engine/files/file.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

bool exists(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

// What metrics.jsonl says.
struct Metrics {
  std::vector<ReportEpoch> epochs;
  Chart loss{"loss", "step", {}, "step without an update: a gradient overflowed", {}, false};
  Chart quality{"accuracy on the test set", "step", {}, "", {}, true};
  int64_t skipped = 0, unreadable = 0;
  std::vector<Json> health{};
  std::string trouble{};            // of one that diverges, or learns nothing
  std::string failure{};            // of a run that came to numbers that are none
  std::string cause{}, at_fault{};  // where they come from; the file that holds that step
};

// A number that is not finite was written as null.
double number_of(const Json& event, const char* key) {
  const auto at = event.find(key);
  return at != event.end() && at->is_number() ? at->get<double>() : std::nan("");
}

// The last part of a path.
std::string name_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

void add_epoch(const Json& e, const std::vector<ReportEpoch>& before, Metrics& m) {
  ReportEpoch epoch;
  epoch.epoch = e.at("epoch").get<int64_t>();
  epoch.step = e.at("step").get<int64_t>();
  epoch.skipped = e.value("skipped", int64_t(0));
  epoch.train_loss = number_of(e, "train_loss");
  epoch.score = score_from(e);
  epoch.lr = number_of(e, "lr");
  epoch.samples_per_second = number_of(e, "samples_per_second");
  epoch.seconds = number_of(e, "seconds");
  for (const ReportEpoch& b : before) epoch.seconds -= b.seconds;
  m.epochs.push_back(epoch);
}

Metrics read_metrics(const std::string& file) {
  Metrics m;
  Curve steps{"training, a step", Curve::Style::thin, {}};
  std::istringstream lines(exists(file) ? read_file(file, kMaxMetrics) : "");
  for (std::string line; std::getline(lines, line);) {
    const Json e = Json::parse(line, nullptr, false);
    try {
      const auto kind = e.at("event").get<std::string>();
      const auto step = e.at("step").get<double>();
      if (kind == "step") steps.points.emplace_back(step, number_of(e, "train_loss"));
      if (kind == "failed") {
        steps.points.emplace_back(step, std::nan(""));
        m.failure = e.at("message").get<std::string>();
      }
      if (kind == "provenance") {
        m.cause = provenance_text(e);
        m.at_fault = name_of(e.value("file", ""));
      }
      if (kind == "trouble") m.trouble = e.at("message").get<std::string>();
      if (kind == "health") m.health.push_back(e);
      if (kind == "skip") m.loss.events.push_back(step);
      if (kind == "epoch") add_epoch(e, m.epochs, m);
    } catch (const Json::exception&) {
      ++m.unreadable;  // the last line of a process that was killed
    }
  }
  Curve mean{"training, mean of an epoch", Curve::Style::dots, {}};
  Curve test{"test", Curve::Style::squares, {}}, right{"test", Curve::Style::squares, {}};
  for (const ReportEpoch& e : m.epochs) {
    mean.points.emplace_back(e.step, e.train_loss);
    test.points.emplace_back(e.step, e.score.loss);
    right.points.emplace_back(e.step, e.score.of_numbers ? e.score.r2 : e.score.accuracy);
    if (e.score.of_numbers) {
      m.quality.title = "R2 on the test set";
      m.quality.percent = false;
    }
  }
  m.skipped = int64_t(m.loss.events.size());
  m.loss.curves = {steps, mean, test};
  m.quality.curves = {right};
  return m;
}

std::vector<ReportEntry> config_of(const std::string& run_dir) {
  std::vector<ReportEntry> out;
  if (exists(path_in(run_dir, "origins.json")))
    for (const Layered::Leaf& l : read_origins(run_dir)) out.push_back({l.path, l.value, l.origin});
  else
    for (const auto& [path, value] : leaves_of(read_run_config(run_dir)))
      out.push_back({path, value, ""});
  return out;
}

std::string result_words(const Score& s) {
  return join(s.of_numbers ? text_of(s) + " on the test set"
                           : percent(s.accuracy) + " of the test set right",
              ", loss ", loss_text(s.loss));
}

// How the run ended, or how far it has come.
std::string headline(const Json& summary, const Metrics& m) {
  if (!summary.is_null()) {
    const Json& result = summary["result"];
    return join(result_words(score_from(result)), ", after ", result["steps"].get<int64_t>(),
                " steps in ", duration(result["seconds"]), " on ",
                result["device"].get<std::string>());
  }
  if (!m.failure.empty()) return "Failed. " + m.failure;
  if (m.epochs.empty()) return "Not finished: no epoch has ended yet.";
  const ReportEpoch& last = m.epochs.back();
  return join("Not finished. After epoch ", last.epoch, ": ", result_words(last.score), ".");
}

}  // namespace

std::string text_of(Device& device) {
  const gd_info info = device.info();
  return join(device.name(), info.arch[0] ? ", " : "", info.arch, ", ", device.table().build,
              libraries_of(device));
}

Predictions predict(nn::Sequential& network, const nn::Loss& loss, const Form& form,
                    const Samples& set, Device& device, const EachBatch& each) {
  const bool probable = knows_probabilities(loss);
  Predictions out;
  each_output(network, form, set, device, [&](int64_t begin, int64_t n, std::span<const float> y) {
    const int64_t rows = n * form.targets_each(), columns = int64_t(y.size()) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      const std::span<const float> row = y.subspan(size_t(r * columns), size_t(columns));
      if (!form.classifies()) {
        out.numbers.push_back(form.target_scaling.back(row[0], size_t(r % form.targets_each())));
        continue;
      }
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      out.said.push_back(int32_t(best));
      if (probable) out.sure.push_back(float(probabilities(row)[size_t(best)]));
    }
    if (each) each(begin + n, set.count);
  });
  for (size_t i = 0; i < out.said.size(); ++i)
    if (set.labels()[i] == kNoLabel) out.said[i] = kNoLabel;
  return out;
}

ReportFiles write_report(const std::string& run_dir, const ReportData& data) {
  Metrics m = read_metrics(path_in(run_dir, "metrics.jsonl"));
  const bool ended = exists(path_in(run_dir, "summary.json"));
  const Json summary = ended ? read_summary(run_dir) : Json();
  ReportPage page;
  page.name = name_of(run_dir);
  page.run_dir = run_dir;
  page.headline = headline(summary, m);
  page.trouble = m.trouble;
  page.cause = m.cause;
  if (!m.at_fault.empty() && exists(path_in(run_dir, m.at_fault))) page.at_fault = m.at_fault;
  page.svg = to_svg({m.loss, m.quality});
  page.epochs = m.epochs;
  try {
    page.health = health_section(m.health);
  } catch (const Json::exception&) {
    m.unreadable += int64_t(m.health.size());  // of another version
  }
  page.config = config_of(run_dir);
  page.data = &data;
  if (!m.epochs.empty()) {
    double seconds = 0;
    for (const ReportEpoch& e : m.epochs) seconds += e.seconds;
    page.facts = {{"an epoch takes", duration(seconds / double(m.epochs.size()))},
                  {"speed", short_number(m.epochs.back().samples_per_second) + " samples/s"}};
  }
  if (data.data)
    page.facts.emplace_back(
        "data", join(data.data->name, ", ", data.data->test.count, " test samples",
                     data.data->classifies() ? join(" of ", data.data->classes, " classes") : ""));
  if (m.skipped > 0) page.facts.emplace_back("steps without an update", join(m.skipped));
  if (m.unreadable > 0)
    page.facts.emplace_back("lines of metrics.jsonl that can't be read", join(m.unreadable));
  if (!data.device.empty()) page.facts.emplace_back("this report's device", data.device);
  page.facts.emplace_back("gradus", join(version(), ", compiler ", __VERSION__));
  for (const char* file :
       {"config.json", "data.json", "metrics.jsonl", "model.safetensors", "summary.json"})
    if (exists(path_in(run_dir, file))) page.files.emplace_back(file);
  page.files.emplace_back("curves.svg");
  if (!page.at_fault.empty()) page.files.push_back(page.at_fault);

  ReportFiles files{path_in(run_dir, "curves.svg"), path_in(run_dir, "report.html")};
  write_file_atomically(files.curves, page.svg);
  write_file_atomically(files.page, to_html(page));
  return files;
}

ReportFiles report_again(const std::string& run_dir, const Experiment& experiment,
                         const std::string& named, Device& device, Reporter& reporter) {
  ReportData data;
  data.device = text_of(device);
  std::optional<Dataset> set;
  try {
    set = test_data(experiment, run_dir, named);
    data.data = &*set;
    nn::Sequential network = load_network(experiment, *set, run_dir, device, reporter);
    Progress progress(reporter.people(), "predicting", "samples");
    data.test = predict(network, experiment.loss, *set, set->test, device, std::ref(progress));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::io || !named.empty()) throw;
    data.why_none = e.what();
    reporter.notice("gradus: the report goes without predictions: " + data.why_none);
  }
  return write_report(run_dir, data);
}

std::string to_json(const ReportFiles& files) {
  return nlohmann::ordered_json{
      {"event", "report"}, {"curves", files.curves}, {"report", files.page}}
      .dump();
}

int run_report(const ReportOptions& options, std::ostream& out, std::ostream& err) {
  Reporter reporter(out, err, options.json);
  Json config;
  const Experiment experiment = experiment_of(options.run_dir, options.data, config);
  const Session session(options.device, false, err, device_of(config), options.run_dir);
  const ReportFiles files =
      report_again(options.run_dir, experiment, options.data, session.device(), reporter);
  if (options.json)
    reporter.json_line(to_json(files));
  else
    out << files.page << "\n" << files.curves << "\n";
  return 0;
}

}  // namespace gradus::cli
