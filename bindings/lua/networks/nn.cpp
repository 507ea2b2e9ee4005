// gradus.nn({{linear = 128}, "relu", {linear = 10}}, {1, 784}): layers as configs write them, for
// inputs like that shape. The object is called like a function; parameters() and state() give
// tables of tensors by name, load(table) writes them, train(on) chooses training or evaluation.
#include "bindings/lua/networks/network.hpp"

#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "bindings/lua/words.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::lua {

namespace {

constexpr char kNetwork[] = "gradus.Network";

using Networks = Userdata<std::shared_ptr<nn::Sequential>, kNetwork>;
nn::Sequential& self(lua_State* L) {
  auto* const n = Networks::at(L, 1);
  if (!n || !*n)
    fail(ErrorKind::value, "nn", "called on ", kind_at(L, 1), "; write net:name(), not net.name()");
  return **n;
}

// gradus.nn(...): a table that is called
int make(lua_State* L) {
  lua_remove(L, 1);
  const auto& build = *static_cast<const NetworkBuilder*>(lua_touserdata(L, lua_upvalueindex(1)));
  const Shape sizes = sizes_at(L, 2, "nn: shape of an input");
  std::optional<DType> dtype;
  Options options(L, 3, "nn");
  options.dtype("dtype", dtype);
  options.finish();
  push_network(L, build(json_at(L, 1).dump(),
                        Tensor::zeros(sizes, dtype.value_or(DType::f32), device_of(L))));
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
int in_order(lua_State* L) {
  lua_pushinteger(L, lua_Integer(lua_rawlen(L, lua_upvalueindex(1))));
  return 1;
}
// By name; ipairs and # see them in the layers' order, pairs sees the names alone.
int parameters(lua_State* L) {
  const nn::NamedTensors named = self(L).parameters();
  push_named(L, named);
  lua_createtable(L, 0, 2);
  lua_createtable(L, int(named.size()), 0);
  for (size_t i = 0; i < named.size(); ++i) {
    push(L, named[i].second);
    lua_rawseti(L, -2, lua_Integer(i + 1));
  }
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, in_order, 1);
  lua_setfield(L, -3, "__len");
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
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
int zero_grad(lua_State* L) {
  for (const auto& [name, t] : self(L).parameters()) t.set_grad(Tensor());
  return 0;
}
// net:name(), and of one layer alone its parameters, layer.weight
int get(lua_State* L) {
  nn::Sequential& network = self(L);
  const std::string name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : kind_at(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  if (network.size() == 1)
    for (const auto& [known, t] : network.state())
      if (known == "layers.0." + name) return push(L, t), 1;
  std::vector<std::string> methods;
  for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)); lua_pop(L, 1))
    methods.emplace_back(lua_tostring(L, -2));
  const std::string word = word_for("network", name);
  fail(ErrorKind::value, "network", "has no \"", name.substr(0, 100), "\"",
       word.empty() ? did_you_mean(name, methods) : word);
}

}  // namespace

void push_network(lua_State* L, nn::Sequential network) {
  Networks::push(L, std::make_shared<nn::Sequential>(std::move(network)));
}
std::shared_ptr<nn::Sequential> shared_network(lua_State* L, int index) {
  auto* const n = Networks::at(L, index);
  return n ? *n : nullptr;
}
const nn::Sequential* network_at(lua_State* L, int index) { return shared_network(L, index).get(); }

void open_nn(lua_State* L, const NetworkBuilder& build) {
  if (!build) return;
  open_type(L, kNetwork,
            {{"__call", bind<forward>}, {"__tostring", bind<text>}, {"__gc", Networks::collect}});
  luaL_getmetatable(L, kNetwork);
  const luaL_Reg methods[] = {{"parameters", bind<parameters>},
                              {"state", bind<state>},
                              {"load", bind<load>},
                              {"train", bind<train>},
                              {"eval", bind<evaluate>},
                              {"zero_grad", bind<zero_grad>},
                              {"forward", bind<forward>},  // as PyTorch calls them
                              {"state_dict", bind<state>},
                              {"load_state_dict", bind<load>},
                              {nullptr, nullptr}};
  luaL_newlib(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, kNames);
  lua_pushcclosure(L, bind<get>, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 3);
  lua_pushlightuserdata(L, const_cast<NetworkBuilder*>(&build));
  lua_pushcclosure(L, bind<make>, 1);
  lua_setfield(L, -2, "__call");
  lua_setmetatable(L, -2);
  open_layers(L, build);
  lua_setfield(L, -2, "nn");
}

}  // namespace gradus::lua
