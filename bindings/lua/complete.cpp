// Names that continue what stands before the cursor, without running any of the script's code.
#include "bindings/lua/script_state.hpp"

#include <algorithm>
#include <set>

namespace gradus::inline v1::lua {

namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// "net.layers:for": the names before the last . or :, and what is begun behind it.
struct Path {
  std::vector<std::string> owners{};
  char mark = 0;  // the last . or :; 0: there is none
  std::string stem{};
  bool of_text = false;  // what stands before it all is a literal: ("x"):rep
  bool unknown = false;  // it is another expression: f(x):sum

  explicit Path(std::string_view before) {
    size_t at = before.size();
    while (at > 0 && (is_name(before[at - 1]) || before[at - 1] == '.' || before[at - 1] == ':'))
      --at;
    if (const size_t joint = before.rfind(".."); joint != before.npos && joint + 2 > at)
      at = joint + 2;  // "a" .. b.c
    for (const char c : before.substr(at)) {
      if (is_name(c)) {
        stem += c;
        continue;
      }
      if (mark || !stem.empty()) owners.push_back(std::exchange(stem, ""));
      mark = c;
    }
    if (!mark || is_name(before[at])) return;  // a name stands at its beginning
    before = before.substr(0, at);
    while (before.ends_with(')') || before.ends_with(' ')) before.remove_suffix(1);
    of_text = before.ends_with('"') || before.ends_with('\'');
    unknown = !of_text;
  }
};

struct Query {
  const Path& path;
  std::set<std::string> names{};
};

// Of the table on top, and of those that stand behind it.
void add_keys(lua_State* L, Query& asked, bool functions, bool others) {
  for (int depth = 0; depth < 16; ++depth) {
    luaL_checkstack(L, 8, "tables behind tables");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
      if (lua_type(L, -2) == LUA_TSTRING && (lua_isfunction(L, -1) ? functions : others))
        if (const std::string_view name = lua_tostring(L, -2); name.starts_with(asked.path.stem))
          asked.names.emplace(name);
    if (!lua_getmetatable(L, -1)) return;
    lua_pushliteral(L, "__index");
    if (lua_rawget(L, -2) != LUA_TTABLE) return;
  }
}

// The value on top becomes its field of that name, as far as that runs no code.
void enter(lua_State* L, const std::string& name) {
  if (const Tensor* const t = tensor_at(L, -1)) {
    if (!t->defined() || !push_property(L, *t, name)) lua_pushnil(L);
    return;
  }
  if (!lua_istable(L, -1)) return lua_pushnil(L);
  lua_pushlstring(L, name.data(), name.size());
  lua_rawget(L, -2);
}

int find(lua_State* L) {
  auto& asked = *static_cast<Query*>(lua_touserdata(L, 1));
  const Path& path = asked.path;
  lua_pushglobaltable(L);
  if (path.of_text) lua_pushliteral(L, "");
  for (const std::string& owner : path.owners) {
    luaL_checkstack(L, 8, "tables within tables");
    enter(L, owner);
  }
  const bool method = path.mark == ':';
  if (lua_istable(L, -1)) return add_keys(L, asked, true, true), 0;
  if (tensor_at(L, -1)) {
    if (method) {
      push_methods(L);
      add_keys(L, asked, true, false);
    }
    for (const char* name : tensor_properties())
      if (!method && std::string_view(name).starts_with(path.stem)) asked.names.emplace(name);
    return 0;
  }
  // Of other values, what their type tells.
  const int value = lua_gettop(L);
  for (const char* field : {"__index", kNames}) {
    if (!lua_getmetatable(L, value)) break;
    lua_pushstring(L, field);
    if (lua_rawget(L, -2) == LUA_TTABLE) add_keys(L, asked, method, !method);
    lua_settop(L, value);
  }
  return 0;
}

}  // namespace

std::vector<std::string> Script::complete(const std::string& before) {
  lua_State* const L = state_->L;
  const Path path(before);
  if (path.unknown) return {};
  Query asked{path};
  // Protected, since memory may lack, or a property (t.T) not be there.
  lua_pushcfunction(L, bind<find>);
  lua_pushlightuserdata(L, &asked);
  lua_pcall(L, 1, 0, 0);
  lua_settop(L, 0);
  std::vector<std::string> out;
  for (const std::string& name : asked.names)
    out.push_back(before.substr(0, before.size() - path.stem.size()) + name);
  return out;
}

}  // namespace gradus::lua
