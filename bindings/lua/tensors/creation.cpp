// Tensors from Lua's numbers and back, constant ones, files; and methods that are no ops.
#include "bindings/lua/tensors/creation.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

namespace {

// ---- tables of numbers

struct Numbers {
  Shape sizes;
  std::vector<double> real;
  std::vector<int64_t> whole;
  bool any_real = false, any_whole = false;
};

// Is there a name among the elements of the table at an absolute index? Pushes it.
bool push_name(lua_State* L, int at, int64_t length) {
  length > 0 ? lua_pushinteger(L, length) : lua_pushnil(L);  // what comes behind the elements
  while (lua_next(L, at)) {
    look_at_clock(L);
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) return true;
  }
  return false;
}

void read_numbers(lua_State* L, int index, size_t depth, Numbers& n) {
  if (depth > 64) fail(ErrorKind::shape, "tensor", "tables within tables, more than 64 deep");
  const int at = lua_absindex(L, index);
  luaL_checkstack(L, 4, "tables too deep");
  if (lua_istable(L, at)) {
    const auto length = int64_t(lua_rawlen(L, at));
    if (n.sizes.size() == depth) {
      if (!n.real.empty()) fail(ErrorKind::shape, "tensor", "a table among numbers");
      n.sizes.push_back(length);
    } else if (n.sizes.size() < depth || n.sizes[depth] != length) {
      fail(ErrorKind::shape, "tensor",
           "rows of different lengths: ", n.sizes.size() > depth ? n.sizes[depth] : 0, " and ",
           length);
    }
    each_of(L, at, [&] { read_numbers(L, -1, depth + 1, n); });
    if (depth > 0 && push_name(L, at, length))
      fail(ErrorKind::value, "tensor", "\"", lua_tostring(L, -1), "\" among numbers; options ",
           "stand in the outermost table, or behind it: gradus.tensor({1, 2}, {dtype = \"f64\"})");
    return;
  }
  if (depth != n.sizes.size()) fail(ErrorKind::shape, "tensor", "a number among tables");
  if (lua_isboolean(L, at)) {
    n.whole.push_back(lua_toboolean(L, at));
    n.real.push_back(lua_toboolean(L, at));
  } else if (lua_type(L, at) == LUA_TNUMBER) {
    (lua_isinteger(L, at) ? n.any_whole : n.any_real) = true;
    n.whole.push_back(lua_isinteger(L, at) ? lua_tointeger(L, at) : 0);
    n.real.push_back(lua_tonumber(L, at));
  } else {
    fail(ErrorKind::value, "tensor", "expected numbers or tables of numbers, got ", kind_at(L, at));
  }
}

}  // namespace

Tensor numbers_at(lua_State* L, int index, std::optional<DType> dtype) {
  Numbers n;
  read_numbers(L, index, 0, n);
  const DType natural = n.any_real || n.real.empty() ? DType::f32
                        : n.any_whole                ? DType::i64
                                                     : DType::bool_;
  Device& device = device_of(L);
  const Tensor t = with_room(L, [&] {
    return n.any_real ? Tensor::from(n.real, n.sizes, device)
                      : Tensor::from(n.whole, n.sizes, device);
  });
  return cast(t, dtype.value_or(natural)).detach();
}

namespace {

// gradus.tensor(numbers [, options]): whole numbers give i64, others (and none) f32, booleans bool;
// options may stand among the numbers, gradus.tensor{1, 2, dtype = "f64"}
int tensor_of(lua_State* L) {
  at_most(L, 2, "tensor");
  const bool among = lua_istable(L, 1) && lua_isnoneornil(L, 2);
  const Wanted wanted(L, among ? 1 : 2, "tensor", among);
  if (Tensor* const t = tensor_at(L, 1)) {
    Tensor copy = clone(*t).detach();
    push(L, wanted.finish(wanted.dtype ? cast(copy, *wanted.dtype) : copy));
    return 1;
  }
  push(L, wanted.finish(numbers_at(L, 1, wanted.dtype)));
  return 1;
}

// A tensor's elements as host numbers.
struct Elements {
  DType dtype;
  std::vector<double> real{};
  std::vector<int64_t> whole{};

  explicit Elements(const Tensor& t) : dtype(t.dtype()) {
    if (dtype == DType::bool_ || is_integer(dtype))
      whole = cast(t, DType::i64).to_vector<int64_t>();
    else
      real = cast(t, DType::f64).to_vector<double>();
  }
  void push(lua_State* L, size_t at) const {
    if (dtype == DType::bool_)
      lua_pushboolean(L, whole[at] != 0);
    else if (is_integer(dtype))
      lua_pushinteger(L, whole[at]);
    else
      lua_pushnumber(L, real[at]);
  }
};

void push_nested(lua_State* L, const Elements& elements, const Shape& sizes, size_t axis,
                 size_t& at) {
  if (axis == sizes.size()) return elements.push(L, at++);
  luaL_checkstack(L, 4, "too many axes");
  lua_createtable(L, int(std::min<int64_t>(sizes[axis], 1 << 20)), 0);
  for (int64_t i = 0; i < sizes[axis]; ++i) {
    look_at_clock(L);
    push_nested(L, elements, sizes, axis + 1, at);
    lua_rawseti(L, -2, i + 1);
  }
}

// A large tensor goes to the host in parts of some rows, beside Lua's tables.
constexpr int64_t kPart = 64 << 10;
void push_table(lua_State* L, const Tensor& t) {
  size_t at = 0;
  if (t.numel() <= kPart) return push_nested(L, Elements(t), t.sizes(), 0, at);
  luaL_checkstack(L, 4, "too many axes");
  const int64_t rows = t.size(0), most = kPart / (t.numel() / rows);
  lua_createtable(L, int(std::min<int64_t>(rows, 1 << 20)), 0);
  for (int64_t i = 0; i < rows;) {
    if (most <= 1) {
      push_table(L, select(t, 0, i));
      lua_rawseti(L, -2, ++i);
      continue;
    }
    const int64_t end = std::min(i + most, rows);
    const Elements part(slice(t, 0, i, end));
    for (at = 0; i < end;) {
      push_nested(L, part, t.sizes(), 1, at);
      lua_rawseti(L, -2, ++i);
    }
  }
}

// t:totable(): nested tables of numbers; t:item(): the one number
int to_table(lua_State* L) {
  const Tensor t = self_at(L, "totable").detach();
  if (is_complex(t.dtype()))
    fail(ErrorKind::dtype, "totable", "Lua has no complex numbers; take t:real() and t:imag()");
  const Unwatched quiet;
  push_table(L, t);
  return 1;
}
int item(lua_State* L) {
  const Tensor t = self_at(L, "item");
  if (t.numel() != 1)
    fail(ErrorKind::shape, "item", "one element expected, the shape is ", t.sizes());
  if (t.dtype() == DType::bool_)
    lua_pushboolean(L, t.item_integer() != 0);
  else if (is_integer(t.dtype()))
    lua_pushinteger(L, t.item_integer());
  else
    lua_pushnumber(L, t.item());
  return 1;
}
// t:size() is t.shape; t:size(2) one of them
int size(lua_State* L) {
  const Tensor t = self_at(L, "size");
  at_most(L, 2, "size: with the tensor");
  if (lua_isnone(L, 2)) return push_property(L, t, "shape"), 1;
  const int64_t axis = from_one(integer_at(L, 2, "size: axis"), "size: axis");
  lua_pushinteger(L, saying_from_one([&] { return t.size(axis); }));
  return 1;
}
int numel(lua_State* L) {
  lua_pushinteger(L, self_at(L, "numel").numel());
  return 1;
}
// t:equal(u): one boolean; the same shape and the same numbers
int equal(lua_State* L) {
  const Tensor t = self_at(L, "equal").detach(), u = operand_at(L, 2, "equal").detach();
  const Tensor same = t.sizes() == u.sizes() ? all(eq(t, u)) : Tensor();
  lua_pushboolean(L, same.defined() && same.item_integer() != 0);
  return 1;
}
int copy_of(lua_State* L) {
  at_most(L, 1, "clone: with the tensor");
  push(L, clone(self_at(L, "clone")));
  return 1;
}
// x:fill_(v), x:copy_(y)
template <auto F>
int written(lua_State* L) {
  F(self_at(L, "in-place write"), operand_at(L, 2, "in-place write"));
  lua_settop(L, 1);
  return 1;
}
int zero(lua_State* L) {
  zero_(self_at(L, "zero_"));
  lua_settop(L, 1);
  return 1;
}
// for i, row in t:rows() do
int next_row(lua_State* L) {
  const Tensor t = operand_at(L, 1, "rows");
  const int64_t i = lua_tointeger(L, 2);
  if (i >= t.size(0)) return 0;
  lua_pushinteger(L, i + 1);
  push(L, select(t, 0, i));
  return 2;
}
int rows_of(lua_State* L) {
  const Tensor t = self_at(L, "rows");
  if (t.rank() == 0) fail(ErrorKind::shape, "rows", "a tensor of one number has no rows");
  lua_pushcfunction(L, bind<next_row>);
  push(L, t);
  lua_pushinteger(L, 0);
  return 3;
}

template <int Value>
int constant(lua_State* L) {
  const Asked a(L, Value ? "ones" : "zeros");
  push(L, with_room(L, [&] {
         return a.wanted.finish(Tensor::full(a.sizes, Value, DType::f32, device_of(L)));
       }));
  return 1;
}
// ---- files: gradus.save(path, tensor | {name = tensor}), by the ending .npy or .safetensors

bool ends_with(const std::string& s, std::string_view end) {
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}
int load_file(lua_State* L) {
  const std::string path = luaL_checkstring(L, 1);
  at_most(L, 2, "load");
  const Wanted wanted(L, 2, "load");
  check_path(L, path, Access::read);
  const auto finished = [&](const Tensor& t) {
    return wanted.finish(wanted.dtype ? with_room(L, [&] { return cast(t, *wanted.dtype); }) : t);
  };
  if (ends_with(path, ".npy")) return push(L, finished(read_npy(path, device_of(L)))), 1;
  if (!ends_with(path, ".safetensors"))
    fail(ErrorKind::io, path, "expected a file that ends in .npy or .safetensors");
  lua_newtable(L);
  for (const auto& [name, t] : read_safetensors(path, device_of(L)).tensors) {
    push(L, finished(t));
    lua_setfield(L, -2, name.c_str());
  }
  return 1;
}
int save_file(lua_State* L) {
  if (lua_type(L, 1) != LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING) {  // PyTorch's order
    lua_settop(L, 2);
    lua_insert(L, 1);
  }
  const std::string path = luaL_checkstring(L, 1);
  check_path(L, path, Access::write);
  if (ends_with(path, ".npy")) return write_npy(path, operand_at(L, 2, "save").detach()), 0;
  if (!ends_with(path, ".safetensors") || !lua_istable(L, 2))
    fail(ErrorKind::io, path,
         "a tensor goes to a file that ends in .npy, a table {name = tensor} to .safetensors");
  std::map<std::string, Tensor> sorted;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, "save", "tensors need names");
    sorted[lua_tostring(L, -2)] = operand_at(L, -1, "save").detach();
  }
  write_safetensors(path, NamedTensors(sorted.begin(), sorted.end()));
  return 0;
}

}  // namespace

void open_creation(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {{"totable", bind<to_table>}, {"item", bind<item>},
                              {"size", bind<size>},        {"numel", bind<numel>},
                              {"clone", bind<copy_of>},    {"rows", bind<rows_of>},
                              {"equal", bind<equal>},      {"fill_", bind<written<fill_>>},
                              {"zero_", bind<zero>},       {"copy_", bind<written<copy_>>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"tensor", bind<tensor_of>}, {"zeros", bind<constant<0>>},
                                {"ones", bind<constant<1>>}, {"load", bind<load_file>},
                                {"save", bind<save_file>},   {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace gradus::lua
