// A table of options among the arguments of a function.
#pragma once
#include "bindings/lua/state.hpp"

namespace gradus::inline v1::lua {

// Each option is asked for by its name; finish() refuses what nobody asked for, so that a misspelt
// one is never ignored. Errors are Error(value) of `who`.
class Options {
 public:
  // The table at `index` (0: nowhere). nil, or nothing there: no option is given.
  // `with_list`: its elements 1, 2, ... are somebody else's.
  Options(lua_State* L, int index, const char* who, bool with_list = false);
  void number(const char* name, double& to);
  void boolean(const char* name, bool& to);
  void text(const char* name, std::string& to);
  void dtype(const char* name, std::optional<DType>& to);
  // Asked for in another way.
  void known(const char* name) { known_.push_back(name); }
  // Of any other kind. Is it given? Then it lies on top of the stack, to be popped.
  bool push(const char* name);
  [[noreturn]] void wrong(const char* name, const char* expected) const;  // what lies there
  void finish() const;

 private:
  lua_State* L_;
  int index_;
  const char* who_;
  bool with_list_;
  SmallVector<const char*, 6> known_{};
};

// Error(value) if there are more arguments than that, which would be ignored.
inline void at_most(lua_State* L, int arguments, const char* who) {
  if (lua_gettop(L) > arguments)
    fail(ErrorKind::value, who, "takes ", arguments, arguments == 1 ? " argument" : " arguments",
         ", got ", lua_gettop(L));
}

// Options, as opposed to a list of values: a table without a first element.
inline bool is_options(lua_State* L, int index) {
  return lua_istable(L, index) && lua_rawlen(L, index) == 0;
}

}  // namespace gradus::lua
