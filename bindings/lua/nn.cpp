// gradus.nn({{linear = 128}, "relu", {linear = 10}}, {1, 784}): layers as configs write them, for
// inputs like that shape. The object is called like a function; parameters() and state() give
// tables of tensors by name, load(table) writes them, train(on) chooses training or evaluation.
#include "bindings/lua/options.hpp"
#include "ops/nn/module.hpp"

#include <nlohmann/json.hpp>

namespace gradus::lua {

namespace {

constexpr const char* kNetwork = "gradus.Network";

nn::Sequential& self(lua_State* L) {
  auto* const n = static_cast<std::unique_ptr<nn::Sequential>*>(luaL_testudata(L, 1, kNetwork));
  if (!n || !*n)
    fail(ErrorKind::value, "nn", "called on ", kind_at(L, 1), "; write net:name(), not net.name()");
  return **n;
}

int make(lua_State* L) {
  const auto& build = *static_cast<const NetworkBuilder*>(lua_touserdata(L, lua_upvalueindex(1)));
  const Shape sizes = sizes_at(L, 2, "nn: shape of an input");
  std::optional<DType> dtype;
  Options options(L, 3, "nn");
  options.dtype("dtype", dtype);
  options.finish();
  nn::Sequential network =
      build(json_at(L, 1).dump(), Tensor::zeros(sizes, dtype.value_or(DType::f32), device_of(L)));
  using Owned = std::unique_ptr<nn::Sequential>;
  new (lua_newuserdatauv(L, sizeof(Owned), 0))
      Owned(std::make_unique<nn::Sequential>(std::move(network)));
  luaL_setmetatable(L, kNetwork);
  return 1;
}
int forward(lua_State* L) {
  push(L, self(L).forward(operand_at(L, 2, "nn: input")));
  return 1;
}
void push_named(lua_State* L, const nn::NamedTensors& named) {
  lua_newtable(L);
  for (const auto& [name, t] : named) {
    push(L, t);
    lua_setfield(L, -2, name.c_str());
  }
}
int parameters(lua_State* L) {
  push_named(L, self(L).parameters());
  return 1;
}
int state(lua_State* L) {
  push_named(L, self(L).state());
  return 1;
}
int load(lua_State* L) {
  luaL_checktype(L, 2, LUA_TTABLE);
  nn::NamedTensors named;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, "nn", "load: tensors need names");
    named.emplace_back(lua_tostring(L, -2), operand_at(L, -1, "nn: load").detach());
  }
  self(L).load(named, "load");
  return 0;
}
int train(lua_State* L) {
  self(L).set_training(lua_isnone(L, 2) || lua_toboolean(L, 2));
  lua_settop(L, 1);
  return 1;
}
int evaluate(lua_State* L) {
  self(L).set_training(false);
  lua_settop(L, 1);
  return 1;
}
int text(lua_State* L) {
  std::string s = "network";
  int64_t all = 0;
  for (const auto& [name, t] : self(L).parameters()) {
    s += join("\n  ", name, " ", t.dtype(), " ", t.sizes());
    all += t.numel();
  }
  s += join("\n  ", all, " parameters");
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}
int collect(lua_State* L) {
  if (auto* const n = static_cast<std::unique_ptr<nn::Sequential>*>(luaL_testudata(L, 1, kNetwork)))
    n->reset();
  return 0;
}

}  // namespace

const nn::Sequential* network_at(lua_State* L, int index) {
  auto* const n = static_cast<std::unique_ptr<nn::Sequential>*>(luaL_testudata(L, index, kNetwork));
  return n ? n->get() : nullptr;
}

void open_nn(lua_State* L, const NetworkBuilder& build) {
  if (!build) return;
  luaL_newmetatable(L, kNetwork);
  const luaL_Reg functions[] = {
      {"__call", bind<forward>}, {"__tostring", bind<text>}, {"__gc", collect}, {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  const luaL_Reg methods[] = {
      {"parameters", bind<parameters>}, {"state", bind<state>},   {"load", bind<load>},
      {"train", bind<train>},           {"eval", bind<evaluate>}, {nullptr, nullptr}};
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, kNetwork);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  lua_pushlightuserdata(L, const_cast<NetworkBuilder*>(&build));
  lua_pushcclosure(L, bind<make>, 1);
  lua_setfield(L, -2, "nn");
}

}  // namespace gradus::lua
