// Parsing of commands; moving, breakpoints, cotangents set by hand. What it shows:
// debugger_show.cpp.
#include "cli/look/debugger.hpp"

#include "cli/frame/debugger_text.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <ostream>
#include <set>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

using audit::Breakpoint;
using audit::Place;

constexpr int kAround = 4;  // turns on both sides in a list

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}
int64_t count_in(const std::vector<std::string>& w, size_t at, int64_t otherwise) {
  if (w.size() <= at) return otherwise;
  const auto n = parse<int64_t>(w[at]);
  if (!n || *n < 1)
    fail(ErrorKind::value, w[0], "expected a whole number above 0, got \"", w[at], "\"");
  return *n;
}
void need(const std::vector<std::string>& w, size_t least, const char* what) {
  if (w.size() < least) fail(ErrorKind::value, w[0], "needs ", what, "; see help ", w[0]);
}

}  // namespace

// ---- commands by name

struct Debugger::Command {
  std::string name, brief, arguments, doc;
  std::function<bool(Debugger&, const Words&)> run;
};

const std::vector<Debugger::Command>& Debugger::commands() {
  using D = Debugger;
  const auto go_on = [](auto f) { return [f](D& d, const Words& w) { return f(d, w), true; }; };
  static const std::vector<Command> list{
      {"next", "n", "[N]", "one turn (or N)", go_on([](D& d, const Words& w) { d.next(w); })},
      {"back", "", "[N]", "take one turn back (or N)",
       go_on([](D& d, const Words& w) { d.back(w); })},
      {"continue", "c", "", "to the next breakpoint, or the end",
       go_on([](D& d, const Words&) { d.go({}); })},
      {"until", "u", "%K", "until the turn of %K is next",
       go_on([](D& d, const Words& w) { d.until(w); })},
      {"break", "b", "op NAME | node %K | path P | norm > X | nan", "stop there",
       go_on([](D& d, const Words& w) { d.add_break(w); })},
      {"breaks", "", "", "the breakpoints", go_on([](D& d, const Words&) { d.list_breaks(); })},
      {"delete", "d", "[N]", "drop breakpoint N (or all)",
       go_on([](D& d, const Words& w) { d.remove_break(w); })},
      {"show", "s", "[%K | LEAF]", "cotangents in and out, what added up, formulas, saved",
       go_on([](D& d, const Words& w) {
         if (w.size() < 2) return d.show_next();
         const Place p = d.s_.find(w[1]);
         p.leaf ? d.show_leaf(p.id) : d.show_node(p.id);
       })},
      {"list", "l", "[N]", "the schedule around this turn (N on both sides)",
       go_on([](D& d, const Words& w) {
         d.list(int(std::min<int64_t>(count_in(w, 1, kAround), 1 << 20)));
       })},
      {"where", "w", "", "which turn is next", go_on([](D& d, const Words&) { d.say_next(); })},
      {"print", "p", "%K | LEAF", "the cotangent, or gradient, as it stands now",
       go_on([](D& d, const Words& w) {
         need(w, 2, "a node or a leaf");
         d.print(d.s_.find(w[1]));
       })},
      {"set", "", "%K X | %K * X", "the vjp of %K will read this instead",
       go_on([](D& d, const Words& w) { d.set(w); })},
      {"unset", "", "%K", "what was set is what comes again",
       go_on([](D& d, const Words& w) { d.unset(w); })},
      {"grads", "g", "", "norms of the leaves' gradients so far",
       go_on([](D& d, const Words&) { d.gradients(); })},
      {"help", "h", "[COMMAND]", "this", go_on([](D& d, const Words& w) { d.help(w); })},
      {"quit", "q", "", "leave", [](D&, const Words&) { return false; }}};
  return list;
}

const Debugger::Command& Debugger::find(const std::string& name) {
  const Command* prefixed = nullptr;
  int prefixes = 0;
  Words names;
  for (const Command& c : commands()) {
    if (name == c.name || name == c.brief) return c;
    if (c.name.starts_with(name)) prefixed = &c, ++prefixes;
    names.push_back(c.name);
  }
  if (prefixes == 1) return *prefixed;
  if (prefixes > 1)
    fail(ErrorKind::value, "step", "\"", name, "\" may be several commands; see help");
  fail(ErrorKind::value, "step", "there is no command \"", name, "\"", did_you_mean(name, names),
       "; see help");
}

bool Debugger::repeats(const std::string& line) {
  std::string word;
  std::istringstream(line) >> word;
  if (word.empty()) return false;
  try {
    const std::string& name = find(word).name;
    return name == "next" || name == "back" || name == "continue";
  } catch (const Error&) {
    return false;
  }
}

Debugger::Debugger(audit::Stepper& stepper, bool json, std::ostream& out)
    : s_(stepper), json_(json), out_(out) {}

bool Debugger::run(const std::string& line) {
  std::istringstream in(line.substr(0, line.find('#')));
  Words w;
  for (std::string word; in >> word;) w.push_back(word);
  if (w.empty()) return true;
  const Command& c = find(w[0]);
  w[0] = c.name;
  return c.run(*this, w);
}

std::vector<std::string> Debugger::complete(const std::string& begun) const {
  const size_t cut = begun.find_last_of(' ') + 1;
  const std::string before = begun.substr(0, cut);
  std::istringstream in(before);
  Words w, names;
  for (std::string word; in >> word;) w.push_back(word);
  const std::string kind = w.size() > 1 ? w[1] : "";
  if (w.empty() || w[0] == "help") {
    for (const Command& c : commands()) names.push_back(c.name + (c.arguments.empty() ? "" : " "));
  } else if (w[0].starts_with("br") || w[0] == "b") {
    if (w.size() == 1) names = {"op ", "node ", "path ", "norm > ", "nan"};
    if (kind == "path") names = s_.paths();
    for (size_t i = 0; i < s_.nodes().size(); ++i) {
      if (kind == "op") names.push_back(s_.nodes()[i]->op().name);
      if (kind == "node") names.push_back(join("%", i));
    }
  } else {
    for (size_t i = 0; i < s_.nodes().size(); ++i) names.push_back(join("%", i));
    for (const auto& [name, t] : s_.leaves()) names.push_back(name);
  }
  std::set<std::string> lines;
  for (const std::string& n : names)
    if (n.starts_with(begun.substr(cut))) lines.insert(before + n);
  return {lines.begin(), lines.end()};
}

// ---- moving

void Debugger::begin(const std::string& title) {
  const size_t nodes = s_.nodes().size(), leaves = s_.leaves().size();
  if (json_)
    emit(out_, {{"event", "begin"}, {"title", title}, {"nodes", nodes}, {"leaves", leaves}});
  else
    out_ << "backward of " << title << ": " << nodes << " nodes, " << leaves
         << " leaves; help lists the commands\n";
  say_next();
}

void Debugger::stopped(const std::string& why, int breakpoint) {
  if (json_)
    emit(out_, {{"event", "stop"}, {"breakpoint", breakpoint}, {"why", why}});
  else
    out_ << (breakpoint > 0 ? join("breakpoint ", breakpoint, ": ", why) : why) << "\n";
}

void Debugger::next(const Words& w) {
  for (int64_t n = count_in(w, 1, 1); n > 0; --n) {
    try {
      if (!s_.next()) break;
    } catch (const Error& e) {
      failed_ = true;
      stopped(join("failed: ", e.what()), 0);
      return;
    }
    say_turn(s_.turns()[s_.position() - 1], s_.position());
  }
  say_next();
}
void Debugger::back(const Words& w) {
  for (int64_t n = count_in(w, 1, 1); n > 0 && s_.back();) --n;
  say_next();
}

void Debugger::go(const std::vector<Breakpoint>& until) {
  std::vector<Breakpoint> all = until;
  for (const auto& [n, b] : breaks_) all.push_back(b);
  int at = -1;
  try {
    at = s_.run(all);
  } catch (const Error& e) {
    failed_ = true;
    return stopped(join("failed: ", e.what()), 0);
  }
  if (at >= int(until.size()))
    stopped(s_.stops(all[size_t(at)]), breaks_[size_t(at) - until.size()].first);
  say_next();
}
void Debugger::until(const Words& w) {
  need(w, 2, "a node, such as %3");
  const int node = s_.find_node(w[1]), turn = s_.turn_of(node);
  if (turn >= 0 && turn <= int(s_.position()))
    fail(ErrorKind::value, "until", "the turn of ", s_.name_of(node),
         turn == int(s_.position()) ? " is next" : " is past; go back ",
         turn == int(s_.position()) ? "" : std::to_string(int(s_.position()) - turn));
  go({{Breakpoint::Kind::node, node}});
}

// ---- breakpoints

namespace {
std::string to_text(const Breakpoint& b) {
  switch (b.kind) {
    case Breakpoint::Kind::node:
      return join("node %", b.node);
    case Breakpoint::Kind::op:
      return "op " + b.text;
    case Breakpoint::Kind::path:
      return "path " + b.text;
    case Breakpoint::Kind::norm:
      return join("norm > ", b.bound);
    default:
      return "nan";
  }
}
}  // namespace

void Debugger::add_break(const Words& w) {
  need(w, 2, "op NAME, node %K, path P, norm > X, or nan");
  Breakpoint b{Breakpoint::Kind::nan};
  const std::string& kind = w[1];
  if (kind == "op") {
    need(w, 3, "the name of an op");
    b = s_.at_op(w[2]);
  } else if (kind == "node" || kind.starts_with("%")) {
    if (kind == "node") need(w, 3, "a node, such as %3");
    b = s_.at_node(kind == "node" ? w[2] : kind);
  } else if (kind == "path") {
    need(w, 3, "the path of a module");
    b = s_.at_path(w[2]);
  } else if (kind == "norm") {
    const std::string& last = w.back();
    const auto bound = parse<double>(last.starts_with(">") ? last.substr(1) : last);
    if (!bound || !std::isfinite(*bound) || w.size() > 4 || w.size() < 3)
      fail(ErrorKind::value, "break", "expected norm > X with a finite number X");
    b = {Breakpoint::Kind::norm, -1, "", *bound};
  } else if (kind != "nan") {
    fail(ErrorKind::value, "break", "expected op, node, path, norm or nan, got \"", kind, "\"",
         did_you_mean(kind, Words{"op", "node", "path", "norm", "nan"}));
  }
  breaks_.emplace_back(++last_break_, b);
  if (json_)
    emit(out_, {{"event", "breakpoint"}, {"number", last_break_}, {"at", to_text(b)}});
  else
    out_ << "breakpoint " << last_break_ << ": " << to_text(b) << "\n";
}
void Debugger::list_breaks() {
  if (breaks_.empty() && !json_) out_ << "no breakpoints\n";
  for (const auto& [n, b] : breaks_)
    if (json_)
      emit(out_, {{"event", "breakpoint"}, {"number", n}, {"at", to_text(b)}});
    else
      out_ << "breakpoint " << n << ": " << to_text(b) << "\n";
}
void Debugger::remove_break(const Words& w) {
  if (w.size() < 2) return breaks_.clear();
  const int64_t n = count_in(w, 1, 0);
  if (std::erase_if(breaks_, [&](const auto& b) { return b.first == n; }) == 0)
    fail(ErrorKind::value, "delete", "there is no breakpoint ", n);
}

void Debugger::set(const Words& w) {
  need(w, 3, "a node and a number: set %3 0, or set %3 * 2");
  const Place p = s_.find(w[1]);
  if (p.leaf)
    fail(ErrorKind::value, "set", w[1], " is a leaf: its gradient is read by nobody; set a node's");
  size_t at = 2;
  if (w[at] == "=" && w.size() > 3) ++at;
  const bool scale = w[at][0] == '*';
  const std::string typed = scale && w[at] == "*" && w.size() > at + 1 ? w[at + 1]
                            : scale                                    ? w[at].substr(1)
                                                                       : w[at];
  const auto x = parse<double>(typed);
  if (!x) fail(ErrorKind::value, "set", "expected a number, got \"", typed, "\"");
  const TensorMeta& meta = s_.nodes()[size_t(p.id)]->output_metas()[size_t(p.output)];
  const NoGrad off;
  Tensor g = Tensor::full(meta.sizes, *x, meta.dtype, *meta.device);
  if (scale) {
    const Tensor now = s_.cotangent(p);
    if (s_.turn_of(p.id) != int(s_.position()))
      fail(ErrorKind::value, "set", "the sum that is to be scaled is not complete before ",
           s_.name_of(p.id), " is next; until ", s_.name_of(p));
    g = now.defined() ? mul(now.detach(), g) : g;
  }
  s_.set(p.id, p.output, g);
  if (json_)
    emit(out_, {{"event", "set"}, {"of", s_.name_of(p)}, {"value", tensor_event(g)}});
  else
    out_ << row("g:" + s_.name_of(p) + " is set", g);
}
void Debugger::unset(const Words& w) {
  need(w, 2, "a node");
  const Place p = s_.find(w[1]);
  s_.unset(s_.find_node(w[1]), p.output);
}

void Debugger::end() {
  if (!json_) out_ << "after turn " << s_.position() << " of " << s_.turns().size() << ":\n";
  gradients();
  if (json_)
    emit(out_, {{"event", "result"},
                {"turn", s_.position()},
                {"turns", s_.turns().size()},
                {"complete", s_.at_end() && s_.error().empty()}});
  if (failed_) s_.next();
}

void Debugger::help(const Words& w) {
  std::string text;
  const auto line = [&](const Command& c) {
    const std::string left =
        c.name + (c.brief.empty() ? "" : ", " + c.brief) + (c.arguments.empty() ? "" : " ");
    text += fmt::format("  {:<26} {}\n", left + (c.arguments.size() < 16 ? c.arguments : "WHAT"),
                        c.doc);
    if (c.arguments.size() >= 16) text += "      WHAT: " + c.arguments + "\n";
  };
  if (w.size() > 1)
    line(find(w[1]));
  else
    for (const Command& c : commands()) line(c);
  if (json_)
    emit(out_, {{"event", "help"}, {"text", text}});
  else
    out_ << text;
}

}  // namespace gradus::cli
