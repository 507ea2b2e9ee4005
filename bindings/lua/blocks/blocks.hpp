// Legs and block tensors on Lua's stack. A block tensor is a userdata that knows its structure; its
// numbers are a tensor of Lua beside it, so that the collector knows of their bytes.
//
// Errors of ops/blocks count legs, axes, sectors, operands from 0: saying_legs_from_one tells that.
#pragma once
#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "ops/blocks/block_tensor.hpp"
#include "ops/blocks/factors.hpp"

namespace gradus::inline v1::lua {

void push_leg(lua_State* L, const Leg& leg);
const Leg* leg_at(lua_State* L, int index);  // nullptr if something else stands there
Charge charge_value(lua_State* L, int index, const std::string& what);  // a number, or a list
void push_charge(lua_State* L, const Charge& q);                        // of one component a number
std::vector<Sector> sectors_at(lua_State* L, int index, const std::string& what);

void push_blocks(lua_State* L, const BlockTensor& x);
bool is_blocks(lua_State* L, int index);
// The block tensor at an index; anything else is an error of `who` that names `what`.
BlockTensor blocks_at(lua_State* L, int index, const char* who, const char* what);
BlockTensor self_blocks(lua_State* L, const char* who);  // the first argument of a method

int64_t axis_at(lua_State* L, int index, const char* who);  // from 1, or from the end
// A table of axes at `index`; of a matrix, nothing is its first.
Ints row_axes(lua_State* L, int index, const char* who, size_t rank);

// Does a message of ops/blocks count something?
bool counts_from_zero(std::string_view message);
// f(), whose errors about what is counted say how both count.
template <class F>
auto saying_legs_from_one(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (counts_from_zero(e.message()))
      fail(e.kind(), e.op(), e.message(), "; here they count from 0, in Lua from 1");
    throw;
  }
}
// f() gives a block tensor, which is pushed.
template <class F>
int push_result(lua_State* L, F&& f) {
  push_blocks(L, saying_legs_from_one([&] { return with_room(L, f); }));
  return 1;
}

// Methods: into the table on top of the stack.
void add_moves(lua_State* L);
void add_factors(lua_State* L);
// Functions of gradus.blocks: the same.
void add_leg(lua_State* L);
void add_making(lua_State* L);
void add_block_einsum(lua_State* L);
void open_block_type(lua_State* L);

}  // namespace gradus::lua
