// Types of userdata: their metatables, and values of C++ in them.
#pragma once
#include "bindings/lua/state.hpp"

#include <initializer_list>
#include <span>

namespace gradus::inline v1::lua {

// Makes a type. Its metatable has `functions`, and its name in the place of what scripts would see
// of it. Methods have a table of their own: a script that held the type's could put a function of
// Lua under __gc. `fields`: what an __index that is a function knows, for completion.
void open_type(lua_State* L, const char* name, std::initializer_list<luaL_Reg> functions,
               std::initializer_list<luaL_Reg> methods = {},
               std::span<const char* const> fields = {});

// A V as a userdata of the type `name`.
template <class V, const char* name>
struct Userdata {
  static void push(lua_State* L, V v, int values_beside = 0) {
    new (lua_newuserdatauv(L, sizeof(V), values_beside)) V(std::move(v));
    luaL_setmetatable(L, name);
  }
  // nullptr if something else stands there.
  static V* at(lua_State* L, int index) { return static_cast<V*>(luaL_testudata(L, index, name)); }
  // For __gc. A finalizer of another object may still find the userdata: it is empty then.
  static int collect(lua_State* L) {
    if (V* const v = at(L, 1)) *v = V();
    return 0;
  }
};

}  // namespace gradus::lua
