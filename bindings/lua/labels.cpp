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
    labels.push_back(n);
  });
  return labels;
}

int push_einsum(lua_State* L, const Tensors& operands, const SaidLabels& said, int algebra) {
  const Algebra by = algebra_at(L, algebra);
  if (!said.output && by != Algebra::standard)
    fail(ErrorKind::value, "einsum", algebra_name(by), " needs the labels of the output");
  push(L, with_room(L, [&] {
         return said.output ? einsum(operands, said.terms, *said.output, by)
                            : einsum(operands, said.terms);
       }));
  return 1;
}

}  // namespace

bool says_labels(lua_State* L) {
  return lua_istable(L, 1) && lua_istable(L, 2) && (lua_rawlen(L, 2) > 0 || lua_istable(L, 3));
}
bool says_sublists(lua_State* L) {
  return tensor_at(L, 1) && lua_istable(L, 2) && (lua_rawlen(L, 2) > 0 || lua_gettop(L) > 2);
}

Algebra algebra_at(lua_State* L, int index) {
  std::string name = "standard";
  if (lua_type(L, index) == LUA_TSTRING) return parse_algebra(lua_tostring(L, index));
  Options options(L, index, "einsum");
  options.text("algebra", name);
  options.finish();
  return parse_algebra(name);
}

SaidLabels labels_of(lua_State* L, const char* who) {
  SaidLabels said;
  each_of(L, 2, [&] {
    said.terms.push_back(list_of(L, join(who, ": labels[", said.terms.size() + 1, "]")));
  });
  if (lua_isnoneornil(L, 3)) return said;
  lua_pushvalue(L, 3);
  said.output = list_of(L, join(who, ": labels of the output"));
  lua_pop(L, 1);
  return said;
}

int einsum_by_labels(lua_State* L) {
  at_most(L, 4, "einsum: with labels");
  const Tensors operands = list_at(L, 1, "einsum: operand");
  return push_einsum(L, operands, labels_of(L, "einsum"), 4);
}
SaidLabels sublists_of(lua_State* L, const char* who, const std::function<void(int)>& take,
                       int& end) {
  SaidLabels said;
  int at = 1;
  for (; at < lua_gettop(L) && lua_istable(L, at + 1) && !lua_istable(L, at); at += 2) {
    take(at);
    lua_pushvalue(L, at + 1);
    said.terms.push_back(list_of(L, join(who, ": labels of operand ", said.terms.size() + 1)));
    lua_pop(L, 1);
  }
  if (lua_istable(L, at)) {
    lua_pushvalue(L, at++);
    said.output = list_of(L, join(who, ": labels of the output"));
    lua_pop(L, 1);
  }
  end = at;
  return said;
}
int einsum_by_sublists(lua_State* L) {
  Tensors operands;
  int end = 0;
  const SaidLabels said = sublists_of(
      L, "einsum", [&](int at) { operands.push_back(operand_at(L, at, "einsum: operand")); }, end);
  at_most(L, end, "einsum: with labels behind each operand");
  return push_einsum(L, operands, said, end);
}

}  // namespace gradus::lua
