// What `gradus step` shows: names, turns, nodes, leaves, the schedule.
#include "cli/look/debugger.hpp"
#include "cli/frame/debugger_text.hpp"
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/vjp_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <ostream>
#include <set>

namespace gradus::inline v1::cli {

namespace {

using audit::Delivery;
using audit::Place;
using audit::Turn;

constexpr size_t kColumns = 80;
constexpr size_t kLeft = 30;  // longer names have a line of their own

// "norm 0.118  0.0016 -0.014 ...": as many elements as the line has room for.
std::string numbers_of(const Tensor& t, size_t room) {
  const audit::TensorStats s = audit::stats_of(t);
  std::string text = fmt::format("norm {:<9.4g}", audit::norm_of(t));
  if (s.nans) text += fmt::format(" {} NaN", s.nans);
  if (s.infs) text += fmt::format(" {} inf", s.infs);
  for (size_t i = 0; i < s.first.size(); ++i) {
    const std::string next = fmt::format(" {:.4g}", s.first[i]);
    const bool last = int64_t(i) + 1 == s.count;
    if (text.size() + next.size() + (last ? 0 : 4) > room) return text + " ...";
    text += next;
  }
  return text + (size_t(s.count) > s.first.size() ? " ..." : "");
}
std::string shortened(const std::string& text, size_t room) {
  return text.size() <= room ? text : text.substr(0, room - 3) + "...";
}
std::string place_text(const GradFn& fn) {
  return fn.trace().empty() ? "" : "   # " + std::string(fn.trace());
}

}  // namespace

std::string type_of(const TensorMeta& m) { return audit::type_text({m.sizes, m.dtype, {}, {}}); }
std::string type_of(const Tensor& t) { return audit::type_text({t.sizes(), t.dtype(), {}, {}}); }

std::string fold(const std::string& text) {
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const size_t space = text.find(' ', text.find_first_not_of(' ', at));
    const std::string word = text.substr(at, space - at);  // with the spaces before it
    if (!line.empty() && line.size() + word.size() > kColumns) {
      out += line + "\n";
      line = "    " + word.substr(word.find_first_not_of(' '));
    } else {
      line += word;
    }
    at = std::min(space, text.size());
  }
  return out + line + "\n";
}
std::string row(const std::string& left, const Tensor& t, const char* none) {
  const std::string type = t.defined() ? type_of(t) : std::string("-");
  const bool fits = left.size() <= kLeft;
  const std::string begin = fmt::format("  {:<24} {:<14} ", fits ? left : "", type);
  return (fits ? "" : "  " + left + "\n") + begin +
         (t.defined() ? numbers_of(t, kColumns - std::min(kColumns, begin.size())) : none) + "\n";
}
Event tensor_event(const Tensor& t) {
  if (!t.defined()) return nullptr;
  const audit::TensorStats s = audit::stats_of(t);
  Event first = Event::array();
  for (const double x : s.first) first.push_back(number_event(x));
  return {{"dtype", dtype_name(t.dtype())},
          {"shape", std::vector<int64_t>(t.sizes().begin(), t.sizes().end())},
          {"norm", number_event(audit::norm_of(t))},
          {"nan", s.nans},
          {"inf", s.infs},
          {"first", first}};
}

// ---- names

std::string Debugger::origin(const Delivery& d) const {
  if (d.turn < 0) return "the seed";
  return join(s_.name_of(s_.turns()[size_t(d.turn)].node), ", operand ", d.operand);
}
std::string Debugger::sum_text(const Place& p) const {
  const size_t n = s_.deliveries(p).size();
  std::string text;
  for (size_t i = 1; i <= std::min<size_t>(n, 4); ++i)
    text += (i > 1 ? " + g" : "g") + std::to_string(i);
  return n == 0 ? "nothing" : n > 4 ? text + join(" + ... + g", n) : text;
}

const char* Debugger::none_text(const Place& p) const {
  if (!s_.error().empty() && s_.arrived(p) == s_.deliveries(p).size())
    return "not known (the walk fails)";
  return s_.arrived(p) < s_.deliveries(p).size() ? "nothing came yet" : "zero (nothing comes)";
}

void Debugger::say_next() {
  const Turn* t = s_.upcoming();
  if (json_) {
    Event e{{"event", "position"}, {"turn", s_.position()}, {"turns", s_.turns().size()}};
    e["next"] = t ? Event(t->node) : Event();
    if (t) e["op"] = s_.nodes()[size_t(t->node)]->op().name;
    if (!t && !s_.error().empty()) e["error"] = s_.error();
    return emit(out_, e);
  }
  if (!t && s_.error().empty())
    out_ << "all " << s_.turns().size() << " turns are taken\n";
  else if (!t)
    out_ << "after turn " << s_.position() << ": the next one fails"
         << (s_.failed_node() < 0 ? "" : " at " + s_.name_of(s_.failed_node())) << "\n";
  else
    out_ << fold(join("next is turn ", s_.position() + 1, " of ", s_.turns().size(), ": ",
                      s_.call_text(t->node)));
}

void Debugger::say_turn(const Turn& turn, size_t n) {
  const GradFn& fn = *s_.nodes()[size_t(turn.node)];
  if (json_) {
    Event e{{"event", "turn"}, {"turn", n}, {"node", turn.node}, {"op", fn.op().name}};
    e["where"] = std::string(fn.trace());
    for (const Tensor& g : turn.in) e["in"].push_back(tensor_event(g));
    for (size_t k = 0; k < turn.out.size(); ++k) {
      const auto to = s_.target(turn.node, int(k));
      Event out{{"operand", k}, {"to", to ? Event(s_.name_of(*to)) : Event()}};
      out["value"] = tensor_event(turn.out[k]);
      e["out"].push_back(out);
    }
    return emit(out_, e);
  }
  out_ << fold(join("turn ", n, " of ", s_.turns().size(), ": vjp of ", s_.name_of(turn.node),
                    place_text(fn)));
  for (size_t i = 0; i < turn.in.size(); ++i)
    out_ << row("in  g:" + s_.name_of({false, turn.node, int(i)}), turn.in[i]);
  for (size_t k = 0; k < turn.out.size(); ++k) {
    const auto to = s_.target(turn.node, int(k));
    if (!to || !turn.out[k].defined()) continue;
    const std::vector<Delivery>& all = s_.deliveries(*to);
    size_t nth = 1;
    for (; all[nth - 1].turn != int(n) - 1 || all[nth - 1].operand != int(k);) ++nth;
    const std::string part =
        all.size() > 1 ? join(nth == 1 ? " = g" : " += g", nth, " of ", all.size()) : "";
    out_ << row("out g:" + s_.name_of(*to) + part, turn.out[k]);
  }
}

void Debugger::show_next() {
  if (s_.upcoming())
    show_node(s_.upcoming()->node);
  else if (s_.failed_node() >= 0)
    show_node(s_.failed_node());
  else
    fail(ErrorKind::value, "show", "all turns are taken; name a node or a leaf");
}

void Debugger::show_node(int node) {
  GradFn& fn = *s_.nodes()[size_t(node)];
  const int turn = s_.turn_of(node);
  if (json_) {
    Event e{{"event", "node"}, {"node", node}, {"op", fn.op().name}, {"call", s_.call_text(node)}};
    e["where"] = std::string(fn.trace());
    e["turn"] = turn < 0 ? Event() : Event(turn + 1);
    for (size_t i = 0; i < fn.output_metas().size(); ++i) {
      const Place p{false, node, int(i)};
      Event in{{"value", tensor_event(s_.cotangent(p))}, {"set", s_.is_set(node, int(i))}};
      for (const Delivery& d : s_.deliveries(p)) in["sum_of"].push_back(origin(d));
      e["in"].push_back(in);
    }
    return emit(out_, e);
  }
  const bool past = turn >= 0 && turn < int(s_.position());
  out_ << fold(s_.call_text(node) + place_text(fn));
  out_ << "  "
       << (node == s_.failed_node()          ? "the walk fails here"
           : turn < 0 && !s_.error().empty() ? "the walk fails before it comes here"
           : turn < 0                        ? "backward does not come here"
                                             : join("turn ", turn + 1, " of ", s_.turns().size(),
                             past                         ? ", taken"
                                                    : turn == int(s_.position()) ? ", next"
                                                                                 : ", waiting"))
       << "\n";
  if (!fn.op().formula.empty()) out_ << "  " << fn.op().formula << "\n";
  for (const std::string& d : audit::vjp_text(fn).words()) out_ << fold("  " + d);
  for (const Saved& s : fn.saved()) {
    const std::string what = s.role == Saved::Role::output  ? "y"
                             : s.role == Saved::Role::extra ? "extra"
                                                            : audit::operand_name(fn.op(), s.index);
    out_ << "  saved " << what << " "
         << (s.packed ? audit::type_text({s.packed->sizes, s.packed->dtype, {}, {}})
                      : type_of(s.tensor) + ", " + audit::bytes_text(double(s.tensor.bytes())))
         << (s.read ? ", read" : ", not read") << "\n";
  }
  for (size_t i = 0; i < fn.output_metas().size(); ++i) {
    const Place p{false, node, int(i)};
    const std::vector<Delivery>& all = s_.deliveries(p);
    out_ << row("g:" + s_.name_of(p) + " = " + sum_text(p) +
                    (s_.is_set(node, int(i)) ? ", set by hand" : ""),
                s_.cotangent(p), none_text(p));
    for (size_t k = 0; k < all.size(); ++k)
      out_ << "    g" << k + 1 << " is " << origin(all[k])
           << (all[k].turn < int(s_.position()) ? "" : join(", at turn ", all[k].turn + 1)) << "\n";
  }
  if (!past) return;
  const Turn& t = s_.turns()[size_t(turn)];
  std::string ops;
  for (const OpInfo* op : t.calls) ops += (ops.empty() ? "" : ", ") + op->name;
  if (!ops.empty()) out_ << fold("  its vjp ran " + ops);
  for (size_t k = 0; k < t.out.size(); ++k)
    if (const auto to = s_.target(node, int(k)); to && t.out[k].defined())
      out_ << row(join("to g:", s_.name_of(*to)), t.out[k]);
}

void Debugger::show_leaf(int leaf) {
  const Place p{true, leaf, 0};
  const std::vector<Delivery>& all = s_.deliveries(p);
  if (json_) {
    Event e{{"event", "leaf"}, {"leaf", s_.name_of(p)}, {"arrived", s_.arrived(p)}};
    for (const Delivery& d : all) e["sum_of"].push_back(origin(d));
    e["value"] = tensor_event(s_.cotangent(p));
    return emit(out_, e);
  }
  out_ << "grad of " << s_.name_of(p) << " = " << sum_text(p) << ", " << s_.arrived(p) << " of "
       << all.size() << " here\n";
  for (size_t k = 0; k < all.size(); ++k) {
    const bool here = all[k].turn < int(s_.position());
    out_ << "  g" << k + 1 << " from " << origin(all[k]) << ", turn " << all[k].turn + 1
         << (here ? "" : ", not yet") << "\n";
    if (here) out_ << row("", s_.delivered(all[k]));
  }
  out_ << row("sum", s_.cotangent(p), none_text(p));
}

void Debugger::list(int around) {
  const auto position = int(s_.position()), turns = int(s_.turns().size());
  for (int t = std::max(0, position - around); t < std::min(turns, position + around + 1); ++t) {
    const int node = s_.turns()[size_t(t)].node;
    size_t here = 0, all = 0;
    for (size_t i = 0; i < s_.nodes()[size_t(node)]->output_metas().size(); ++i) {
      here += s_.arrived({false, node, int(i)});
      all += s_.deliveries({false, node, int(i)}).size();
    }
    if (json_)
      emit(out_, {{"event", "schedule"},
                  {"turn", t + 1},
                  {"node", node},
                  {"op", s_.nodes()[size_t(node)]->op().name},
                  {"arrived", here},
                  {"of", all}});
    else
      out_ << fmt::format("{} {:>4}  {:<58} {}\n", t == position ? "->" : "  ", t + 1,
                          shortened(s_.call_text(node), 58),
                          t < position ? "taken" : join(here, "/", all, " here"));
  }
  if (turns == position) say_next();
}

void Debugger::print(const Place& p) {
  const Tensor g = s_.cotangent(p);
  if (json_)
    emit(out_, {{"event", "cotangent"}, {"of", s_.name_of(p)}, {"value", tensor_event(g)}});
  else
    out_ << (g.defined() ? g.detach().to_string() : none_text(p)) << "\n";
}

void Debugger::gradients() {
  for (size_t i = 0; i < s_.leaves().size(); ++i) {
    const Place p{true, int(i), 0};
    if (json_)
      emit(out_, {{"event", "gradient"},
                  {"leaf", s_.name_of(p)},
                  {"arrived", s_.arrived(p)},
                  {"of", s_.deliveries(p).size()},
                  {"value", tensor_event(s_.cotangent(p))}});
    else
      out_ << row("grad of " + s_.name_of(p), s_.cotangent(p), none_text(p));
  }
}

}  // namespace gradus::cli
