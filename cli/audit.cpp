// One step under a watch, and the lines of its audit.
#include "cli/audit.hpp"

#include "cli/audit_modes.hpp"
#include "cli/one_step.hpp"
#include "cli/session.hpp"
#include "ops/audit/audit.hpp"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

namespace gradus::cli {

namespace {

using Event = nlohmann::ordered_json;

constexpr int kFailed = 5;

class Findings {
 public:
  Findings(const AuditOptions& o, std::ostream& out) : o_(o), out_(out) {
    const std::set<std::string> known{"nan", "mismatch", "unreached", "none"};
    std::istringstream list(o.fail_on);
    for (std::string kind; std::getline(list, kind, ',');) {
      if (!known.contains(kind))
        fail(ErrorKind::config, "--fail-on", "expected a list of nan, mismatch, unreached, got \"",
             kind, "\"", did_you_mean(kind, known));
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
  const Json device = config_device(o.config);
  const Session session(o.device, false, err, device.is_null() ? nullptr : &device, o.config);
  audit::Options options;
  if (!o.against.empty()) options.against = &open_device(o.against);

  std::optional<audit::Watch> watch;
  const OneStep step =
      run_one_step({o.config, o.set, o.script}, session.device(), [&] { watch.emplace(); });
  findings.report(audit::audit(*watch, step.roots, options));
  std::optional<audit::Birth> birth = audit::birth(*watch);
  if (!birth) birth = audit::birth_in_backward(*watch, step.roots);
  if (birth) findings.birth(*birth);
  Tensors leaves;
  for (const auto& [name, leaf] : step.leaves) leaves.push_back(leaf);
  for (const audit::Unreached& u : audit::unreached(*watch, step.roots, leaves))
    findings.unreached(step.leaves[u.which].first, u.why);
  return findings.finish(session.device());
}

}  // namespace gradus::cli
