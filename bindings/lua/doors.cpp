// What the program around a script offers it: functions from a table to a table, as JSON.
#include "bindings/lua/state.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::lua {

using Json = nlohmann::json;

Json json_at(lua_State* L, int index, int depth) {
  if (depth > 100) fail(ErrorKind::value, "table", "too deep, or it holds itself");
  const int at = lua_absindex(L, index);
  switch (lua_type(L, at)) {
    case LUA_TNIL:
      return nullptr;
    case LUA_TBOOLEAN:
      return lua_toboolean(L, at) != 0;
    case LUA_TNUMBER:
      return lua_isinteger(L, at) ? Json(int64_t(lua_tointeger(L, at))) : Json(lua_tonumber(L, at));
    case LUA_TSTRING:
      return lua_tostring(L, at);
    case LUA_TTABLE:
      break;
    default:
      fail(ErrorKind::value, "table", "expected numbers, texts, booleans and tables, got ",
           kind_at(L, at));
  }
  luaL_checkstack(L, 4, "tables too deep");
  const auto length = int64_t(lua_rawlen(L, at));
  Json out = length > 0 ? Json::array() : Json::object();
  each_of(L, at, [&] { out.push_back(json_at(L, -1, depth + 1)); });
  if (length > 0) return out;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    look_at_clock(L);
    if (lua_type(L, -2) != LUA_TSTRING)
      fail(ErrorKind::value, "table", "a key is ", kind_at(L, -2),
           "; names or 1, 2, ... are expected");
    out[lua_tostring(L, -2)] = json_at(L, -1, depth + 1);
  }
  return out;
}

namespace {

void push_json(lua_State* L, const Json& j) {
  luaL_checkstack(L, 4, "tables too deep");
  if (j.is_boolean()) return lua_pushboolean(L, j.get<bool>());
  if (j.is_number_integer()) return lua_pushinteger(L, j.get<int64_t>());
  if (j.is_number()) return lua_pushnumber(L, j.get<double>());
  if (j.is_string()) return void(lua_pushstring(L, j.get<std::string>().c_str()));
  if (!j.is_structured()) return lua_pushnil(L);
  lua_newtable(L);
  int64_t i = 0;
  for (const auto& [key, value] : j.items()) {
    push_json(L, value);
    if (j.is_array())
      lua_rawseti(L, -2, ++i);
    else
      lua_setfield(L, -2, key.c_str());
  }
}

// gradus.NAME(argument): the answer's table, with its tensors by name
int ask(lua_State* L) {
  const auto& door = *static_cast<const Door*>(lua_touserdata(L, lua_upvalueindex(1)));
  lua_settop(L, std::max(1, lua_gettop(L)));  // nothing is nil
  const Answer answer = door(json_at(L, 1).dump(),
                             {[&](Device& device) { limit_memory_of(L, device); }, paths_of(L)});
  push_json(L, Json::parse(answer.json));
  for (const auto& [name, tensor] : answer.tensors) {
    push(L, tensor);
    lua_setfield(L, -2, name.c_str());
  }
  return 1;
}

}  // namespace

void open_doors(lua_State* L, const std::map<std::string, Door>& doors) {
  for (const auto& [name, door] : doors) {
    lua_pushlightuserdata(L, const_cast<Door*>(&door));
    lua_pushcclosure(L, bind<ask>, 1);
    lua_setfield(L, -2, name.c_str());
  }
}

}  // namespace gradus::lua
