// gradus.audit: what ops/audit/ sees, for scripts. Each function takes another function, which runs
// under a watch of its own, or the tensors it should look at, made under gradus.audit.watch.
#include "ops/audit/judge/audit.hpp"

#include "bindings/lua/audit/audit.hpp"
#include "bindings/lua/userdata.hpp"
#include "engine/files/file.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace gradus::inline v1::lua {

Subject::Subject(lua_State* L, const char* who) {
  if (lua_isfunction(L, 1)) {
    own.emplace(L);
    roots = results_of(L, 1);
  } else if (!lua_isnoneornil(L, 1)) {
    roots = list_at(L, 1, who);
  }
  watch = types_of(L).watch;
}
const audit::Watch& Subject::watched(const char* who) const {
  if (!watch)
    fail(ErrorKind::value, who, "a graph keeps only what its derivatives read; give it the ",
         "function that computes this, or call it within gradus.audit.watch(function() ... end)");
  return *watch;
}
void Subject::begin_walk(lua_State* L) const {
  if (!roots.empty()) look(L, roots, {}, Moment::backward);
}
void Subject::end_walk(lua_State* L) {
  own.reset();
  watch = nullptr;
  if (!roots.empty()) look(L, roots, {}, Moment::walked);
}
Tensors Subject::results_of(lua_State* L, int function) {
  const int before = lua_gettop(L);
  lua_pushvalue(L, function);
  call(L, 0, LUA_MULTRET);
  Tensors out;
  for (int i = before + 1; i <= lua_gettop(L); ++i)
    if (const Tensor* const t = tensor_at(L, i)) out.push_back(*t);
  lua_settop(L, before);
  return out;
}

void set_field(lua_State* L, const char* name, const std::string& text) {
  lua_pushlstring(L, text.data(), text.size());
  lua_setfield(L, -2, name);
}
void set_field(lua_State* L, const char* name, double number) {
  lua_pushnumber(L, number);
  lua_setfield(L, -2, name);
}
void set_field(lua_State* L, const char* name, int64_t number) {
  lua_pushinteger(L, number);
  lua_setfield(L, -2, name);
}
void set_field(lua_State* L, const char* name, bool on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, name);
}

void set_field(lua_State* L, const char* name, const Shape& subscript) {
  lua_createtable(L, int(subscript.size()), 0);
  for (size_t i = 0; i < subscript.size(); ++i) {
    lua_pushinteger(L, subscript[i] + 1);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
  lua_setfield(L, -2, name);
}

void check_options(lua_State* L, const char* who, const std::vector<std::string>& known) {
  if (lua_isnoneornil(L, 2)) return;
  if (!lua_istable(L, 2))
    fail(ErrorKind::value, who, "expected a table of options, got ", kind_at(L, 2));
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    const std::string name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : kind_at(L, -2);
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(ErrorKind::value, who, "there is no option \"", name, "\"", did_you_mean(name, known));
  }
}
std::string text_option(lua_State* L, int options, const char* name) {
  if (!lua_istable(L, options)) return "";
  lua_getfield(L, options, name);
  const std::string text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  if (text.empty() && !lua_isnil(L, -1))
    fail(ErrorKind::value, "audit", name, ": expected a text, got ", kind_at(L, -1));
  lua_pop(L, 1);
  return text;
}
bool flag_option(lua_State* L, int options, const char* name) {
  if (!lua_istable(L, options)) return false;
  lua_getfield(L, options, name);
  const bool on = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return on;
}

nn::NamedTensors leaves_behind(lua_State* L, const Tensors& roots) {
  std::set<const Autograd*> leaves;
  for (const Ref<GradFn>& node : audit::nodes_behind(roots))
    for (const Edge& e : node->inputs()) leaves.insert(e.leaf.get());
  nn::NamedTensors named = variables(L);
  std::erase_if(named,
                [&](const auto& n) { return !leaves.contains(n.second.body()->autograd.get()); });
  return named;
}

void push(lua_State* L, const TurnTold& turn) {
  luaL_checkstack(L, 8, "no room for a step");
  lua_createtable(L, 0, 5);
  set_field(L, "node", turn.node);
  set_field(L, "op", turn.op);
  set_field(L, "where", turn.where);
  lua_createtable(L, int(turn.cotangents.size()), 0);
  for (size_t k = 0; k < turn.cotangents.size(); ++k) {
    if (!turn.cotangents[k].defined()) continue;
    push(L, turn.cotangents[k].detach());
    lua_rawseti(L, -2, int64_t(k + 1));
  }
  lua_setfield(L, -2, "cotangents");
  lua_createtable(L, int(turn.sent.size()), 0);
  for (size_t i = 0; i < turn.sent.size(); ++i) {
    const TurnTold::Sent& s = turn.sent[i];
    lua_createtable(L, 0, 5);
    set_field(L, "operand", s.operand);
    set_field(L, "to", s.to);
    push(L, s.value.detach());
    lua_setfield(L, -2, "value");
    set_field(L, "nth", s.nth);
    set_field(L, "of", s.of);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
  lua_setfield(L, -2, "sent");
}

namespace {

constexpr const char* kReport = "gradus.Report";

// gradus.audit.watch(f, ...): what f gives; all that runs in it can be looked at
int watch_of(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  const OpenWatch watch(L);
  call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// gradus.audit.check(f or y [, {against = "reference"}]): lines, worst first, and `bad`, how many
// of them are wrong
int check_of(lua_State* L) {
  check_options(L, "audit.check", {"against"});
  Subject subject(L, "audit.check");
  audit::Options options;
  if (const std::string device = text_option(L, 2, "against"); !device.empty()) {
    if (types_of(L).sandboxed && device.find_first_of("{/.") != std::string::npos)
      fail(ErrorKind::value, "audit.check", "against: expected a device such as reference, got \"",
           device, "\"");
    options.against = &open_device(device);
    limit_memory_of(L, *options.against);
  }
  const audit::Watch& watch = subject.watched("audit.check");
  subject.begin_walk(L);
  const audit::Report report = audit::audit(watch, subject.roots, options);
  if (report.lines.empty())
    fail(ErrorKind::value, "audit.check", "there is nothing to judge: no node was recorded, since ",
         "no operand requires a gradient");
  lua_createtable(L, int(report.lines.size()), 1);
  for (size_t i = 0; i < report.lines.size(); ++i) {
    const audit::Line& l = report.lines[i];
    lua_createtable(L, 0, 8);
    set_field(L, "op", l.call->op->name);
    set_field(L, "where", l.call->where);
    set_field(L, "operands", l.call->shapes());
    set_field(L, "verdict", std::string(audit::to_text(l.verdict)));
    set_field(L, "bad", l.bad());
    set_field(L, "error", l.error);
    set_field(L, "tolerance", l.tolerance);
    set_field(L, "condition", l.condition);
    set_field(L, "text", l.text);
    set_field(L, "remark", l.remark);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
  subject.end_walk(L);
  lua_pushinteger(L, int64_t(report.bad));
  lua_setfield(L, -2, "bad");
  luaL_setmetatable(L, kReport);
  return 1;
}

// A report as text: what is wrong, and how many nodes were judged.
int report_text(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  std::string text;
  const auto field = [&](const char* name) {
    lua_getfield(L, 2, name);
    const std::string s = luaL_tolstring(L, -1, nullptr);
    lua_pop(L, 2);
    return s;
  };
  const auto lines = int64_t(lua_rawlen(L, 1));
  int64_t bad = 0;
  for (int64_t i = 1; i <= lines; ++i, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, i);
    lua_getfield(L, 2, "bad");
    const bool wrong = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    bad += wrong;
    if (wrong)
      text +=
          join(field("where").empty() ? "" : field("where") + ": ", field("op"), "(",
               field("operands"), ") is wrong by ", field("verdict"), ": ", field("text"), "\n");
  }
  text += join(lines, lines == 1 ? " node: " : " nodes: ",
               bad == 0 ? std::string("no wrong derivative")
                        : join(bad, bad == 1 ? " is" : " are", " wrong"));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// gradus.audit.birth(f or y [, {infinities = true}]): where the first NaN comes from, or nil
int birth_of(lua_State* L) {
  check_options(L, "audit.birth", {"infinities"});
  const Subject subject(L, "audit.birth");
  const audit::Watch& watch = subject.watched("audit.birth");
  const bool infinities = flag_option(L, 2, "infinities");
  std::optional<audit::Birth> birth = audit::birth(watch, infinities);
  const bool backward = !birth;
  if (!birth) birth = audit::birth_in_backward(watch, subject.roots, infinities);
  if (!birth) return lua_pushnil(L), 1;
  lua_newtable(L);
  set_field(L, "op", birth->call->op->name);
  set_field(L, "where", birth->call->where);
  set_field(L, "value", birth->value);
  set_field(L, "text", birth->text);
  set_field(L, "backward", backward);
  set_field(L, "from_outside", birth->from_outside);
  if (birth->operand >= 0) {
    lua_pushinteger(L, birth->operand + 1);
    lua_setfield(L, -2, "operand");
  }
  set_field(L, "element", birth->element);
  return 1;
}

// gradus.audit.unreached(f or y, parameters): {name = why} of those that get no gradient
int unreached_of(lua_State* L) {
  const Subject subject(L, "audit.unreached");
  nn::NamedTensors named;
  if (const nn::Sequential* const network = network_at(L, 2)) {
    named = network->parameters();
  } else if (lua_istable(L, 2) && lua_rawlen(L, 2) == 0) {
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        fail(ErrorKind::value, "audit.unreached", "parameters: names or 1, 2, ...");
      named.emplace_back(lua_tostring(L, -2), operand_at(L, -1, "audit.unreached"));
    }
  } else {
    for (const Tensor& t : list_at(L, 2, "audit.unreached: parameters")) named.emplace_back("", t);
  }
  Tensors parameters;
  for (const auto& [name, t] : named) parameters.push_back(t);
  lua_newtable(L);
  for (const audit::Unreached& u :
       audit::unreached(subject.watched("audit.unreached"), subject.roots, parameters)) {
    lua_pushstring(L, u.why.c_str());
    if (const std::string& name = named[u.which].first; !name.empty())
      lua_setfield(L, -2, name.c_str());
    else
      lua_rawseti(L, -2, int64_t(u.which + 1));
  }
  return 1;
}

// gradus.audit.graph(f or y [, {html = "a.html", svg =, dot =, json =}]): both passes as text. A
// file has the ending of its kind, so that a script in the sandbox writes over no other.
int graph_of(lua_State* L) {
  struct Kind {
    const char* name;
    std::string (*write)(const audit::GraphView&);
    std::string file{};
  };
  Kind kinds[] = {{"html", audit::to_html},
                  {"svg", audit::to_svg},
                  {"dot", audit::to_dot},
                  {"json", audit::to_json}};
  check_options(L, "audit.graph", {"html", "svg", "dot", "json", "title"});
  bool files = false;
  for (Kind& k : kinds) {
    k.file = text_option(L, 2, k.name);
    files |= !k.file.empty();
    if (!k.file.empty() && !k.file.ends_with(std::string(".") + k.name))
      fail(ErrorKind::io, k.file, "expected a file that ends in .", k.name);
    if (!k.file.empty()) check_path(L, k.file, Access::write);
  }
  std::string title = text_option(L, 2, "title");
  Tensors roots;
  std::optional<audit::GraphRecorder> recorder;
  if (lua_isfunction(L, 1)) {
    recorder.emplace(device_of(L), files);
    roots = Subject::results_of(L, 1);
  } else {
    roots = list_at(L, 1, "audit.graph");
  }
  if (roots.empty()) fail(ErrorKind::value, "audit.graph", "the function gave no tensor");
  audit::GraphView view =
      audit::read_graph(roots, leaves_behind(L, roots), recorder ? &*recorder : nullptr);
  recorder.reset();
  view.title = title;
  if (files)
    audit::add_sources(view, [L](const std::string& place) { return source_of(L, place); });
  for (const Kind& k : kinds)
    if (!k.file.empty()) write_file_atomically(k.file, k.write(view));
  const std::string text = audit::to_text(view);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// gradus.audit.mark(y, ...): here `gradus graph` and its kin look, if they run this script
int mark_of(lua_State* L) {
  Tensors roots;
  for (int i = 1; i <= std::max(lua_gettop(L), 1); ++i) {
    roots.push_back(operand_at(L, i, "audit.mark"));
    if (!roots.back().requires_grad())
      fail(ErrorKind::autograd, "audit.mark", "the tensor of shape ", roots.back().sizes(),
           " has no history");
  }
  look(L, roots, {}, Moment::mark);
  return 0;
}

// ---- gradus.audit.backward(f or y, function(step) ... end): backward, told node by node. A step
// is {node = "%3", op =, where =, cotangents = {...}, sent = {{operand =, to = "w" or "%1", value
// =, nth =, of =}, ...}}; nodes are numbered as `gradus graph` does, in the order of recording.

class Told {
 public:
  Told(lua_State* L, const Subject& subject, int function)
      : L_(L),
        function_(function),
        watch_(subject.watch),
        nodes_(audit::nodes_behind(subject.roots)),
        hooked_(nodes_, {}, [this](int id, const Tensors& sent, const Tensors& came) {
          tell(*nodes_[size_t(id)], sent, came);
        }) {
    for (const auto& [name, leaf] : variables(L)) {
      leaves_[leaf.body()->autograd.get()] = name;
    }
    for (const Ref<GradFn>& node : nodes_)
      for (const Edge& e : node->inputs()) ++uses_[place(e)];
    for (size_t i = 0; i < nodes_.size(); ++i) ids_[nodes_[i].get()] = int64_t(i);
  }

 private:
  using Where = std::pair<const void*, uint32_t>;
  static Where place(const Edge& e) {
    return {e.fn ? static_cast<const void*>(e.fn.get()) : e.leaf.get(), e.index};
  }
  std::string name(const Edge& e) {
    if (e.fn) return join("%", ids_.at(e.fn.get()));
    const auto [at, fresh] = leaves_.try_emplace(e.leaf.get());
    if (fresh) at->second = join("leaf", unnamed_++);
    return at->second;
  }

  void tell(const GradFn& node, const Tensors& sent, const Tensors& came) {
    const audit::Call* const call_seen = watch_ ? watch_->find(&node) : nullptr;
    TurnTold turn{join("%", ids_.at(&node)),
                  node.op().name,
                  call_seen ? call_seen->where : std::string(node.trace()),
                  came,
                  {}};
    for (size_t k = 0; k < sent.size(); ++k) {
      const Edge& edge = node.inputs()[k];
      if (!sent[k].defined() || !edge.leads_somewhere()) continue;
      turn.sent.push_back(
          {int64_t(k + 1), name(edge), sent[k], ++done_[place(edge)], uses_.at(place(edge))});
    }
    lua_pushvalue(L_, function_);
    push(L_, turn);
    call(L_, 1, 0);
  }

  lua_State* L_;
  int function_;
  const audit::Watch* watch_;
  std::vector<Ref<GradFn>> nodes_;
  audit::Hooked hooked_;
  std::unordered_map<const GradFn*, int64_t> ids_{};
  std::unordered_map<const Autograd*, std::string> leaves_{};
  int64_t unnamed_ = 0;
  std::map<Where, int64_t> uses_{}, done_{};
};

int watched_backward(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  Subject subject(L, "audit.backward");
  if (subject.roots.empty())
    fail(ErrorKind::value, "audit.backward", "the function gave no tensor");
  subject.begin_walk(L);
  {
    const Told told(L, subject, 2);
    const Unwatched quiet;
    gradus::backward(subject.roots, Tensors(subject.roots.size()));
  }
  subject.end_walk(L);
  return 0;
}

}  // namespace

void open_audit(lua_State* L) {
  open_type(L, kReport, {{"__tostring", bind<report_text>}});
  const luaL_Reg functions[] = {{"watch", bind<watch_of>}, {"check", bind<check_of>},
                                {"birth", bind<birth_of>}, {"unreached", bind<unreached_of>},
                                {"graph", bind<graph_of>}, {"backward", bind<watched_backward>},
                                {"mark", bind<mark_of>},   {nullptr, nullptr}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  add_step_functions(L);
  add_stepper(L);
  lua_setfield(L, -2, "audit");
}

}  // namespace gradus::lua
