#include "bindings/lua/labels.hpp"

#include "bindings/lua/options.hpp"
#include "ops/contract/einsum.hpp"

namespace gradus::inline v1::lua {

namespace {

// A table of whole numbers on top of the stack; `what` says whose.
Labels list_of(lua_State* L, const std::string& what) {
  if (!lua_istable(L, -1))
    fail(ErrorKind::value, what, "expected a table of whole numbers such as {1, 2}, got ",
         kind_at(L, -1));
  Labels labels;
  each_of(L, lua_gettop(L), [&] {
    const int64_t n = integer_at(L, -1, what.c_str());
    if (n < INT32_MIN || n > INT32_MAX)
      fail(ErrorKind::value, what, "labels have 32 bits, got ", n);
    labels.push_back(number_label(int32_t(n)));
  });
  return labels;
}

Algebra algebra_at(lua_State* L, int index) {
  std::string name = "standard";
  if (lua_type(L, index) == LUA_TSTRING) return parse_algebra(lua_tostring(L, index));
  Options options(L, index, "einsum");
  options.text("algebra", name);
  options.finish();
  return parse_algebra(name);
}

}  // namespace

bool says_labels(lua_State* L) {
  return lua_istable(L, 1) && lua_istable(L, 2) && (lua_rawlen(L, 2) > 0 || lua_istable(L, 3));
}

SaidLabels labels_of(lua_State* L, const char* who) {
  const int top = lua_gettop(L);
  SaidLabels said;
  each_of(L, 2, [&] {
    said.terms.push_back(list_of(L, join(who, ": labels[", said.terms.size() + 1, "]")));
  });
  top < 3 ? lua_pushnil(L) : lua_pushvalue(L, 3);
  said.output = list_of(L, join(who, ": labels of the output"));
  lua_settop(L, top);
  return said;
}

int einsum_by_labels(lua_State* L) {
  at_most(L, 4, "einsum: with labels");
  const Tensors operands = list_at(L, 1, "einsum: operand");
  const SaidLabels said = labels_of(L, "einsum");
  const Algebra algebra = algebra_at(L, 4);
  push(L, with_room(L, [&] { return einsum(operands, said.terms, said.output, algebra); }));
  return 1;
}

}  // namespace gradus::lua
