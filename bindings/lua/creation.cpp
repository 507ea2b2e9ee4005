// Tensors from Lua's numbers and back, random ones, files, devices; and methods that are no ops.
#include "bindings/lua/options.hpp"
#include "engine/io/device_config.hpp"
#include "engine/io/npy.hpp"
#include "engine/io/safetensors.hpp"
#include "engine/random.hpp"
#include "ops/audit/watch.hpp"
#include "ops/dtypes.hpp"
#include "ops/ops.hpp"

#include <cmath>

namespace gradus::lua {

namespace {

// {dtype = "f64", requires_grad = true} at `index`, or nothing; 0: nowhere.
struct Wanted {
  std::optional<DType> dtype;
  bool requires_grad = false;

  Wanted(lua_State* L, int index, const char* what) {
    Options options(L, index, what);
    options.dtype("dtype", dtype);
    options.boolean("requires_grad", requires_grad);
    options.finish();
  }
  Tensor finish(Tensor t) const {
    if (requires_grad) t.set_requires_grad();
    return t;
  }
};

// ---- tables of numbers

struct Numbers {
  Shape sizes;
  std::vector<double> real;
  std::vector<int64_t> whole;
  bool any_real = false, any_whole = false;
};

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

// gradus.tensor(numbers [, options]): whole numbers give i64, others (and none) f32, booleans bool
int tensor_of(lua_State* L) {
  const Wanted wanted(L, 2, "tensor");
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
  const audit::Unwatched quiet;
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
int size(lua_State* L) {
  const Tensor t = self_at(L, "size");
  const int64_t axis = from_one(integer_at(L, 2, "size: axis"), "size: axis");
  lua_pushinteger(L, saying_from_one([&] { return t.size(axis); }));
  return 1;
}
int numel(lua_State* L) {
  lua_pushinteger(L, self_at(L, "numel").numel());
  return 1;
}
std::optional<DType> dtype_called(const std::string& name) {
  try {
    return parse_dtype(name);
  } catch (const Error&) {
    return {};
  }
}
DeviceConfig device_called(const std::string& name) {
  try {
    return parse_device_config(name, "to");
  } catch (const Error& e) {
    fail(e.kind(), e.op(), e.message(), "; or a dtype, such as f64");
  }
}
// t:to("f64"), t:to("cuda:0")
int to(lua_State* L) {
  const Tensor t = self_at(L, "to");
  const std::string name = luaL_checkstring(L, 2);
  if (const std::optional<DType> dtype = dtype_called(name))
    return push(L, with_room(L, [&] { return cast(t, *dtype); })), 1;
  // A file or an object may name code to load, which is no sandbox's business.
  const bool plain = name.find_first_of("{/.") == std::string::npos;
  if (!plain && types_of(L).sandboxed)
    fail(ErrorKind::value, "to", "expected a dtype or a device such as cuda:0, got \"", name, "\"");
  DeviceConfig config = device_called(name);
  config.fallback = DeviceConfig::Fallback::error;
  Device& device = *open_configured(config).device;
  limit_memory_of(L, device);
  push(L, with_room(L, [&] { return to_device(t, device); }));
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
// x:add_(y) and its kin: the op in place
int in_place_op(lua_State* L) {
  const std::string op = lua_tostring(L, lua_upvalueindex(1));
  const Tensor x = self_at(L, (op + "_").c_str());
  const int64_t expected = lua_tointeger(L, lua_upvalueindex(2)), given = lua_gettop(L) - 1;
  if (given != expected)
    fail(ErrorKind::value, op + "_", "takes ", expected, expected == 1 ? " argument" : " arguments",
         ", got ", given);
  Tensors others;
  for (int i = 2; i <= lua_gettop(L); ++i) others.push_back(operand_at(L, i, op.c_str()));
  in_place(op, x, others);
  lua_settop(L, 1);
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

// ---- sizes as gradus.zeros(2, 3 [, options]) or gradus.zeros({2, 3} [, options])

struct Asked {
  Shape sizes;
  Wanted wanted;
  explicit Asked(lua_State* L, const char* what) : wanted(L, options_at(L), what) {
    const int last = options_at(L) ? lua_gettop(L) - 1 : lua_gettop(L);
    if (last == 1 && lua_istable(L, 1))
      sizes = sizes_at(L, 1, what);
    else
      for (int i = 1; i <= last; ++i) sizes.push_back(integer_at(L, i, what));
    for (const int64_t n : sizes)
      if (n < 0) fail(ErrorKind::shape, what, "a size of ", n);
  }
  Tensor finish(const Tensor& t) const {
    return wanted.finish(wanted.dtype ? cast(t, *wanted.dtype).detach() : t);
  }

 private:
  // Where the options stand: a table without a first element at the end; 0 is an index of nothing.
  static int options_at(lua_State* L) {
    const int top = lua_gettop(L);
    return top > 0 && lua_istable(L, top) && lua_rawlen(L, top) == 0 &&
                   (top > 1 || !is_empty(L, top))
               ? top
               : 0;
  }
  static bool is_empty(lua_State* L, int index) {
    lua_pushnil(L);
    if (lua_next(L, index) == 0) return true;
    lua_pop(L, 2);
    return false;
  }
};

template <int Value>
int constant(lua_State* L) {
  const Asked a(L, Value ? "ones" : "zeros");
  push(L, with_room(
              L, [&] { return a.finish(Tensor::full(a.sizes, Value, DType::f32, device_of(L))); }));
  return 1;
}
Tensor random(const Asked& a, const char* op) {
  SmallVector<int64_t, 6> sizes;
  for (const int64_t n : a.sizes) sizes.push_back(n);
  const DType t = a.wanted.dtype.value_or(DType::f32);
  const OpInfo& info = get_op(op);
  Attrs attrs;
  for (const AttrSpec& spec : info.attrs)
    attrs.push_back(spec.name == "size"    ? AttrValue(sizes)
                    : spec.name == "dtype" ? AttrValue(t)
                                           : spec.default_value);
  return info.call({}, attrs)[0];
}
int rand(lua_State* L) {
  const Asked a(L, "rand");
  push(L, with_room(L, [&] { return a.finish(random(a, "uniform")); }));
  return 1;
}
int randn(lua_State* L) {
  const Asked a(L, "randn");
  push(L, with_room(L, [&] { return a.finish(random(a, "normal")); }));
  return 1;
}
int seed(lua_State* L) {
  manual_seed(uint64_t(integer_at(L, 1, "seed")));
  return 0;
}
int device(lua_State* L) {
  at_most(L, 0, "device");
  lua_pushstring(L, device_of(L).name().c_str());
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
  const luaL_Reg methods[] = {{"totable", bind<to_table>},
                              {"item", bind<item>},
                              {"size", bind<size>},
                              {"numel", bind<numel>},
                              {"to", bind<to>},
                              {"clone", bind<copy_of>},
                              {"rows", bind<rows_of>},
                              {"equal", bind<equal>},
                              {"fill_", bind<written<fill_>>},
                              {"zero_", bind<zero>},
                              {"copy_", bind<written<copy_>>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  for (const char* op : {"add", "sub", "mul", "div", "pow", "neg", "exp", "sqrt", "relu", "tanh"}) {
    lua_pushstring(L, op);
    lua_pushinteger(L, int64_t(get_op(op).operands.size()) - 1);
    lua_pushcclosure(L, bind<in_place_op>, 2);
    lua_setfield(L, -2, (std::string(op) + "_").c_str());
  }
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"tensor", bind<tensor_of>}, {"zeros", bind<constant<0>>},
                                {"ones", bind<constant<1>>}, {"rand", bind<rand>},
                                {"randn", bind<randn>},      {"seed", bind<seed>},
                                {"device", bind<device>},    {"load", bind<load_file>},
                                {"save", bind<save_file>},   {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace gradus::lua
