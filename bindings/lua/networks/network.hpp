// Networks on Lua's stack, for the files that make them.
#pragma once
#include "bindings/lua/state.hpp"
#include "ops/nn/module.hpp"

namespace gradus::inline v1::lua {

void push_network(lua_State* L, nn::Sequential network);
// The network at an index, or null; layers that are shared live as long as somebody has them.
std::shared_ptr<nn::Sequential> shared_network(lua_State* L, int index);
// Into gradus.nn, on top of the stack: Linear, ReLU, Sequential, MSELoss and their kin.
void open_layers(lua_State* L, const NetworkBuilder& build);

}  // namespace gradus::lua
