// One step under a watch, and the lines of its audit. Each instrument has a step of its own: what a
// watch keeps alive would be counted by the ledger, and what the ledger looks at would be timed.
#include "cli/look/audit.hpp"

#include "cli/look/audit_modes.hpp"
#include "cli/look/audit_reports.hpp"
#include "cli/frame/events.hpp"
#include "cli/look/one_step.hpp"
#include "cli/frame/progress.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/files/file.hpp"
#include "ops/audit/step/accounting.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/judge/cost.hpp"
#include "ops/audit/step/memory_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

class Findings {
 public:
  Findings(const AuditOptions& o, std::ostream& out)
      : o_(o), out_(out), listed_(!o.ledger && !o.cost) {
    const std::set<std::string> known{"nan",  "inf",   "mismatch", "unreached",
                                      "zero", "alias", "none"};
    std::istringstream list(o.fail_on.value_or("nan,mismatch"));
    for (std::string kind; std::getline(list, kind, ',') || fatal_.empty();) {
      if (!known.contains(kind))
        fail(ErrorKind::config, "--fail-on",
             "expected none, or a list of nan, inf, mismatch, unreached, zero, alias, got \"", kind,
             "\"", did_you_mean(kind, known));
      fatal_.insert(kind);
    }
  }

  void report(const audit::Report& report) {
    for (const audit::Line& l : report.lines) print(l);
    if (report.bad > 0) found("mismatch");
    nodes_ = report.lines.size();
    bad_ = report.bad;
  }
  bool wants(const std::string& kind) const { return fatal_.contains(kind); }
  // `kind`: what came of it, "nan" or "inf". `node`: of the graph, or -1.
  void birth(const audit::Birth& b, const std::string& kind, int node) {
    found(kind);
    const std::string where = b.call->where;
    list_.push_back({"birth", node, b.text + (where.empty() ? "" : ", at " + where)});
    if (!listed_) return;
    if (o_.json)
      emit(out_, {{"event", "birth"},
                  {"kind", kind},
                  {"op", b.call->op->name},
                  {"where", where},
                  {"element", std::vector<int64_t>(b.element.begin(), b.element.end())},
                  {"text", b.text}});
    else
      out_ << (kind == "nan" ? "NaN: " : "infinite: ") << list_.back().text << "\n";
  }
  // `kind`: no gradient comes, "unreached", or zeros alone, "zero".
  void parameter(const std::string& kind, const std::string& name, const std::string& why) {
    found(kind);
    unreached_ += kind == "unreached";
    list_.push_back({kind, -1, name + ": " + why});
    if (!listed_) return;
    if (o_.json)
      emit(out_, {{"event", kind}, {"parameter", name}, {"why", why}});
    else
      out_ << kind << ": " << name << ": " << why << "\n";
  }
  const std::vector<audit::Finding>& list() const { return list_; }
  void accounting(const audit::Imbalance& f) {
    if (f.bad) found(f.check == "alias" ? "alias" : "mismatch");
    list_.push_back({"accounting", -1, f.text});
    if (!listed_) return;
    if (o_.json)
      emit(out_, {{"event", "accounting"}, {"check", f.check}, {"bad", f.bad}, {"text", f.text}});
    else
      out_ << "accounting: " << f.text << "\n";
  }
  void unwatched(size_t nodes) { unwatched_ = nodes; }
  int finish(const Device& device) {
    if (!listed_) return code_;
    if (o_.json)
      emit(out_, {{"event", "result"},
                  {"nodes", nodes_},
                  {"bad", bad_},
                  {"unreached", unreached_},
                  {"unwatched", unwatched_},
                  {"device", device.name()},
                  {"ok", code_ == 0}});
    else
      out_ << fmt::format("\n{}{} node{} on {}: ", nodes_,
                          unwatched_ > 0 ? fmt::format(" of {}", nodes_ + unwatched_) : "",
                          nodes_ + unwatched_ == 1 ? "" : "s", device.name())
           << verdict(bad_ == 0, bad_ == 0   ? "no wrong derivative"
                                 : bad_ == 1 ? "one is wrong"
                                             : fmt::format("{} are wrong", bad_))
           << (code_ == 0 ? "" : fmt::format("; exit code {} for {}", code_, fmt::join(why_, ", ")))
           << "\n";
    return code_;
  }

 private:
  void found(const std::string& kind) {
    if (!fatal_.contains(kind)) return;
    code_ = kFailed;
    why_.insert(kind);
  }
  void print(const audit::Line& l) {
    if (!listed_) return;
    if (o_.json)
      return emit(out_, {{"event", "node"},
                         {"node", l.index},
                         {"op", l.call->op->name},
                         {"where", l.call->where},
                         {"operands", l.call->shapes()},
                         {"verdict", audit::to_text(l.verdict)},
                         {"bad", l.bad()},
                         {"error", number_event(l.error)},
                         {"tolerance", number_event(l.tolerance)},
                         {"condition", number_event(l.condition)},
                         {"text", l.text},
                         {"remark", l.remark}});
    const std::string word = audit::to_text(l.verdict);
    const Tone tone = l.bad()                           ? Tone::bad
                      : l.verdict == audit::Verdict::ok ? Tone::good
                                                        : Tone::warning;
    out_ << Toned{tone, word} << std::string(word.size() < 11 ? 11 - word.size() : 0, ' ')
         << fmt::format(" %{:<4} {:<16} {:.1e} of {:.1e}  condition {:<8} {}{}{}\n", l.index,
                        l.call->op->name, l.error, l.tolerance,
                        l.condition > 0 ? fmt::format("{:.2g}", l.condition) : "-",
                        l.call->shapes(), l.call->where.empty() ? "" : "  # ", l.call->where);
    for (const std::string& more : {l.text, l.remark})
      if (!more.empty()) out_ << "            " << more << "\n";
  }

  const AuditOptions& o_;
  std::ostream& out_;
  bool listed_;
  std::set<std::string> fatal_, why_{};  // kinds: asked for, and found
  std::vector<audit::Finding> list_;
  size_t nodes_ = 0, bad_ = 0, unreached_ = 0, unwatched_ = 0;
  int code_ = 0;
};

struct Judged {
  const OpInfo* op;
  size_t index;
  audit::NodeVerdict verdict;
};
// What an audit says into the view of another run of the same step. Nodes that were made before the
// step began are no part of the audit: they come first in the view.
void put(const std::vector<Judged>& verdicts, std::vector<audit::Finding> findings,
         audit::GraphView& view) {
  const size_t before = view.nodes.size() - std::min(view.nodes.size(), verdicts.size());
  for (const Judged& j : verdicts) {
    audit::Node& node = view.nodes.at(before + j.index);
    if (node.op != j.op)
      fail(ErrorKind::value, "audit", "two runs of the step record different graphs: node ",
           int64_t(j.index), " is ", j.op->name, ", then ", node.op->name);
    node.verdict = j.verdict;
  }
  for (audit::Finding& f : findings)
    if (f.node >= 0) f.node += int(before);
  view.findings = std::move(findings);
}

// Is a root, or the gradient of a leaf, not finite?
bool arrives_infinite(const audit::Stepper& stepper) {
  const auto finite = [](const Tensor& t) {
    return !t.defined() || !is_floating(t.dtype()) || std::isfinite(audit::norm_of(t));
  };
  for (const Tensor& r : stepper.roots())
    if (!finite(r)) return true;
  if (!stepper.at_end()) return false;
  for (size_t i = 0; i < stepper.leaves().size(); ++i)
    if (!finite(stepper.cotangent({true, int(i), 0}))) return true;
  return false;
}
// Reports where the first NaN (kind "nan") or infinity ("inf") comes from; false if there is none.
bool find_birth(const audit::Watch& watch, const OneStep& step, const audit::Report& report,
                const std::string& kind, Findings& findings) {
  const bool infinities = kind == "inf";
  std::optional<audit::Birth> birth = audit::birth(watch, infinities);
  if (!birth) birth = audit::birth_in_backward(watch, step.roots, infinities, step.seeds);
  if (!birth) return false;
  const auto line = std::find_if(report.lines.begin(), report.lines.end(),
                                 [&](const audit::Line& l) { return l.call == birth->call; });
  findings.birth(*birth, kind, line == report.lines.end() ? -1 : int(line->index));
  return true;
}

}  // namespace

int run_audit(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  const bool reports = o.ledger || o.cost || !o.html.empty();
  const bool mode = !o.explain.empty() || o.versions || o.accounting || o.health;
  if (!o.explain.empty() + o.versions + o.accounting + o.health + reports > 1)
    fail(ErrorKind::config, "audit", "--explain, --versions, --accounting, --health and the ",
         "reports (--ledger, --cost, --html) are shown one at a time");
  // What would say nothing here.
  for (const auto& [flag, typed] :
       {std::pair("--element", !o.element.empty()), {"--top", o.top.has_value()}})
    if (typed && o.explain.empty()) fail(ErrorKind::config, flag, "belongs to --explain NAME");
  const bool judges = !mode && (!reports || !o.html.empty());
  for (const auto& [flag, typed] :
       {std::pair("--against", !o.against.empty()), {"--fail-on", o.fail_on.has_value()}})
    if (typed && !judges)
      fail(ErrorKind::config, flag, "belongs to the verdicts; --explain, --versions, ",
           "--accounting, --health, and --ledger and --cost without --html, give none");
  Findings findings(o, out);
  if (!o.explain.empty()) return run_audit_explain(o, out, err);
  if (o.versions) return run_audit_versions(o, out, err);
  if (o.accounting) return run_audit_accounting(o, out, err);
  if (o.health) return run_audit_health(o, out, err);
  const auto session = open_session(o, err);
  Device& device = session->device();
  audit::Options options;
  if (!o.against.empty()) options.against = &open_judged_device(o.against, "--against");
  OneStepConfig target = o;
  const bool page = !o.html.empty(), measured = o.ledger || o.cost || page;

  std::vector<Judged> verdicts;
  if (page || !measured) {
    std::optional<audit::Watch> watch;
    const OneStep step = run_one_step(target, device, [&] { watch.emplace(); });
    Progress progress(err, "auditing", "nodes");
    options.each = std::ref(progress);
    const audit::Report report = audit::audit(*watch, step.roots, options);
    progress.clear();
    if (report.lines.empty() && step.unwatched > 0)
      fail(ErrorKind::config, o.file, "none of the nodes of this backward was watched, so none ",
           "can be judged; ask for an earlier --backward, or for gradus.audit.mark(y)");
    findings.unwatched(step.unwatched);
    findings.report(report);
    for (const audit::Line& l : report.lines)
      verdicts.push_back({l.call->op,
                          l.index,
                          {audit::to_text(l.verdict), l.bad(), l.error, l.tolerance, l.text}});
    audit::Stepper stepper(step.roots, step.leaves, step.seeds);
    if (stepper.error().empty()) stepper.run({});
    try {
      // An infinity on the way is often meant (a mask); one that arrives is not.
      const bool nan = find_birth(*watch, step, report, "nan", findings);
      if (findings.wants("inf") || (!nan && arrives_infinite(stepper)))
        find_birth(*watch, step, report, "inf", findings);
    } catch (const Error&) {  // a node that can't be walked: its own line says why
      if (report.bad == 0) throw;
    }
    Tensors leaves;
    for (const auto& [name, leaf] : step.leaves) leaves.push_back(leaf);
    for (const audit::Unreached& u : audit::unreached(*watch, step.roots, leaves))
      findings.parameter("unreached", step.leaves[u.which].first,
                         u.why + (step.recorded ? " (a recorded step holds no calls outside of the "
                                                  "graph, so not what cut it off)"
                                                : ""));
    if (stepper.at_end())
      for (const audit::Unreached& u : audit::zero_gradients(*watch, stepper))
        findings.parameter("zero", stepper.leaves()[u.which].first, u.why);
    for (const audit::Imbalance& f : audit::account(stepper).findings) findings.accounting(f);
  }
  if (measured) {
    target.script.quiet = page;  // then it has printed already
    audit::GraphView view = measured_step(target, device, page);
    if (page) put(verdicts, findings.list(), view);
    if (o.ledger) report_ledger(view, o.json, out);
    if (o.cost) report_cost(view, o.json, out);
    if (page) write_file_atomically(o.html, audit::to_html(view));
  }
  return findings.finish(device);
}

}  // namespace gradus::cli
