#include "bindings/lua/userdata.hpp"

namespace gradus::inline v1::lua {

namespace {

void set_all(lua_State* L, std::initializer_list<luaL_Reg> functions) {
  for (const luaL_Reg& f : functions) {
    lua_pushcfunction(L, f.func);
    lua_setfield(L, -2, f.name);
  }
}

}  // namespace

void open_type(lua_State* L, const char* name, std::initializer_list<luaL_Reg> functions,
               std::initializer_list<luaL_Reg> methods, std::span<const char* const> fields) {
  luaL_newmetatable(L, name);
  set_all(L, functions);
  if (methods.size() > 0) {
    lua_newtable(L);
    set_all(L, methods);
    lua_setfield(L, -2, "__index");
  }
  if (!fields.empty()) {
    lua_newtable(L);
    for (const char* field : fields) {
      lua_pushboolean(L, true);
      lua_setfield(L, -2, field);
    }
    lua_setfield(L, -2, kNames);
  }
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

}  // namespace gradus::lua
