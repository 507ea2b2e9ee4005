// gradus.blocks.leg(arrow, {{charge, size}, ...} [, {mods, parity} or {symmetry = "fU(1)"}])
#include "bindings/lua/blocks/blocks.hpp"
#include "bindings/lua/words.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

namespace {

using LegUserdata = Userdata<std::optional<Leg>, kLeg>;
constexpr const char* kFields[] = {"arrow", "sectors",  "size",   "count",
                                   "parts", "symmetry", "neutral"};

const Leg& leg_self(lua_State* L) {
  const Leg* const leg = leg_at(L, 1);
  if (!leg) fail(ErrorKind::value, "leg", "called on ", kind_at(L, 1));
  return *leg;
}

Symmetry symmetry_at(lua_State* L, int index) {
  Options options(L, index, "leg");
  Symmetry g{{0}, {}};
  std::string name;
  options.text("symmetry", name);
  if (options.push("mods")) {
    if (!name.empty())
      fail(ErrorKind::value, "leg", "symmetry and mods say the same: one of them is enough");
    g.mods.clear();
    for (const int64_t n : sizes_at(L, -1, "leg: mods")) g.mods.push_back(n);
    lua_pop(L, 1);
  }
  if (!name.empty()) g = symmetry_called("leg", name);
  if (options.push("parity")) {
    g.parity.clear();
    for (const int64_t k : sizes_at(L, -1, "leg: parity")) {
      if (k < 1 || k > int64_t(g.mods.size()))
        fail(ErrorKind::value, "leg", "parity names component ", k, " of charges that have ",
             g.mods.size(), "; they count from 1");
      g.parity.push_back(k - 1);
    }
    lua_pop(L, 1);
  }
  options.finish();
  return g;
}

int make_leg(lua_State* L) {
  at_most(L, 3, "leg");
  if (!lua_istable(L, 2))
    fail(ErrorKind::value, "leg", "expected gradus.blocks.leg(1, {{charge, size}, ...}), got ",
         kind_at(L, 2), " for the sectors");
  const int64_t arrow = integer_at(L, 1, "leg: arrow");
  if (arrow != 1 && arrow != -1)
    fail(ErrorKind::value, "leg", "an arrow is 1 (charges count as they are) or -1, got ", arrow);
  const Symmetry g = symmetry_at(L, 3);
  std::vector<Sector> sectors = sectors_at(L, 2, "leg");
  push_leg(L, saying_legs_from_one([&] { return Leg(g, int(arrow), std::move(sectors), "leg"); }));
  return 1;
}

int reversed(lua_State* L) {
  push_leg(L, leg_self(L).reversed());
  return 1;
}

void push_sectors(lua_State* L, const Leg& leg) {
  lua_createtable(L, int(leg.count()), 0);
  for (size_t i = 0; i < leg.count(); ++i) {
    lua_createtable(L, 2, 0);
    push_charge(L, leg.sectors()[i].charge);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, leg.sectors()[i].size);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}

int get(lua_State* L) {
  const Leg& leg = leg_self(L);
  const std::string_view name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (name == "arrow") return lua_pushinteger(L, leg.arrow()), 1;
  if (name == "sectors") return push_sectors(L, leg), 1;
  if (name == "size") return lua_pushinteger(L, leg.size()), 1;
  if (name == "count") return lua_pushinteger(L, int64_t(leg.count())), 1;
  if (name == "neutral") return lua_pushboolean(L, leg.is_neutral()), 1;
  if (name == "symmetry") return lua_pushstring(L, leg.symmetry().text().c_str()), 1;
  if (name == "reversed") return lua_pushcfunction(L, bind<reversed>), 1;
  if (name == "parts") {
    lua_newtable(L);
    int64_t i = 0;
    for (const Leg& part : leg.parts()) {
      push_leg(L, part);
      lua_rawseti(L, -2, ++i);
    }
    return 1;
  }
  std::vector<std::string> known(std::begin(kFields), std::end(kFields));
  known.emplace_back("reversed");
  fail(ErrorKind::value, "leg", "has no \"", name.substr(0, 100), "\"",
       did_you_mean(std::string(name), known));
}

int set(lua_State* L) {
  leg_self(L);
  fail(ErrorKind::value, "leg", "a leg stays as it is; gradus.blocks.leg makes another");
}
int length(lua_State* L) {
  leg_self(L);
  fail(ErrorKind::value, "#",
       "of a leg: leg.count is how many sectors it has, leg.size how many "
       "indices");
}

int text(lua_State* L) {
  const Leg& leg = leg_self(L);
  lua_pushstring(L, join("leg ", leg.text(), ", ", leg.symmetry().text()).c_str());
  return 1;
}
int same(lua_State* L) {
  const Leg *const a = leg_at(L, 1), *const b = leg_at(L, 2);
  lua_pushboolean(L, a && b && *a == *b);
  return 1;
}

}  // namespace

void push_leg(lua_State* L, const Leg& leg) { LegUserdata::push(L, leg); }
const Leg* leg_at(lua_State* L, int index) {
  const auto* const leg = LegUserdata::at(L, index);
  return leg && *leg ? &**leg : nullptr;
}

Charge charge_value(lua_State* L, int index, const std::string& what) {
  Charge q;
  for (const int64_t n : sizes_at(L, index, what.c_str())) q.push_back(n);
  return q;
}
void push_charge(lua_State* L, const Charge& q) {
  if (q.size() == 1) return lua_pushinteger(L, q[0]);
  lua_createtable(L, int(q.size()), 0);
  for (size_t i = 0; i < q.size(); ++i) {
    lua_pushinteger(L, q[i]);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}

std::vector<Sector> sectors_at(lua_State* L, int index, const std::string& what) {
  std::vector<Sector> sectors;
  const int table = lua_absindex(L, index);
  const auto length = int64_t(lua_rawlen(L, table));
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {  // {[-1] = 2} lists nothing
    look_at_clock(L);
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= length)
      continue;
    lua_pushvalue(L, -2);
    const std::string key = lua_tostring(L, -1) ? lua_tostring(L, -1) : kind_at(L, -1);
    fail(ErrorKind::value, what,
         "expected a list of sectors {{charge, size}, ...}, got a table "
         "with the key ",
         key.substr(0, 100));
  }
  each_of(L, index, [&] {
    const std::string which = join(what, ": sector ", sectors.size() + 1);
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 2)
      fail(ErrorKind::value, which, "expected {charge, size}, got ", kind_at(L, -1));
    Sector s{};
    lua_rawgeti(L, -1, 1);
    s.charge = charge_value(L, -1, which);
    lua_rawgeti(L, -2, 2);
    s.size = integer_at(L, -1, which.c_str());
    lua_pop(L, 2);
    sectors.push_back(std::move(s));
  });
  return sectors;
}

void add_leg(lua_State* L) {
  open_type(L, kLeg,
            {{"__index", bind<get>},
             {"__tostring", bind<text>},
             {"__eq", bind<same>},
             {"__len", bind<length>},
             {"__newindex", bind<set>},
             {"__gc", LegUserdata::collect}},
            {}, kFields);
  lua_pushcfunction(L, bind<make_leg>);
  lua_setfield(L, -2, "leg");
}

}  // namespace gradus::lua
