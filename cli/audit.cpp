// One step under a watch, and the lines of its audit.
#include "cli/audit.hpp"

#include "cli/audit_modes.hpp"
#include "cli/batches.hpp"
#include "cli/contract.hpp"
#include "cli/experiment.hpp"
#include "cli/session.hpp"
#include "cli/train.hpp"
#include "engine/io/file.hpp"
#include "engine/random.hpp"
#include "ops/audit/accounting.hpp"
#include "ops/audit/audit.hpp"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <set>
#include <sstream>

namespace gradus::cli {

namespace {

using Event = nlohmann::ordered_json;

constexpr int kFailed = 5;

// What ran, and what its graph hangs on.
struct Step {
  Tensors roots;  // empty: all that was recorded
  nn::NamedTensors parameters;
};

Step network_step(const Experiment& experiment, const Dataset& data, nn::Sequential& network,
                  Batches& batches) {
  std::vector<int64_t> order(size_t(data.train.count));
  std::iota(order.begin(), order.end(), int64_t(0));
  if (experiment.shuffle) order = epoch_order(data.train.count, experiment.seed, 0);
  order.resize(size_t(std::min<int64_t>(experiment.batch_size, data.train.count)));
  const auto& batch = batches.fill({order.data(), order.size()});
  const Tensor outputs = nn::outputs_of(network, batch.inputs);
  return {{nn::loss_of(experiment.loss, outputs, batch.labels)}, network.parameters()};
}

// The contraction with its gradients; each node is then judged by a new run of its op.
Step contraction_step(const AuditOptions& o) {
  std::ostringstream nowhere;
  ContractOptions contraction;
  contraction.config = o.config;
  contraction.device = o.device;
  contraction.repeat = 1;
  contraction.verify = true;
  run_contract(contraction, nowhere, nowhere);
  return {};
}

class Findings {
 public:
  Findings(const AuditOptions& o, std::ostream& out) : o_(o), out_(out) {
    const std::set<std::string> known{"nan", "mismatch", "unreached", "alias", "none"};
    std::istringstream list(o.fail_on);
    for (std::string kind; std::getline(list, kind, ',');) {
      if (!known.contains(kind))
        fail(ErrorKind::config, "--fail-on",
             "expected a list of nan, mismatch, unreached, alias, got \"", kind, "\"",
             did_you_mean(kind, known));
      fatal_.insert(kind);
    }
  }

  void report(const audit::Report& report) {
    for (const audit::Line& l : report.lines) print(l);
    if (report.bad > 0) found("mismatch");
    nodes_ = report.lines.size();
    bad_ = report.bad;
  }
  void birth(const audit::Birth& b) {
    found("nan");
    const std::string where = b.call->where;
    if (o_.json)
      emit({{"event", "birth"},
            {"op", b.call->op->name},
            {"where", where},
            {"element", std::vector<int64_t>(b.element.begin(), b.element.end())},
            {"text", b.text}});
    else
      out_ << "NaN: " << b.text << (where.empty() ? "" : ", at " + where) << "\n";
  }
  void unreached(const std::string& name, const std::string& why) {
    found("unreached");
    ++unreached_;
    if (o_.json)
      emit({{"event", "unreached"}, {"parameter", name}, {"why", why}});
    else
      out_ << "unreached: " << name << ": " << why << "\n";
  }
  void accounting(const audit::Finding& f) {
    if (f.bad) found(f.check == "alias" ? "alias" : "mismatch");
    if (o_.json)
      emit({{"event", "accounting"}, {"check", f.check}, {"bad", f.bad}, {"text", f.text}});
    else
      out_ << "accounting: " << f.text << "\n";
  }
  int finish(const Device& device) {
    if (o_.json)
      emit({{"event", "result"},
            {"nodes", nodes_},
            {"bad", bad_},
            {"unreached", unreached_},
            {"device", device.name()},
            {"ok", code_ == 0}});
    else
      out_ << fmt::format("\n{} nodes on {}: {}\n", nodes_, device.name(),
                          bad_ == 0 ? "no wrong derivative" : fmt::format("{} are wrong", bad_));
    return code_;
  }

 private:
  void found(const std::string& kind) {
    if (fatal_.contains(kind)) code_ = kFailed;
  }
  void emit(const Event& e) {
    out_ << e.dump(-1, ' ', false, Event::error_handler_t::replace) << std::endl;
  }
  void print(const audit::Line& l) {
    const auto number = [](double x) { return std::isfinite(x) ? Event(x) : Event("Infinity"); };
    if (o_.json)
      return emit({{"event", "node"},
                   {"node", l.index},
                   {"op", l.call->op->name},
                   {"where", l.call->where},
                   {"operands", l.call->shapes()},
                   {"verdict", audit::to_text(l.verdict)},
                   {"bad", l.bad()},
                   {"error", number(l.error)},
                   {"tolerance", number(l.tolerance)},
                   {"text", l.text}});
    out_ << fmt::format("{:<11} %{:<4} {:<16} {:.1e} of {:.1e}  {}{}{}\n",
                        audit::to_text(l.verdict), l.index, l.call->op->name, l.error, l.tolerance,
                        l.call->shapes(), l.call->where.empty() ? "" : "  # ", l.call->where);
    if (!l.text.empty()) out_ << "            " << l.text << "\n";
  }

  const AuditOptions& o_;
  std::ostream& out_;
  std::set<std::string> fatal_;
  size_t nodes_ = 0, bad_ = 0, unreached_ = 0;
  int code_ = 0;
};

}  // namespace

int run_audit(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  if (!o.explain.empty()) return run_audit_explain(o, out, err);
  if (o.versions) return run_audit_versions(o, out, err);
  if (o.accounting) return run_audit_accounting(o, out, err);
  Findings findings(o, out);
  const Json config = parse_json(read_file(o.config), o.config);
  const bool network = !config.is_object() || config.value("experiment", Json()) != "contraction";
  if (!network && !o.set.empty())
    fail(ErrorKind::config, "--set", "belongs to configs of networks; ", o.config,
         " is a contraction");
  const bool has_device = config.is_object() && config.contains("device");
  const Session session(o.device, false, err, has_device ? &config["device"] : nullptr, o.config);
  Device& device = session.device();
  audit::Options options;
  if (!o.against.empty()) options.against = &open_device(o.against);

  std::optional<Experiment> experiment;
  std::optional<Dataset> data;
  std::optional<nn::Sequential> made;
  std::optional<Batches> batches;
  if (network) {
    experiment = read_experiment(layered_network(o.config, o.set).resolve(), o.config);
    data = load_data(*experiment);
    manual_seed(experiment->seed);
    made = build_network(*experiment, *data, device);
    batches.emplace(*data, data->train, device);
  }
  const audit::Watch watch;
  const Step step =
      network ? network_step(*experiment, *data, *made, *batches) : contraction_step(o);
  findings.report(audit::audit(watch, step.roots, options));
  std::optional<audit::Birth> birth = audit::birth(watch);
  if (!birth && network) birth = audit::birth_in_backward(watch, step.roots);
  if (birth) findings.birth(*birth);
  if (network) {
    Tensors parameters;
    for (const auto& [name, p] : step.parameters) parameters.push_back(p);
    for (const audit::Unreached& u : audit::unreached(watch, step.roots, parameters))
      findings.unreached(step.parameters[u.which].first, u.why);
    audit::Stepper stepper(step.roots, step.parameters);
    if (stepper.error().empty()) stepper.run({});
    for (const audit::Finding& f : audit::account(stepper).findings) findings.accounting(f);
  }
  return findings.finish(device);
}

}  // namespace gradus::cli
