// Methods of block tensors that move blocks about, take them apart, or go over their numbers.
#include "bindings/lua/blocks/blocks.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

namespace {

Coordinates coordinates_at(lua_State* L, int first, int last, const char* who) {
  Coordinates at;
  const auto add = [&](int index) {
    const int64_t k = integer_at(L, index, who);
    if (k < 1 || k > INT32_MAX)
      fail(ErrorKind::index, who, "sector ", k, "; sectors of a leg count from 1");
    at.push_back(int32_t(k - 1));
  };
  if (lua_istable(L, first))
    each_of(L, first, [&] { add(lua_gettop(L)); });
  else
    for (int i = first; i <= last; ++i) add(i);
  return at;
}

// x:block(1, 2), x:block({1, 2}): a view
int block(lua_State* L) {
  const BlockTensor x = self_blocks(L, "block");
  if (lua_istable(L, 2)) at_most(L, 2, "block: with the tensor");
  const Coordinates at = coordinates_at(L, 2, lua_gettop(L), "block");
  push(L, saying_legs_from_one([&] { return get_block(x, at); }));
  return 1;
}
// x:set_block({1, 2}, t): another tensor
int with_block(lua_State* L) {
  const BlockTensor x = self_blocks(L, "set_block");
  at_most(L, 3, "set_block: with the tensor");
  if (!lua_istable(L, 2))
    fail(ErrorKind::value, "set_block", "expected x:set_block({1, 2}, block), got ", kind_at(L, 2));
  const Coordinates at = coordinates_at(L, 2, 2, "set_block");
  const Tensor t =
      lua_istable(L, 3) ? numbers_at(L, 3, x.data.dtype()) : operand_at(L, 3, "set_block: block");
  return push_result(L, [&] { return set_block(x, at, t); });
}

// x:permute(2, 1, 3), x:permute({2, 1, 3} [, {signs = true}])
int permuted(lua_State* L) {
  const BlockTensor x = self_blocks(L, "permute");
  Ints dims;
  bool signs = false;
  if (lua_istable(L, 2)) {
    at_most(L, 3, "permute: with the tensor");
    each_of(L, 2, [&] { dims.push_back(axis_at(L, -1, "permute")); });
    Options options(L, 3, "permute");
    options.boolean("signs", signs);
    options.finish();
  } else {
    for (int i = 2; i <= lua_gettop(L); ++i) dims.push_back(axis_at(L, i, "permute"));
  }
  try {
    return push_result(
        L, [&] { return permute(x, dims, signs ? Crossing::signs : Crossing::refuse); });
  } catch (const Error& e) {
    const std::string said = "ask for the signs (Crossing::signs)";
    std::string text = e.message();
    const size_t place = text.find(said);
    if (place == text.npos) throw;
    text.replace(place, said.size(), "write x:permute({...}, {signs = true})");
    fail(e.kind(), e.op(), text);
  }
}

// x:fuse(axis, n [, arrow]): n legs from `axis` on, with the first one's arrow
int fused(lua_State* L) {
  const BlockTensor x = self_blocks(L, "fuse");
  at_most(L, 4, "fuse: with the tensor");
  const int64_t axis = axis_at(L, 2, "fuse"), n = integer_at(L, 3, "fuse: how many legs");
  const int64_t at = axis < 0 ? axis + int64_t(x.rank()) : axis;
  int64_t arrow = at >= 0 && at < int64_t(x.rank()) ? x.structure.legs()[size_t(at)].arrow() : 1;
  if (!lua_isnoneornil(L, 4)) arrow = integer_at(L, 4, "fuse: arrow");
  if (arrow != 1 && arrow != -1) fail(ErrorKind::value, "fuse", "an arrow is 1 or -1, got ", arrow);
  return push_result(L, [&] { return fuse(x, axis, n, int(arrow)); });
}
int parted(lua_State* L) {
  const BlockTensor x = self_blocks(L, "split");
  at_most(L, 2, "split: with the tensor");
  const int64_t axis = axis_at(L, 2, "split");
  return push_result(L, [&] { return split(x, axis); });
}

// x:slice(axis, {{0, 2}, {}, {1}}): of each sector [start, stop), from 0; {}: all of it
int sliced(lua_State* L) {
  const BlockTensor x = self_blocks(L, "slice");
  at_most(L, 3, "slice: with the tensor");
  const int64_t axis = axis_at(L, 2, "slice");
  if (!lua_istable(L, 3))
    fail(ErrorKind::value, "slice", "expected a range for each sector, {{0, 2}, {}, {1}}, got ",
         kind_at(L, 3));
  std::vector<std::pair<int64_t, int64_t>> ranges;
  each_of(L, 3, [&] {
    const Shape r = lua_istable(L, -1) ? sizes_at(L, -1, "slice: range") : Shape{0, 0, 0};
    if (r.size() > 2)
      fail(ErrorKind::value, "slice", "a range is {start, stop}, {start} or {}, got ",
           kind_at(L, -1));
    ranges.emplace_back(r.empty() ? 0 : r[0], r.size() < 2 ? kEnd : r[1]);
  });
  return push_result(L, [&] { return slice(x, axis, ranges); });
}

int traced(lua_State* L) {
  const BlockTensor x = self_blocks(L, "trace");
  at_most(L, 3, "trace: with the tensor");
  const int64_t a = axis_at(L, 2, "trace"), b = axis_at(L, 3, "trace");
  return push_result(L, [&] { return trace(x, a, b); });
}
int summed(lua_State* L) {
  const BlockTensor x = self_blocks(L, "sum");
  at_most(L, 2, "sum: with the tensor");
  if (lua_isnoneornil(L, 2))
    fail(ErrorKind::value, "sum", "of which leg? x.data:sum() is the sum of all numbers");
  const int64_t axis = axis_at(L, 2, "sum");
  return push_result(L, [&] { return sum(x, axis); });
}
int scaled(lua_State* L) {
  const BlockTensor x = self_blocks(L, "scale");
  at_most(L, 3, "scale: with the tensor");
  const int64_t axis = axis_at(L, 2, "scale");
  const Tensor numbers =
      lua_istable(L, 3) ? numbers_at(L, 3, x.data.dtype()) : operand_at(L, 3, "scale: numbers");
  return push_result(L, [&] { return scale(x, axis, numbers); });
}
int conjugated(lua_State* L) {
  const BlockTensor x = self_blocks(L, "conj");
  at_most(L, 1, "conj: with the tensor");
  return push_result(L, [&] { return conj(x); });
}
// x:twist(axis, ...)
int twisted(lua_State* L) {
  const BlockTensor x = self_blocks(L, "twist");
  Ints axes;
  for (int k = 2; k <= lua_gettop(L); ++k) axes.push_back(axis_at(L, k, "twist"));
  return push_result(L, [&] { return twist(x, axes); });
}

int norm_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "norm");
  at_most(L, 1, "norm: with the tensor");
  push(L, with_room(L, [&] { return norm(x); }));
  return 1;
}
int inner_of(lua_State* L) {
  const BlockTensor x = self_blocks(L, "inner");
  at_most(L, 2, "inner: with the tensor");
  const BlockTensor y = blocks_at(L, 2, "inner", "second argument");
  push(L, saying_legs_from_one([&] { return with_room(L, [&] { return inner(x, y); }); }));
  return 1;
}
int mapped(lua_State* L) {
  const BlockTensor x = self_blocks(L, "map");
  at_most(L, 2, "map: with the tensor");
  if (lua_type(L, 2) != LUA_TSTRING)
    fail(ErrorKind::value, "map", "expected the name of an op such as \"tanh\", got ",
         kind_at(L, 2));
  const std::string op = lua_tostring(L, 2);
  return push_result(L, [&] { return map(op.c_str(), x); });
}

int dense(lua_State* L) {
  const BlockTensor x = self_blocks(L, "to_dense");
  at_most(L, 1, "to_dense: with the tensor");
  push(L, with_room(L, [&] { return to_dense(x); }));
  return 1;
}
// x:with_data(t): the same structure, other numbers
int other_numbers(lua_State* L) {
  const BlockTensor x = self_blocks(L, "with_data");
  at_most(L, 2, "with_data: with the tensor");
  const Tensor t = operand_at(L, 2, "with_data");
  if (!(t.sizes() == Shape{x.structure.elements()}))
    fail(ErrorKind::shape, "with_data", "the numbers have shape ", t.sizes(),
         ", the structure takes ", Shape{x.structure.elements()});
  push_blocks(L, with_data(x, t));
  return 1;
}

}  // namespace

int64_t axis_at(lua_State* L, int index, const char* who) {
  return from_one(integer_at(L, index, join(who, ": axis").c_str()), who);
}

void add_moves(lua_State* L) {
  const luaL_Reg methods[] = {{"block", bind<block>},      {"set_block", bind<with_block>},
                              {"permute", bind<permuted>}, {"fuse", bind<fused>},
                              {"split", bind<parted>},     {"slice", bind<sliced>},
                              {"trace", bind<traced>},     {"sum", bind<summed>},
                              {"scale", bind<scaled>},     {"conj", bind<conjugated>},
                              {"twist", bind<twisted>},    {"norm", bind<norm_of>},
                              {"inner", bind<inner_of>},   {"map", bind<mapped>},
                              {"to_dense", bind<dense>},   {"with_data", bind<other_numbers>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
}

}  // namespace gradus::lua
