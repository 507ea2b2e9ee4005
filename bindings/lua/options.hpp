// A table of options among the arguments of a function.
#pragma once
#include "bindings/lua/state.hpp"

namespace gradus::lua {

// Each option is asked for by its name; finish() refuses what nobody asked for, so that a misspelt
// one is never ignored. Errors are Error(value) of `who`.
class Options {
 public:
  // The table at `index` (0: nowhere). nil, or nothing there: no option is given.
  Options(lua_State* L, int index, const char* who);
  void number(const char* name, double& to);
  void boolean(const char* name, bool& to);  // as Lua counts: all but nil and false is true
  void text(const char* name, std::string& to);
  void dtype(const char* name, std::optional<DType>& to);
  // Asked for in another way.
  void known(const char* name) { known_.push_back(name); }
  void finish() const;

 private:
  // Is it given? Then it lies on top of the stack.
  bool push(const char* name);
  [[noreturn]] void wrong(const char* name, const char* expected) const;

  lua_State* L_;
  int index_;
  const char* who_;
  SmallVector<const char*, 6> known_{};
};

// Options, as opposed to a list of values: a table without a first element.
inline bool is_options(lua_State* L, int index) {
  return lua_istable(L, index) && lua_rawlen(L, index) == 0;
}

}  // namespace gradus::lua
