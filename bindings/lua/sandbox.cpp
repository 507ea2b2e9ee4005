// What a script may call of Lua's own libraries: all outside the sandbox; in it, what touches
// neither files, nor programs, nor bytecode, nor runs where no limit reaches.
#include "bindings/lua/script_state.hpp"
#include "bindings/lua/words.hpp"
#include "engine/files/file.hpp"

#include <algorithm>
#include <iostream>
#include <sys/stat.h>

namespace gradus::inline v1::lua {

static int print_values(lua_State* L) {
  if (state_of(L).options.progress) state_of(L).options.progress(nullptr);
  std::ostream* const to = state_of(L).options.out;
  std::ostream& out = to ? *to : std::cout;
  if (out.exceptions() != std::ios::goodbit) out.clear();  // the text before was an error
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
int print(lua_State* L) { return bind<print_values>(L); }

namespace {

// xpcall whose handler hears of no limit: that error is raised within the hook, and until it is
// caught no hook runs, so nothing could stop the handler.
int handle(lua_State* L) {
  if (!state_of(L).over.empty()) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}
int finish_xpcall(lua_State* L, int status, lua_KContext below) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - int(below);
  lua_pushboolean(L, false);
  lua_insert(L, -2);
  return 2;
}
int protected_call(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, handle, 1);
  lua_replace(L, 2);
  lua_pushboolean(L, true);  // the first result
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  return finish_xpcall(L, lua_pcallk(L, lua_gettop(L) - 4, LUA_MULTRET, 2, 2, finish_xpcall), 2);
}

// ---- coroutines

// coroutine.create: the new thread has the hook from its first instruction, so that limits and
// interrupts reach it; being made counts as a thousand.
int make_coroutine(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (limited(state_of(L))) count(L);
  lua_State* const made = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, made, 1);
  lua_sethook(made, hook, LUA_MASKCOUNT, kHookEvery);
  return 1;
}

// One that a limit ended is not closed: its variables' __close would run as xpcall's handler would.
int close_coroutine(lua_State* L) {
  lua_State* const thread = lua_tothread(L, 1);
  luaL_argexpected(L, thread, 1, "coroutine");
  if (!state_of(L).over.empty()) count(L);
  lua_Debug frame;
  if (lua_status(thread) == LUA_OK && lua_getstack(thread, 0, &frame))
    return luaL_error(L, "cannot close a %s coroutine", thread == L ? "running" : "normal");
  lua_pushboolean(L, lua_resetthread(thread) == LUA_OK);
  if (!state_of(L).over.empty()) count(L);  // struck by a __close
  if (lua_toboolean(L, -1)) return 1;
  lua_xmove(thread, L, 1);
  return 2;
}

// coroutine.wrap, and what it gives.
int resume_wrapped(lua_State* L) {
  lua_State* const thread = lua_tothread(L, lua_upvalueindex(1));
  const int given = lua_gettop(L);
  if (!lua_checkstack(thread, given)) return luaL_error(L, "too many arguments to resume");
  lua_xmove(L, thread, given);
  int results = 0;
  const int status = lua_resume(thread, L, given, &results);
  if (status == LUA_OK || status == LUA_YIELD) {
    luaL_checkstack(L, results, "too many results to resume");
    lua_xmove(thread, L, results);
    return results;
  }
  if (!state_of(L).over.empty()) count(L);
  if (lua_status(thread) != LUA_OK) lua_resetthread(thread);  // it did not just refuse
  if (!state_of(L).over.empty()) count(L);                    // struck by a __close
  lua_xmove(thread, L, 1);
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}
int wrap_coroutine(lua_State* L) {
  make_coroutine(L);
  lua_pushcclosure(L, resume_wrapped, 1);
  return 1;
}

// ----

// setmetatable without finalizers: Lua runs those with its hooks off, so nothing could stop one.
int set_metatable(lua_State* L) {
  luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
  luaL_checktype(L, 1, LUA_TTABLE);
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
    return luaL_error(L, "cannot change a protected metatable");
  lua_settop(L, 2);
  if (lua_istable(L, 2)) {
    lua_pushstring(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      luaL_error(L, "setmetatable: __gc is not offered in the sandbox");
    lua_pop(L, 1);
  }
  lua_setmetatable(L, 1);
  return 1;
}

// load(chunk [, name [, mode [, env]]]), of text alone: crafted bytecode can crash Lua.
int load_text(lua_State* L) {
  if (!lua_isstring(L, 1)) luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_optstring(L, 2, nullptr);
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
  if (const std::string word = word_for_global(name); !word.empty()) {
    struct stat info;
    const std::string file = path_in(state_of(L).options.folder, path + ".lua");
    if (::stat(file.c_str(), &info) != 0)
      fail(ErrorKind::value, "require", "there is no ", file, "; write ", word);
  }
  path = path_in(state_of(L).options.folder, path + ".lua");
  check_path(L, path, Access::read);
  const std::string file = read_file(path, kMaxText);
  const std::string_view text = lua_part(file);
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

// collectgarbage, after which tensors are freed too. Its arguments are checked here, where an error
// knows the function's name and the script's line.
int collect_garbage(lua_State* L) {
  constexpr const char* known[] = {"collect",      "stop",        "restart",    "count",
                                   "step",         "setpause",    "setstepmul", "isrunning",
                                   "generational", "incremental", nullptr};
  luaL_checkoption(L, 1, "collect", known);
  for (int i = 2; i <= 4; ++i) luaL_optinteger(L, i, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// gradus.NAME, gradus.func.NAME ... of no such name.
int missing(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);  // a script may call this with anything
  std::string name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : kind_at(L, 2);
  if (name.size() > 100) name = name.substr(0, 100) + "...";
  std::vector<std::string> known;
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) known.emplace_back(lua_tostring(L, -2));
  std::sort(known.begin(), known.end());
  const char* const owner = lua_tostring(L, lua_upvalueindex(1));
  const std::string word = word_for(owner, name);
  fail(ErrorKind::value, owner, "has no \"", name, "\"",
       word.empty() ? did_you_mean(name, known) : word);
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
    lua_pushcfunction(L, set_metatable);
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
  const luaL_Reg coroutines[] = {{"create", make_coroutine},
                                 {"wrap", wrap_coroutine},
                                 {"close", close_coroutine},
                                 {nullptr, nullptr}};
  luaL_setfuncs(L, coroutines, 0);
  lua_pop(L, 1);
  lua_pushcfunction(L, protected_call);
  lua_setglobal(L, "xpcall");
  lua_getglobal(L, "collectgarbage");
  lua_pushcclosure(L, collect_garbage, 1);
  lua_setglobal(L, "collectgarbage");
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
}

void open_missing(lua_State* L, const std::string& name) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
    if (lua_istable(L, -1)) open_missing(L, name + "." + lua_tostring(L, -2));
  if (!lua_getmetatable(L, -1)) lua_createtable(L, 0, 2);
  lua_pushstring(L, name.c_str());
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, bind<missing>, 1);
  lua_setfield(L, -3, "__index");
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
}

}  // namespace gradus::lua
