// What a tensor is, as t.name: t.shape, t.grad, ...
#include "bindings/lua/userdata.hpp"
#include "engine/graph.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

namespace {

// A table that prints as it is meant, and equals another of the same numbers.
int sizes_text(lua_State* L) {
  lua_pushstring(L, to_text(sizes_at(L, 1, "shape")).c_str());
  return 1;
}
int same_sizes(lua_State* L) {
  lua_pushboolean(L, lua_istable(L, 1) && lua_istable(L, 2) &&
                         sizes_at(L, 1, "shape") == sizes_at(L, 2, "shape"));
  return 1;
}
void push_text(lua_State* L, const std::string& s) { lua_pushlstring(L, s.data(), s.size()); }

void push_op(lua_State* L, const Tensor& t) {
  if (GradFn* const fn = t.grad_fn())
    push_text(L, fn->op().name);
  else
    lua_pushnil(L);
}

struct Property {
  const char* name;
  void (*get)(lua_State*, const Tensor&);
};
constexpr Property kProperties[] = {
    {"shape", [](lua_State* L, const Tensor& t) { push_sizes(L, t.sizes()); }},
    {"stride", [](lua_State* L, const Tensor& t) { push_sizes(L, t.strides()); }},
    {"rank", [](lua_State* L, const Tensor& t) { lua_pushinteger(L, t.rank()); }},
    {"ndim", [](lua_State* L, const Tensor& t) { lua_pushinteger(L, t.rank()); }},
    {"dtype", [](lua_State* L, const Tensor& t) { push_text(L, join(t.dtype())); }},
    {"device", [](lua_State* L, const Tensor& t) { push_text(L, t.device().name()); }},
    {"is_cuda",
     [](lua_State* L, const Tensor& t) { lua_pushboolean(L, t.device().kind() == "cuda"); }},
    {"requires_grad", [](lua_State* L, const Tensor& t) { lua_pushboolean(L, t.requires_grad()); }},
    {"is_leaf", [](lua_State* L, const Tensor& t) { lua_pushboolean(L, t.is_leaf()); }},
    {"version", [](lua_State* L, const Tensor& t) { lua_pushinteger(L, int64_t(t.version())); }},
    {"grad", [](lua_State* L, const Tensor& t) { push(L, t.grad()); }},
    {"data", [](lua_State* L, const Tensor& t) { push(L, t.detach()); }},
    {"op", push_op},
    {"grad_fn", push_op},
    {"mT",
     [](lua_State* L, const Tensor& t) {
       if (t.rank() < 2)
         fail(ErrorKind::shape, "mT", "expected matrices, the shape is ", t.sizes());
       push(L, transpose(t, -2, -1));
     }},
    {"T", [](lua_State* L, const Tensor& t) {
       if (t.rank() != 2)
         fail(ErrorKind::shape, "T", "expected a matrix, the shape is ", t.sizes());
       push(L, transpose(t, 0, 1));
     }}};

}  // namespace

void push_sizes(lua_State* L, const Shape& sizes) {
  lua_createtable(L, int(sizes.size()), 0);
  luaL_setmetatable(L, kSizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    lua_pushinteger(L, sizes[i]);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}

std::vector<const char*> tensor_properties() {
  std::vector<const char*> names;
  for (const Property& p : kProperties) names.push_back(p.name);
  return names;
}
bool push_property(lua_State* L, const Tensor& t, std::string_view name) {
  for (const Property& p : kProperties)
    if (name == p.name) return p.get(L, t), true;
  return false;
}

void open_properties(lua_State* L) {
  open_type(L, kSizes, {{"__tostring", bind<sizes_text>}, {"__eq", bind<same_sizes>}});
}

}  // namespace gradus::lua
