// Names that people know from PyTorch, beside our own for the same: x:view(3, 2), x:float(),
// gradus.is_tensor. What PyTorch has and gradus has not gets a word (words.cpp).
#include "bindings/lua/tensors/creation.hpp"
#include "bindings/lua/words.hpp"
#include "engine/batch.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

namespace {

// The sizes behind a tensor: x:view(3, 2) or x:view({3, 2}).
Shape sizes_behind(lua_State* L, const char* who) {
  Shape out;
  if (lua_gettop(L) == 2 && lua_istable(L, 2)) {
    for (const int64_t n : sizes_at(L, 2, who)) out.push_back(n);
  } else {
    if (lua_gettop(L) < 2) fail(ErrorKind::value, who, "expected sizes, got nothing");
    for (int i = 2; i <= lua_gettop(L); ++i) out.push_back(integer_at(L, i, who));
  }
  return out;
}
Tensor viewed(const Tensor& x, const Shape& sizes) {
  const Tensor y = reshape(x, sizes);
  if (is_batched(x)) return y;  // its memory is that of all examples
  if (y.numel() > 0 && &y.storage() != &x.storage())
    fail(ErrorKind::shape, "view", "the elements of ", x.sizes(), " with strides ", x.strides(),
         " don't lie as ", y.sizes(), " needs them; x:reshape() copies them");
  return y;
}
int view(lua_State* L) {
  const Tensor x = self_at(L, "view");
  const Shape sizes = sizes_behind(L, "view");
  push(L, with_room(L, [&] { return viewed(x, sizes); }));
  return 1;
}
Tensor view_as(const Tensor& x, const Tensor& y) { return viewed(x, y.sizes()); }
Tensor reshape_as(const Tensor& x, const Tensor& y) { return reshape(x, y.sizes()); }
Tensor expand_as(const Tensor& x, const Tensor& y) { return expand(x, y.sizes()); }
Tensor type_as(const Tensor& x, const Tensor& y) { return cast(x, y.dtype()); }
template <Tensor (*F)(const Tensor&, const Tensor&)>
int as_another(lua_State* L) {
  const Tensor x = self_at(L, "as another"), y = operand_at(L, 2, "as another");
  at_most(L, 2, "as another: with the tensor");
  push(L, with_room(L, [&] { return F(x, y); }));
  return 1;
}

// x:t() of a matrix; a vector is its own, as in PyTorch
int transposed(lua_State* L) {
  const Tensor x = self_at(L, "t");
  at_most(L, 1, "t: with the tensor");
  if (x.rank() > 2)
    fail(ErrorKind::shape, "t", "expected a matrix, the shape is ", x.sizes(),
         "; x.mT swaps the last two axes, x:transpose(1, 2) any two");
  push(L, x.rank() < 2 ? x : transpose(x, 0, 1));
  return 1;
}

template <DType T>
int as_dtype(lua_State* L) {
  const Tensor x = self_at(L, "cast");
  at_most(L, 1, "cast: with the tensor");
  push(L, with_room(L, [&] { return cast(x, T); }));
  return 1;
}
// x:type() is x.dtype; x:type("f64") casts
int type_of(lua_State* L) {
  const Tensor x = self_at(L, "type");
  at_most(L, 2, "type: with the tensor");
  if (lua_isnone(L, 2)) return push_property(L, x, "dtype"), 1;
  if (lua_type(L, 2) != LUA_TSTRING)
    fail(ErrorKind::value, "type", "expected the name of a dtype, got ", kind_at(L, 2));
  const DType dtype = parse_dtype(lua_tostring(L, 2));
  push(L, with_room(L, [&] { return cast(x, dtype); }));
  return 1;
}

template <int64_t (*F)(const Tensor&)>
int whole(lua_State* L) {
  const Tensor x = self_at(L, "tensor");
  at_most(L, 1, "with the tensor");
  lua_pushinteger(L, F(x));
  return 1;
}
template <bool (*F)(const Tensor&)>
int truth(lua_State* L) {
  const Tensor x = self_at(L, "tensor");
  at_most(L, 1, "with the tensor");
  lua_pushboolean(L, F(x));
  return 1;
}
int64_t rank_of(const Tensor& x) { return x.rank(); }
int64_t element_size(const Tensor& x) { return int64_t(itemsize(x.dtype())); }
bool lies_in_order(const Tensor& x) { return x.is_contiguous(); }
bool complex_numbers(const Tensor& x) { return is_complex(x.dtype()); }
bool floating_numbers(const Tensor& x) { return is_real_float(x.dtype()); }

// gradus.is_tensor(v)
int is_tensor(lua_State* L) {
  lua_pushboolean(L, tensor_at(L, 1) != nullptr);
  return 1;
}
// gradus.as_tensor(v): a tensor as it is, else gradus.tensor(v); what stands below
int as_tensor(lua_State* L) {
  if (tensor_at(L, 1) && lua_gettop(L) == 1) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

// Of the table on top: `name` becomes what `known` is.
void alias(lua_State* L, const char* name, const char* known) {
  lua_getfield(L, -1, known);
  lua_setfield(L, -2, name);
}

// A global that nobody set: nil, or, of a word of Python's or PyTorch's, an error.
int unknown_global(lua_State* L) {
  const std::string_view name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (const std::string word = word_for_global(name); !word.empty())
    fail(ErrorKind::value, "", "there is no global \"", name, "\"; write ", word);
  return 0;
}

}  // namespace

void open_names(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {{"view", bind<view>},
                              {"view_as", bind<as_another<view_as>>},
                              {"reshape_as", bind<as_another<reshape_as>>},
                              {"expand_as", bind<as_another<expand_as>>},
                              {"type_as", bind<as_another<type_as>>},
                              {"t", bind<transposed>},
                              {"type", bind<type_of>},
                              {"float", bind<as_dtype<DType::f32>>},
                              {"double", bind<as_dtype<DType::f64>>},
                              {"half", bind<as_dtype<DType::f16>>},
                              {"bfloat16", bind<as_dtype<DType::bf16>>},
                              {"int", bind<as_dtype<DType::i32>>},
                              {"long", bind<as_dtype<DType::i64>>},
                              {"byte", bind<as_dtype<DType::u8>>},
                              {"bool", bind<as_dtype<DType::bool_>>},
                              {"cfloat", bind<as_dtype<DType::c64>>},
                              {"cdouble", bind<as_dtype<DType::c128>>},
                              {"dim", bind<whole<rank_of>>},
                              {"element_size", bind<whole<element_size>>},
                              {"is_contiguous", bind<truth<lies_in_order>>},
                              {"is_complex", bind<truth<complex_numbers>>},
                              {"is_floating_point", bind<truth<floating_numbers>>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  alias(L, "nelement", "numel");
  alias(L, "tolist", "totable");
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"is_tensor", bind<is_tensor>}, {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  lua_getfield(L, -1, "tensor");
  lua_pushcclosure(L, bind<as_tensor>, 1);
  lua_setfield(L, -2, "as_tensor");
  alias(L, "empty", "zeros");
  alias(L, "empty_like", "zeros_like");
  for (const auto& [name, dtype] : {std::pair{"float32", "f32"},
                                    {"float64", "f64"},
                                    {"float16", "f16"},
                                    {"bfloat16", "bf16"},
                                    {"float", "f32"},
                                    {"double", "f64"},
                                    {"half", "f16"},
                                    {"int32", "i32"},
                                    {"int64", "i64"},
                                    {"int", "i32"},
                                    {"long", "i64"},
                                    {"uint8", "u8"},
                                    {"bool", "bool"},
                                    {"complex64", "c64"},
                                    {"complex128", "c128"}}) {
    lua_pushstring(L, dtype);
    lua_setfield(L, -2, name);
  }
}

void open_functional(lua_State* L) {
  lua_pushliteral(L, "nn");
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "functional");
  }
  lua_pop(L, 1);
  lua_pushglobaltable(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, bind<unknown_global>);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

}  // namespace gradus::lua
