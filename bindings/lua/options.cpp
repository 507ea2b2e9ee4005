#include "bindings/lua/options.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

Options::Options(lua_State* L, int index, const char* who, bool with_list)
    : L_(L), index_(index), who_(who), with_list_(with_list) {
  if (index == 0 || lua_isnoneornil(L, index))
    index_ = 0;
  else if (!lua_istable(L, index))
    fail(ErrorKind::value, who, "expected a table of options, got ", kind_at(L, index));
}

bool Options::push(const char* name) {
  known_.push_back(name);
  if (index_ == 0) return false;
  if (lua_getfield(L_, index_, name) != LUA_TNIL) return true;
  lua_pop(L_, 1);
  return false;
}

void Options::wrong(const char* name, const char* expected) const {
  fail(ErrorKind::value, who_, name, ": expected ", expected, ", got ", kind_at(L_, -1));
}

void Options::number(const char* name, double& to) {
  if (!push(name)) return;
  if (lua_type(L_, -1) != LUA_TNUMBER) wrong(name, "a number");
  to = lua_tonumber(L_, -1);
  lua_pop(L_, 1);
}

void Options::boolean(const char* name, bool& to) {
  if (!push(name)) return;
  if (!lua_isboolean(L_, -1)) wrong(name, "true or false");
  to = lua_toboolean(L_, -1) != 0;
  lua_pop(L_, 1);
}

void Options::text(const char* name, std::string& to) {
  if (!push(name)) return;
  if (lua_type(L_, -1) != LUA_TSTRING) wrong(name, "a text");
  to = lua_tostring(L_, -1);
  lua_pop(L_, 1);
}

void Options::dtype(const char* name, std::optional<DType>& to) {
  if (!push(name)) return;
  if (lua_type(L_, -1) != LUA_TSTRING) wrong(name, "the name of a dtype");
  to = parse_dtype(lua_tostring(L_, -1));
  lua_pop(L_, 1);
}

void Options::finish() const {
  if (index_ == 0) return;
  const auto length = with_list_ ? int64_t(lua_rawlen(L_, index_)) : 0;
  length > 0 ? lua_pushinteger(L_, length) : lua_pushnil(L_);  // what comes behind the list
  for (; lua_next(L_, index_); lua_pop(L_, 1)) {
    if (with_list_ && lua_type(L_, -2) == LUA_TNUMBER) {
      look_at_clock(L_);
      continue;
    }
    const std::string name =
        lua_type(L_, -2) == LUA_TSTRING ? lua_tostring(L_, -2) : kind_at(L_, -2);
    const auto is = [&](const char* k) { return name == k; };
    if (std::any_of(known_.begin(), known_.end(), is)) continue;
    const std::vector<std::string> names(known_.begin(), known_.end());
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) {
      hint = names.size() == 1 ? "; there is " : "; there are ";
      for (size_t i = 0; i < names.size(); ++i)
        hint += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    }
    fail(ErrorKind::value, who_, "there is no option \"", name, "\"", hint);
  }
}

}  // namespace gradus::lua
