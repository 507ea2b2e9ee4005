// What script.cpp and sandbox.cpp share: a script's state, and the hook that enforces its limits.
#pragma once
#include "bindings/lua/state.hpp"

#include <atomic>
#include <map>

namespace gradus::inline v1::lua {

struct Script::State : Types {
  ScriptOptions options;
  Paths paths;
  Device* device = nullptr;
  lua_State* L = nullptr;
  size_t before = 0;     // live bytes of the heap
  size_t lua_most = 0;   // of the heap, for Lua's own; 0: no limit
  size_t collected = 0;  // bytes that were left when all was collected
  struct Limited {
    Device* device;
    size_t limit, live;  // of its pool, before
  };
  std::vector<Limited> devices{};
  bool out_of_memory = false;         // was anything refused by the limit?
  ErrorKind kind = ErrorKind::value;  // of the last error of the engine
  std::string kind_text{};
  uint64_t instructions = 0;
  std::chrono::steady_clock::time_point begin;
  std::string over{};                 // which limit was passed
  std::string raised{}, traceback{};  // the last error's text, where it was raised
  bool ended = false;                 // by who looks at it
  nn::NamedTensors leaves{};
  std::map<std::string, std::string> texts{};  // that were run, by name
  std::atomic<bool> interrupted = false;
};
using State = Script::State;
inline State& state_of(lua_State* L) { return static_cast<State&>(types_of(L)); }

constexpr int kHookEvery = 1000;  // instructions
// Counts some instructions, and raises an error once a limit is passed. From then on the hook runs
// at every instruction, so that no pcall can swallow the error.
void count(lua_State* L);
inline void hook(lua_State* L, lua_Debug*) { count(L); }
inline bool limited(const State& s) {
  return s.options.limits.instructions > 0 || s.options.limits.seconds > 0;
}

int print(lua_State* L);
// Of a file's text, what is Lua: without a mark of UTF-8, and without a first line for the shell
// (#!), whose end stays.
std::string_view lua_part(std::string_view text);

void open_libraries(lua_State* L, bool unsafe);
void open_hooks(lua_State* L);  // t:register_hook
// Of the table on top, called `name`, and of the tables in it: a name that is not there is an
// error.
void open_missing(lua_State* L, const std::string& name);

}  // namespace gradus::lua
