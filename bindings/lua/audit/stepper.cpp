// s = gradus.audit.stepper(f or y): backward one node at a time, and back
// (ops/audit/step/stepper.hpp).
//   s:next(), s:back()         the turn that was taken, as a table; nil at the end, or the begin
//   s:run{op = "mul"}          turns until one of {node =, op =, path =, norm =, nan = true} stops
//                              it; why, or nil at the end
//   s:upcoming(), s:position() whose turn is next ("%3 mul", or nil); how many are taken
//   s:cotangent("%3" or "w")   what stands there now, or nil
//   s:set("%3", tensor)        the vjp of that node will read this instead; nil undoes it
#include "bindings/lua/audit/audit.hpp"
#include "ops/audit/step/stepper.hpp"

#include <cmath>

namespace gradus::inline v1::lua {

namespace {

constexpr const char* kStepper = "gradus.Stepper";
using Owned = std::unique_ptr<audit::Stepper>;

audit::Stepper& self(lua_State* L) {
  auto* const s = static_cast<Owned*>(luaL_testudata(L, 1, kStepper));
  if (!s || !*s)
    fail(ErrorKind::value, "audit.stepper", "called on ", kind_at(L, 1), "; write s:next()");
  return **s;
}
const char* name_at(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TSTRING)
    fail(ErrorKind::value, "audit.stepper", "expected a node such as \"%3\", or the name of a ",
         "leaf, got ", kind_at(L, index));
  return lua_tostring(L, index);
}

int make(lua_State* L) {
  Subject subject(L, "audit.stepper");
  if (subject.roots.empty()) fail(ErrorKind::value, "audit.stepper", "the function gave no tensor");
  subject.begin_walk(L);
  {
    const Unwatched quiet;
    auto stepper = std::make_unique<audit::Stepper>(subject.roots, leaves_behind(L, subject.roots));
    new (lua_newuserdatauv(L, sizeof(Owned), 0)) Owned(std::move(stepper));
    luaL_setmetatable(L, kStepper);
  }
  subject.end_walk(L);
  return 1;
}

void push_turn(lua_State* L, const audit::Stepper& s, size_t position) {
  const audit::Turn& turn = s.turns()[position];
  const GradFn& node = *s.nodes()[size_t(turn.node)];
  TurnTold told{
      s.name_of({false, turn.node, 0}), node.op().name, std::string(node.trace()), turn.in, {}};
  for (size_t k = 0; k < turn.out.size(); ++k) {
    const std::optional<audit::Place> to = s.target(turn.node, int(k));
    if (!to || !turn.out[k].defined()) continue;
    const auto& all = s.deliveries(*to);
    int64_t nth = 0;
    while (all[size_t(nth)].turn != int(position) || all[size_t(nth)].operand != int(k)) ++nth;
    told.sent.push_back(
        {int64_t(k + 1), s.name_of(*to), turn.out[k], nth + 1, int64_t(all.size())});
  }
  push(L, told);
}

int next(lua_State* L) {
  audit::Stepper& s = self(L);
  if (!s.next()) return lua_pushnil(L), 1;
  push_turn(L, s, s.position() - 1);
  return 1;
}
int back(lua_State* L) {
  audit::Stepper& s = self(L);
  if (!s.back()) return lua_pushnil(L), 1;
  push_turn(L, s, s.position());
  return 1;
}

int run(lua_State* L) {
  using Kind = audit::Breakpoint::Kind;
  audit::Stepper& s = self(L);
  check_options(L, "audit.stepper: run", {"node", "op", "path", "norm", "nan"});
  std::vector<audit::Breakpoint> breakpoints;
  const auto option = [&](const char* name, auto f) {
    if (!lua_istable(L, 2)) return;
    if (lua_getfield(L, 2, name) != LUA_TNIL) f();
    lua_pop(L, 1);
  };
  option("node", [&] { breakpoints.push_back(s.at_node(name_at(L, -1))); });
  option("op", [&] { breakpoints.push_back(s.at_op(text_option(L, 2, "op"))); });
  option("path", [&] { breakpoints.push_back(s.at_path(text_option(L, 2, "path"))); });
  option("norm", [&] {
    if (lua_type(L, -1) != LUA_TNUMBER || !std::isfinite(lua_tonumber(L, -1)))
      fail(ErrorKind::value, "audit.stepper", "norm: expected a finite number, got ",
           lua_type(L, -1) == LUA_TNUMBER ? std::string(lua_tostring(L, -1)) : kind_at(L, -1));
    breakpoints.push_back({Kind::norm, -1, "", lua_tonumber(L, -1)});
  });
  option("nan", [&] {
    if (lua_toboolean(L, -1)) breakpoints.push_back({Kind::nan});
  });
  const int stopped = s.run(breakpoints);
  if (stopped < 0) return lua_pushnil(L), 1;
  lua_pushstring(L, s.stops(breakpoints[size_t(stopped)]).c_str());
  return 1;
}

int upcoming(lua_State* L) {
  const audit::Stepper& s = self(L);
  if (s.at_end()) return lua_pushnil(L), 1;
  lua_pushstring(L, s.name_of(s.upcoming()->node).c_str());
  return 1;
}
int position(lua_State* L) {
  lua_pushinteger(L, int64_t(self(L).position()));
  return 1;
}
int cotangent(lua_State* L) {
  const audit::Stepper& s = self(L);
  const Tensor t = s.cotangent(s.find(name_at(L, 2)));
  if (!t.defined()) return lua_pushnil(L), 1;
  push(L, t.detach());
  return 1;
}
int set(lua_State* L) {
  audit::Stepper& s = self(L);
  const int node = s.find_node(name_at(L, 2)), output = s.find(name_at(L, 2)).output;
  const Unwatched quiet;
  if (lua_isnoneornil(L, 3))
    s.unset(node, output);
  else
    s.set(node, output, operand_at(L, 3, "audit.stepper"));
  return 0;
}
int collect(lua_State* L) {
  if (auto* const s = static_cast<Owned*>(luaL_testudata(L, 1, kStepper))) s->reset();
  return 0;
}

}  // namespace

void add_stepper(lua_State* L) {
  luaL_newmetatable(L, kStepper);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  const luaL_Reg methods[] = {{"next", bind<next>},         {"back", bind<back>},
                              {"run", bind<run>},           {"upcoming", bind<upcoming>},
                              {"position", bind<position>}, {"cotangent", bind<cotangent>},
                              {"set", bind<set>},           {nullptr, nullptr}};
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, kStepper);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  lua_pushcfunction(L, bind<make>);
  lua_setfield(L, -2, "stepper");
}

}  // namespace gradus::lua
