// What a script may call of Lua's own libraries: all outside the sandbox; in it, what touches
// neither files, nor programs, nor bytecode, nor runs where no limit reaches.
#include "bindings/lua/script_state.hpp"
#include "engine/io/file.hpp"

#include <algorithm>
#include <iostream>

namespace gradus::lua {

namespace {

int print(lua_State* L) {
  if (state_of(L).options.progress) state_of(L).options.progress(nullptr);
  std::ostream* const to = state_of(L).options.out;
  std::ostream& out = to ? *to : std::cout;
  for (int i = 1, n = lua_gettop(L); i <= n; ++i) {
    size_t length = 0;
    const char* const text = luaL_tolstring(L, i, &length);
    if (i > 1) out << '\t';
    out.write(text, std::streamsize(length));
    lua_pop(L, 1);
  }
  out << std::endl;
  return 0;
}

// coroutine.create and wrap: the new thread has the hook from its first instruction, so that limits
// and interrupts reach it; being made counts as a thousand.
int make_coroutine(lua_State* L) {
  if (limited(state_of(L))) count(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  if (lua_isthread(L, -1)) {
    lua_sethook(lua_tothread(L, -1), hook, LUA_MASKCOUNT, kHookEvery);
  } else if (lua_getupvalue(L, -1, 1)) {
    lua_sethook(lua_tothread(L, -1), hook, LUA_MASKCOUNT, kHookEvery);
    lua_pop(L, 1);
  }
  return 1;
}

// setmetatable without finalizers: Lua runs those with its hooks off, so nothing could stop one.
int set_metatable(lua_State* L) {
  if (lua_istable(L, 2)) {
    lua_pushstring(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      luaL_error(L, "setmetatable: __gc is not offered in the sandbox");
    lua_pop(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// load(chunk [, name [, mode [, env]]]), of text alone: crafted bytecode can crash Lua.
int load_text(lua_State* L) {
  lua_settop(L, 4);
  lua_pushstring(L, "t");
  lua_replace(L, 3);
  const bool has_env = !lua_isnil(L, 4);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  if (!has_env) lua_pop(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// require "name.of.module": a file below the script's own folder, run once.
int require(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "gradus.required");
  lua_getfield(L, -1, name.c_str());
  if (!lua_isnil(L, -1)) return 1;
  lua_pop(L, 1);
  std::string path;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-')
      fail(ErrorKind::value, "require", "\"", name,
           "\" is not the name of a module: letters, digits, ", "_, -, and dots between folders");
    path += c == '.' ? '/' : c;
  }
  if (name.empty() || name.front() == '.' || name.back() == '.' ||
      name.find("..") != std::string::npos)
    fail(ErrorKind::value, "require", "\"", name,
         "\" is not the name of a module below the script's folder");
  path = path_in(state_of(L).options.folder, path + ".lua");
  const std::string text = read_file(path);
  if (luaL_loadbufferx(L, text.data(), text.size(), ("@" + path).c_str(), "t") != LUA_OK)
    throw Raised(L);
  lua_pushvalue(L, 1);
  call(L, 1, 1);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushboolean(L, true);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name.c_str());
  return 1;
}

// collectgarbage, after which tensors are freed too
int collect_garbage(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  free_dead(types_of(L));
  return lua_gettop(L);
}

// gradus.NAME, gradus.func.NAME ... of no such name.
int missing(lua_State* L) {
  const std::string name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : kind_at(L, 2);
  std::vector<std::string> known;
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) known.emplace_back(lua_tostring(L, -2));
  std::sort(known.begin(), known.end());
  fail(ErrorKind::value, lua_tostring(L, lua_upvalueindex(1)), "has no \"", name, "\"",
       did_you_mean(name, known));
}

void remove(lua_State* L, const char* name) {
  lua_pushnil(L);
  lua_setfield(L, -2, name);
}

}  // namespace

void open_libraries(lua_State* L, bool unsafe) {
  if (unsafe) {
    luaL_openlibs(L);
  } else {
    const luaL_Reg libraries[] = {
        {LUA_GNAME, luaopen_base},       {LUA_COLIBNAME, luaopen_coroutine},
        {LUA_TABLIBNAME, luaopen_table}, {LUA_STRLIBNAME, luaopen_string},
        {LUA_MATHLIBNAME, luaopen_math}, {LUA_UTF8LIBNAME, luaopen_utf8},
        {LUA_OSLIBNAME, luaopen_os}};
    for (const luaL_Reg& l : libraries) {
      luaL_requiref(L, l.name, l.func, 1);
      lua_pop(L, 1);
    }
    lua_pushglobaltable(L);
    for (const char* name : {"dofile", "loadfile"}) remove(L, name);
    lua_getfield(L, -1, "load");
    lua_pushcclosure(L, load_text, 1);
    lua_setfield(L, -2, "load");
    lua_getfield(L, -1, "string");
    remove(L, "dump");
    lua_pop(L, 1);
    lua_getfield(L, -1, "setmetatable");
    lua_pushcclosure(L, set_metatable, 1);
    lua_setfield(L, -2, "setmetatable");
    // Of os, the clock.
    lua_newtable(L);
    lua_getfield(L, -2, "os");
    for (const char* name : {"clock", "date", "time", "difftime"}) {
      lua_getfield(L, -1, name);
      lua_setfield(L, -3, name);
    }
    lua_pop(L, 1);
    lua_setfield(L, -2, "os");
    lua_pushcfunction(L, bind<require>);
    lua_setfield(L, -2, "require");
    lua_pop(L, 1);
  }
  lua_getglobal(L, LUA_COLIBNAME);
  for (const char* name : {"create", "wrap"}) {
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, make_coroutine, 1);
    lua_setfield(L, -2, name);
  }
  lua_pop(L, 1);
  lua_getglobal(L, "collectgarbage");
  lua_pushcclosure(L, collect_garbage, 1);
  lua_setglobal(L, "collectgarbage");
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
}

void open_missing(lua_State* L, const std::string& name) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (lua_istable(L, -1)) open_missing(L, name + "." + lua_tostring(L, -2));
  lua_createtable(L, 0, 1);
  lua_pushstring(L, name.c_str());
  lua_pushcclosure(L, bind<missing>, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

}  // namespace gradus::lua
