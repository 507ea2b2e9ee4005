// Paths and nodes as text and JSON; what they are, ops/audit/ knows.
#include "cli/look/audit_modes.hpp"
#include "cli/frame/debugger_text.hpp"
#include "engine/files/file.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/judge/explain.hpp"
#include "ops/audit/judge/paths.hpp"
#include "ops/audit/watch/names.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <ostream>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLongPath = 10;  // of more hops, only those where ways part are shown

std::optional<Shape> element_of(const std::string& text) {
  if (text.empty()) return {};
  Shape element;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int64_t i = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), i);
    if (error != std::errc() || end != part.data() + part.size() || part.empty())
      fail(ErrorKind::config, "--element", "expected indices such as 0,3, got \"", text, "\"");
    element.push_back(i);
  }
  return element;
}

// Words in lines of at most kColumns, from a column on.
std::string wrapped(const std::vector<std::string>& words, size_t from) {
  std::string text;
  size_t column = from;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (column > from && column + 1 + word.size() > kColumns) {
      text += "\n" + std::string(from, ' ');
      column = from;
    }
    text += (column > from ? " " : "") + word;
    column += word.size() + (column > from);
  }
  return text;
}

class Paths {
 public:
  Paths(const audit::Stepper& s, const audit::GradientPaths& p) : s_(s), p_(p) {}

  void write(const std::string& leaf, std::ostream& out) const {
    const double norm = audit::norm_of(p_.gradient);
    out << fmt::format("gradient of {}, {}, norm {:.4g}: {:.6g} {} from the loss\n", leaf,
                       type_of(p_.gradient), norm, p_.count, p_.count == 1 ? "path" : "paths");
    out << "   share      norm  path\n";
    for (const audit::GradientPath& p : p_.paths)
      out << fmt::format("{} {:>9.3g}  ", share(p.amount), p.norm) << wrapped(words_of(p), 20)
          << "\n";
    const bool all = double(p_.paths.size()) == p_.count;
    if (!all)
      out << fmt::format("{} {:>9.3g}  {:.6g} others\n", share(p_.others), p_.others_norm,
                         p_.count - double(p_.paths.size()));
    else
      out << fmt::format("they sum to the gradient up to {:.1e} of its norm\n",
                         norm > 0 ? p_.others_norm / norm : 0);
    if (p_.followed < p_.count)
      out << fmt::format(
          "{:.6g} paths were followed, those whose beginnings carry most; one that goes on\n"
          "where others cancel may be missing\n",
          p_.followed);
    out << fmt::format(
        "share: <contribution, gradient> / <gradient, gradient>; forward mode finds\nthe same "
        "total up to {:.1e}\n",
        p_.residual);
  }

  void write_json(const std::string& leaf, std::ostream& out) const {
    for (const audit::GradientPath& p : p_.paths) {
      Event hops = Event::array();
      for (const auto& h : p.hops)
        hops.push_back({{"node", h.node},
                        {"op", s_.nodes()[size_t(h.node)]->op().name},
                        {"operand", h.operand}});
      emit(out, {{"event", "path"},
                 {"root", p.root},
                 {"share", p_.total != 0 ? Event(p.amount / p_.total) : Event()},
                 {"amount", p.amount},
                 {"norm", p.norm},
                 {"hops", hops}});
    }
    emit(out, {{"event", "result"},
               {"leaf", leaf},
               {"gradient", tensor_event(p_.gradient)},
               {"total", p_.total},
               {"paths", p_.count},
               {"followed", p_.followed},
               {"others", {{"amount", p_.others}, {"norm", p_.others_norm}}},
               {"residual", p_.residual}});
  }

 private:
  // Of a gradient of zero nothing is a part.
  std::string share(double amount) const {
    return p_.total != 0 ? fmt::format("{:>6.2f} %", 100 * amount / p_.total)
                         : fmt::format("{:>8}", "-");
  }
  // "%7 add.b": the operand is named where there is a choice.
  std::vector<std::string> words_of(const audit::GradientPath& p) const {
    std::vector<std::string> words;
    const auto ways_of = [&](int node) {
      const std::vector<double>& flow = p_.flow[size_t(node)];
      return std::count_if(flow.begin(), flow.end(), [](double f) { return f != 0; });
    };
    const auto forks = std::count_if(p.hops.begin(), p.hops.end(),
                                     [&](const auto& h) { return ways_of(h.node) > 1; });
    for (const auto& h : p.hops) {
      const OpInfo& op = s_.nodes()[size_t(h.node)]->op();
      const auto ways = ways_of(h.node);
      if (forks > 0 && p.hops.size() > kLongPath && ways < 2) continue;
      words.push_back(s_.name_of(h.node) +
                      (ways > 1 ? "." + audit::operand_label(op, size_t(h.operand)) : ""));
    }
    if (forks > 0 && p.hops.size() > kLongPath)
      words.push_back(fmt::format("({} nodes)", p.hops.size()));
    if (p.hops.empty()) words.push_back("the root itself");
    return words;
  }

  const audit::Stepper& s_;
  const audit::GradientPaths& p_;
};

std::string bracketed(const Shape& index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i) text += (i ? "," : "") + std::to_string(index[i]);
  return text + "]";
}

void write(const audit::NodeStory& n, const OpInfo& op, std::ostream& out) {
  out << fold(n.call + (n.where.empty() ? "" : "   # " + n.where));
  if (!n.formula.empty()) out << "  " << n.formula << "\n";
  for (const std::string& d : n.derivatives) out << fold("  " + d);
  for (const std::string& b : n.broadcasts) out << fold("  " + b);
  if (!n.remark.empty()) out << fold("  " + n.remark);
  if (!n.example) return;
  const audit::ElementStory& e = *n.example;
  const std::string at = bracketed(e.element);
  out << fmt::format("  here: y{} = {:.6g}, and the loss moves by {:.6g} per unit of it\n", at,
                     e.value, e.cotangent);
  for (const auto& o : e.operands) {
    const std::string name = audit::operand_label(op, size_t(o.operand));
    out << fmt::format("    through {}{} = {:.6g}: {:.6g} * {:.6g} = {:.6g}\n", name,
                       bracketed(o.element), o.value, e.cotangent, o.slope + 0.0, o.share + 0.0);
    if (o.reached > 1)
      out << fmt::format("      and through {} more elements of {}\n", o.reached - 1, name);
  }
}

void write_json(int node, const audit::NodeStory& n, const OpInfo& op, std::ostream& out) {
  Event e{{"event", "node"},
          {"node", node},
          {"op", op.name},
          {"call", n.call},
          {"where", n.where},
          {"formula", n.formula},
          {"derivatives", n.derivatives},
          {"broadcasts", n.broadcasts},
          {"remark", n.remark}};
  if (n.example) {
    const auto index = [](const Shape& s) { return std::vector<int64_t>(s.begin(), s.end()); };
    Event operands = Event::array();
    for (const auto& o : n.example->operands)
      operands.push_back({{"operand", audit::operand_label(op, size_t(o.operand))},
                          {"element", index(o.element)},
                          {"value", o.value},
                          {"slope", number_event(o.slope)},
                          {"share", number_event(o.share)},
                          {"reached", o.reached}});
    e["example"] = {{"element", index(n.example->element)},
                    {"value", n.example->value},
                    {"cotangent", n.example->cotangent},
                    {"operands", operands}};
  }
  emit(out, e);
}

}  // namespace

int run_audit_explain(const AuditOptions& o, std::ostream& out, std::ostream& err) {
  const std::optional<Shape> element = element_of(o.element);
  const int64_t top = o.top.value_or(5);
  if (top < 1) fail(ErrorKind::config, "--top", "expected a number above 0, got ", top);
  const auto session = open_session(o, err);
  std::optional<audit::Watch> watch;
  const OneStep step = run_traced_step(o, session->device(), [&] { watch.emplace(); });
  audit::Stepper stepper(step.roots, step.leaves, step.seeds);
  stepper.run({});
  const auto named = [&](const auto& leaf) { return leaf.first == o.explain; };
  const auto leaf = std::find_if(step.leaves.begin(), step.leaves.end(), named);
  if (leaf != step.leaves.end() &&
      std::none_of(stepper.leaves().begin(), stepper.leaves().end(), named)) {
    const auto why = audit::unreached(*watch, step.roots, {leaf->second});
    fail(ErrorKind::value, "explain", o.explain, " gets no gradient",
         why.empty() ? "" : ": " + why[0].why);
  }
  const audit::Place what = stepper.find(o.explain);
  if (what.leaf) {
    const audit::GradientPaths paths = audit::explain_paths(stepper, what.id, element, size_t(top));
    const Paths writer(stepper, paths);
    o.json ? writer.write_json(o.explain, out) : writer.write(o.explain, out);
    return 0;
  }
  if (element) fail(ErrorKind::config, "--element", "belongs to a leaf, ", o.explain, " is a node");
  const OpInfo& op = stepper.nodes()[size_t(what.id)]->op();
  const audit::NodeStory story = audit::explain_node(stepper, what.id, *watch);
  o.json ? write_json(what.id, story, op, out) : write(story, op, out);
  return 0;
}

}  // namespace gradus::cli
