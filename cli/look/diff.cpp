// Two sides, each recorded on its device or read from its file, and the lines of their difference.
#include "cli/look/diff.hpp"
#include "cli/frame/events.hpp"
#include "cli/look/one_step_script.hpp"

#include "ops/audit/step/diff.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

using audit::NodeDifference;
using audit::Numbers;

constexpr size_t kShown = 20;

audit::RecordedStep side(const std::string& file, const ScriptTarget& script,
                         const std::string& device, bool wide, std::ostream& err) {
  if (audit::is_trace(file) && device.empty() && !wide)
    return audit::read_trace(file, open_device("cpu"));
  const OneStepConfig target{file, {}, is_script(file) ? script : ScriptTarget(), device};
  const auto session = open_session(target, err);
  audit::RecordedStep recorded;
  std::shared_ptr<const void> keeps;
  {
    std::optional<audit::Watch> watch;
    const OneStep step = run_one_step(target, session->device(), [&] { watch.emplace(); });
    recorded = audit::record(*watch, step.roots, step.leaves, step.seeds);
    keeps = step.keeps;
  }
  recorded.title = file;
  return wide ? audit::run_again(audit::widened(recorded), session->device()) : recorded;
}

class DiffReport {
 public:
  DiffReport(const DiffOptions& o, const audit::RecordedStep& a, const audit::RecordedStep& b,
             std::ostream& out)
      : o_(o), a_(a), b_(b), d_(audit::diff(a, b)), out_(out) {}

  int print() {
    o_.json ? json() : text();
    return d_.same() ? 0 : kFailed;
  }

 private:
  // As b has it, or a where b has not.
  std::string name(const NodeDifference& n) const {
    return n.b >= 0 ? node_text(b_, size_t(n.b)) : node_text(a_, size_t(n.a));
  }

  // ---- text

  void text() {
    structure();
    first("values part first at", d_.first_value, &NodeDifference::value);
    first("backward parts first at the cotangent of", d_.first_cotangent,
          &NodeDifference::cotangent);
    worst();
    for (const audit::LeafDifference& l : d_.leaves) {
      if (l.value && !l.value->same()) out_ << l.name << ": " << l.value->text() << "\n";
      if (l.gradient && !l.gradient->same())
        out_ << "gradient of " << l.name << ": " << l.gradient->text() << "\n";
    }
    summary();
  }
  void structure() {
    if (!d_.dtypes.empty()) out_ << "dtypes: " << d_.dtypes << "\n";
    for (const NodeDifference& n : d_.nodes) {
      if (n.kind == NodeDifference::Kind::same) continue;
      out_ << (n.kind == NodeDifference::Kind::inserted  ? "+ "
               : n.kind == NodeDifference::Kind::removed ? "- "
                                                         : "~ ")
           << name(n) << (n.what.empty() ? "" : ": " + n.what) << "\n";
    }
    for (const audit::LeafDifference& l : d_.leaves)
      if (!l.what.empty()) out_ << "~ leaf " << l.name << ": " << l.what << "\n";
  }
  void first(const char* words, int node, std::optional<Numbers> NodeDifference::*numbers) {
    if (node < 0) return;
    const NodeDifference& n = d_.nodes[size_t(node)];
    out_ << words << " " << name(n) << "\n  " << (n.*numbers)->text() << "\n";
    const std::vector<int64_t>& apart = (n.*numbers)->ulp_histogram;
    const int64_t most = apart.empty() ? 0 : *std::max_element(apart.begin(), apart.end());
    size_t k = 0;
    while (k < apart.size() && apart[k] == 0) ++k;
    for (; k < apart.size() && apart.size() > 1; ++k) {
      const double low = std::ldexp(1, int(k));
      out_ << fmt::format("  {:>22} ulp {:>9}  {}\n",
                          k == 0 ? "1" : fmt::format("{:.4g} to {:.4g}", low, 2 * low - 1),
                          apart[k], std::string(size_t(40 * apart[k] / most), '#'));
    }
  }
  void worst() {
    std::vector<const NodeDifference*> differing;
    const auto error = [](const std::optional<Numbers>& n) { return n ? n->relative : 0; };
    const auto larger = [&](const NodeDifference* n) {
      return std::max(error(n->value), error(n->cotangent));
    };
    for (const NodeDifference& n : d_.nodes)
      if (larger(&n) > 0) differing.push_back(&n);
    if (differing.empty()) return;
    std::stable_sort(differing.begin(), differing.end(),
                     [&](const auto* x, const auto* y) { return larger(x) > larger(y); });
    out_ << fmt::format("{:>10} {:>10} {:>10} {:>10}  by relative error, worst first\n", "value",
                        "ulp", "cotangent", "ulp");
    for (size_t i = 0; i < std::min(differing.size(), kShown); ++i) {
      const NodeDifference& n = *differing[i];
      out_ << cells(n.value) << cells(n.cotangent) << " " << name(n) << "\n";
    }
    if (differing.size() > kShown)
      out_ << audit::plural(differing.size() - kShown, "node") << " more; --json lists them all\n";
  }
  static std::string cells(const std::optional<Numbers>& n) {
    if (!n) return fmt::format("{:>10} {:>10} ", "", "");
    if (n->same()) return fmt::format("{:>10} {:>10} ", "same", "");
    return fmt::format("{:>10.1e} {:>10} ", n->relative,
                       n->ulps < 0 ? std::string("-") : fmt::format("{:.4g}", n->ulps));
  }
  void summary() {
    const auto nodes = [](const audit::RecordedStep& s) {
      return fmt::format("{} on {}", audit::plural(s.nodes.size(), "node"), s.device);
    };
    if (d_.same()) {
      out_ << fmt::format("the same bits: {}, {}\n", nodes(a_), nodes(b_));
      return;
    }
    out_ << fmt::format("different: {} against {}", nodes(a_), nodes(b_));
    const char* between = ": ";
    const auto say = [&](int n, const char* one, const char* many) {
      if (n == 0) return;
      out_ << between << n << " " << (n == 1 ? one : many);
      between = ", ";
    };
    say(d_.structural, "place in structure", "places in structure");
    say(d_.values, "value", "values");
    say(d_.cotangents, "cotangent", "cotangents");
    say(d_.gradients, "gradient of a leaf", "gradients of leaves");
    say(d_.operands, "leaf", "leaves");
    out_ << "\n";
  }

  // ---- json

  static Event json_of(const Numbers& n) {
    const auto number = [](double x) { return std::isfinite(x) ? Event(x) : Event("Infinity"); };
    return {{"count", n.count},
            {"differing", n.differing},
            {"ulps", n.ulps < 0 ? Event() : Event(n.ulps)},
            {"ulp_histogram", n.ulp_histogram},
            {"relative", number(n.relative)},
            {"element", std::vector<int64_t>(n.element.begin(), n.element.end())},
            {"text", n.text()}};
  }
  void json() {
    static constexpr const char* kKinds[] = {"same", "inserted", "removed", "changed"};
    const auto add = [](Event& e, const char* key, const std::optional<Numbers>& n) {
      if (n && !n->same()) e[key] = json_of(*n);
    };
    for (const NodeDifference& n : d_.nodes) {
      Event e{{"event", "node"},
              {"kind", kKinds[size_t(n.kind)]},
              {"a", n.a < 0 ? Event() : Event(n.a)},
              {"b", n.b < 0 ? Event() : Event(n.b)},
              {"node", name(n)},
              {"what", n.what}};
      add(e, "value", n.value);
      add(e, "cotangent", n.cotangent);
      if (e.size() > 6 || n.kind != NodeDifference::Kind::same) emit(out_, e);
    }
    for (const audit::LeafDifference& l : d_.leaves) {
      Event e{{"event", "leaf"}, {"name", l.name}, {"what", l.what}};
      add(e, "value", l.value);
      add(e, "gradient", l.gradient);
      if (e.size() > 3 || !l.what.empty()) emit(out_, e);
    }
    emit(out_, {{"event", "result"},
                {"same", d_.same()},
                {"nodes_a", a_.nodes.size()},
                {"nodes_b", b_.nodes.size()},
                {"device_a", a_.device},
                {"device_b", b_.device},
                {"dtypes", d_.dtypes},
                {"structural", d_.structural},
                {"values", d_.values},
                {"cotangents", d_.cotangents},
                {"gradients", d_.gradients},
                {"leaf_values", d_.operands}});
  }

  const DiffOptions& o_;
  const audit::RecordedStep &a_, &b_;
  const audit::StepDifference d_;
  std::ostream& out_;
};

}  // namespace

int run_diff(const DiffOptions& o, std::ostream& out, std::ostream& err) {
  if (o.b.empty()) fail(ErrorKind::config, "diff", "needs two files; see gradus diff --help");
  if (!o.dtype_b.empty() && o.dtype_b != "f64")
    fail(ErrorKind::config, "--dtype-b", "expected f64, got \"", o.dtype_b, "\"");
  if (!is_script(o.a) && !is_script(o.b)) refuse_script_options(o.script, o.a + ", " + o.b);
  const audit::RecordedStep a = side(o.a, o.script, o.device_a, false, err),
                            b = side(o.b, o.script, o.device_b, !o.dtype_b.empty(), err);
  return DiffReport(o, a, b, out).print();
}

}  // namespace gradus::cli
