// gradus.diagonal_tensor, copy_tensor, identity, permutation, and what is done with them. Classes
// and axes count from 1, indices from 0.
#include "bindings/lua/classed.hpp"

#include "bindings/lua/labels.hpp"
#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "ops/contract/algebra.hpp"
#include "ops/diagonal/classed.hpp"

namespace gradus::inline v1::lua {

namespace {

using Classed = Userdata<ClassedTensor, kClassed>;

// A result: a tensor where it is one. The collector hears of a payload's bytes by a tensor beside.
int push_classed(lua_State* L, ClassedTensor x) {
  if (x.rank() == 0 || x.is_dense()) return push(L, to_dense(x)), 1;
  const Tensor payload = x.payload;
  Classed::push(L, std::move(x), 1);
  if (!payload.defined()) return 1;
  push(L, payload);
  lua_setiuservalue(L, -2, 1);
  return 1;
}
ClassedTensor self_of(lua_State* L, const char* method) {
  const ClassedTensor* const x = Classed::at(L, 1);
  if (!x) fail(ErrorKind::value, method, "called on ", kind_at(L, 1), ", no classed tensor");
  return *x;
}
// A classed tensor, a tensor or a number.
ClassedTensor classed_at(lua_State* L, int index, const char* what) {
  if (const ClassedTensor* const x = Classed::at(L, index)) return *x;
  return operand_at(L, index, what);
}

DType dtype_at(lua_State* L, int index, const char* who) {
  std::optional<DType> dtype;
  Options options(L, index, who);
  options.dtype("dtype", dtype);
  options.finish();
  at_most(L, index, who);
  return dtype.value_or(DType::f32);
}
Ints axes_at(lua_State* L, int index, const char* who) {
  Ints axes;
  for (const int64_t k : sizes_at(L, index, who)) axes.push_back(from_one(k, who));
  return axes;
}

int make_diagonal(lua_State* L) {
  at_most(L, 2, "diagonal_tensor");
  const Tensor payload = operand_at(L, 1, "diagonal_tensor: payload");
  const Ints classes =
      lua_isnoneornil(L, 2) ? Ints{0, 0} : axes_at(L, 2, "diagonal_tensor: classes");
  return push_classed(L, saying_from_one([&] { return diagonal_tensor(payload, classes); }));
}
int make_copy(lua_State* L) {
  const int64_t n = integer_at(L, 1, "copy_tensor: n"),
                order = integer_at(L, 2, "copy_tensor: order");
  const DType dtype = dtype_at(L, 3, "copy_tensor");
  if (order > 64) fail(ErrorKind::value, "copy_tensor", "order is ", order, ", expected up to 64");
  Classed::push(L, copy_tensor(n, order, dtype), 1);
  return 1;
}
int make_identity(lua_State* L) {
  const int64_t n = integer_at(L, 1, "identity: n");
  Classed::push(L, identity(n, dtype_at(L, 2, "identity")), 1);
  return 1;
}
int make_permutation(lua_State* L) {
  const Tensor index =
      lua_istable(L, 1) ? numbers_at(L, 1) : operand_at(L, 1, "permutation: index");
  return push_classed(L, permutation(index, dtype_at(L, 2, "permutation")));
}

// ---- methods

template <Tensor (*F)(const ClassedTensor&)>
int tensor_of(lua_State* L) {
  const ClassedTensor x = self_of(L, "a method of a classed tensor");
  at_most(L, 1, "a method of a classed tensor");
  push(L, with_room(L, [&] { return F(x); }));
  return 1;
}
template <ClassedTensor (*F)(const ClassedTensor&)>
int classed_of(lua_State* L) {
  const ClassedTensor x = self_of(L, "a method of a classed tensor");
  at_most(L, 1, "a method of a classed tensor");
  return push_classed(L, with_room(L, [&] { return F(x); }));
}
int permuted(lua_State* L) {
  const ClassedTensor x = self_of(L, "permute");
  Ints dims;
  if (lua_istable(L, 2)) {
    at_most(L, 2, "permute");
    dims = axes_at(L, 2, "permute");
  } else {
    for (int i = 2; i <= lua_gettop(L); ++i)
      dims.push_back(from_one(integer_at(L, i, "permute"), "permute"));
  }
  return push_classed(L, saying_from_one([&] { return permute(x, dims); }));
}
int mapped(lua_State* L) {
  const ClassedTensor x = self_of(L, "map_values");
  at_most(L, 2, "map_values");
  if (lua_type(L, 2) != LUA_TSTRING)
    fail(ErrorKind::value, "map_values", "expected the name of an op such as \"sin\", got ",
         kind_at(L, 2));
  const std::string op = lua_tostring(L, 2);
  return push_classed(L, with_room(L, [&] { return map_values(op, x); }));
}
int solved(lua_State* L) {
  const ClassedTensor x = self_of(L, "solve");
  at_most(L, 2, "solve");
  const Tensor b = operand_at(L, 2, "solve: B");
  push(L, with_room(L, [&] { return solve(x, b); }));
  return 1;
}

constexpr luaL_Reg kMethods[] = {{"to_dense", bind<tensor_of<to_dense>>},
                                 {"conj", bind<classed_of<conj>>},
                                 {"permute", bind<permuted>},
                                 {"map_values", bind<mapped>},
                                 {"trace", bind<tensor_of<trace>>},
                                 {"det", bind<tensor_of<det>>},
                                 {"inv", bind<classed_of<inv>>},
                                 {"solve", bind<solved>},
                                 {"matrix_exp", bind<classed_of<matrix_exp>>},
                                 {"sqrtm", bind<classed_of<sqrtm>>},
                                 {"logm", bind<classed_of<logm>>}};
constexpr const char* kFields[] = {"payload", "classes", "shape",      "dtype",      "to_dense",
                                   "conj",    "permute", "map_values", "trace",      "det",
                                   "inv",     "solve",   "sqrtm",      "matrix_exp", "logm"};

int push_numbers(lua_State* L, const Shape& numbers, int64_t from) {
  lua_createtable(L, int(numbers.size()), 0);
  luaL_setmetatable(L, kSizes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    lua_pushinteger(L, numbers[i] + from);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
  return 1;
}
int get(lua_State* L) {
  const ClassedTensor x = self_of(L, "a field of a classed tensor");
  const std::string_view name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (name == "payload") return push(L, values(x)), 1;
  if (name == "classes") return push_numbers(L, x.classes, 1);
  if (name == "shape") return push_numbers(L, x.sizes(), 0);
  if (name == "dtype") return lua_pushstring(L, dtype_name(x.dtype())), 1;
  for (const luaL_Reg& method : kMethods)
    if (name == method.name) return lua_pushcfunction(L, method.func), 1;
  fail(ErrorKind::value, "classed tensor", "has no \"", name.substr(0, 100), "\"",
       did_you_mean(std::string(name),
                    std::vector<std::string>(std::begin(kFields), std::end(kFields))));
}
int text(lua_State* L) {
  lua_pushstring(L, self_of(L, "tostring").to_string(1).c_str());
  return 1;
}
template <char Sign>
int operate(lua_State* L) {
  if (!classed_operator(L, Sign)) fail(ErrorKind::value, "classed tensor", "no operand is one");
  return 1;
}
int negated(lua_State* L) {
  const ClassedTensor x = self_of(L, "neg");
  return push_classed(L, with_room(L, [&] { return neg(x); }));
}

// ---- einsum

bool repeats(const Labels& labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (labels[i] == labels[k]) return true;
  return false;
}
bool repeats_output(std::string_view equation) {
  const size_t arrow = equation.find("->");
  if (arrow == std::string_view::npos) return false;
  bool seen[256] = {}, again = false;  // a first look, at bytes
  for (const char c : equation.substr(arrow + 2)) {
    bool& one = seen[static_cast<unsigned char>(c)];
    again = again || (one && c != '.' && c != ' ');
    one = true;
  }
  if (!again) return false;
  const Equation read = parse_equation(equation, RepeatedOutput::allowed);
  return repeats(read.output->letters);
}
bool holds_classed(lua_State* L, int table) {
  bool any = false;
  each_of(L, table, [&] { any = any || Classed::at(L, lua_gettop(L)); });
  return any;
}
ClassedTensors list_of(lua_State* L, int table) {
  ClassedTensors list;
  each_of(L, table, [&] { list.push_back(classed_at(L, lua_gettop(L), "einsum: operand")); });
  return list;
}
int by_labels(lua_State* L) {
  at_most(L, 4, "einsum");
  const Algebra algebra = algebra_at(L, 4);
  const ClassedTensors operands = list_of(L, 1);
  const SaidLabels said = labels_of(L, "einsum");
  if (!said.output)
    fail(ErrorKind::value, "einsum", "classed tensors need the labels of the output");
  return push_classed(
      L, with_room(L, [&] { return einsum_classed(operands, said.terms, *said.output, algebra); }));
}
int by_equation(lua_State* L) {
  const std::string equation = lua_tostring(L, 1);
  ClassedTensors operands;
  int at = 2;
  if (lua_istable(L, 2))
    operands = list_of(L, at++);
  else
    while (Classed::at(L, at) || tensor_at(L, at))
      operands.push_back(classed_at(L, at++, "einsum: operand"));
  at_most(L, at, "einsum");
  const Algebra algebra = algebra_at(L, at);
  return push_classed(L, with_room(L, [&] { return einsum_classed(equation, operands, algebra); }));
}

}  // namespace

bool classed_operator(lua_State* L, char sign) {
  if (!Classed::at(L, 1) && !Classed::at(L, 2)) return false;
  const std::string name = sign == '+'   ? "add"
                           : sign == '-' ? "sub"
                           : sign == '*' ? "mul"
                                         : "div",
                    right = name + ": right operand";
  const ClassedTensor a = classed_at(L, 1, (name + ": left operand").c_str());
  if (sign == '/') {
    const Tensor b = operand_at(L, 2, right.c_str());
    return push_classed(L, with_room(L, [&] { return div(a, b); }));
  }
  const ClassedTensor b = classed_at(L, 2, right.c_str());
  return push_classed(L, with_room(L, [&] {
                        return sign == '+' ? add(a, b) : sign == '-' ? sub(a, b) : mul(a, b);
                      }));
}

bool classed_einsum(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    bool any = lua_istable(L, 2) && holds_classed(L, 2);
    for (int i = 2; i <= lua_gettop(L); ++i) any = any || Classed::at(L, i);
    return (any || repeats_output(lua_tostring(L, 1))) && by_equation(L);
  }
  if (!lua_istable(L, 1) || !lua_istable(L, 2)) return false;
  bool any = holds_classed(L, 1);
  if (!any && lua_istable(L, 3)) {
    const SaidLabels said = labels_of(L, "einsum");
    any = repeats(*said.output);
  }
  return any && by_labels(L);
}

void open_classed(lua_State* L) {
  open_type(L, kClassed,
            {{"__index", bind<get>},
             {"__add", bind<operate<'+'>>},
             {"__sub", bind<operate<'-'>>},
             {"__mul", bind<operate<'*'>>},
             {"__div", bind<operate<'/'>>},
             {"__unm", bind<negated>},
             {"__tostring", bind<text>},
             {"__gc", Classed::collect}},
            {}, kFields);
  const std::pair<const char*, lua_CFunction> makers[] = {{"diagonal_tensor", bind<make_diagonal>},
                                                          {"copy_tensor", bind<make_copy>},
                                                          {"identity", bind<make_identity>},
                                                          {"permutation", bind<make_permutation>}};
  for (const auto& [name, make] : makers) {
    lua_pushcfunction(L, make);
    lua_setfield(L, -2, name);
  }
}

}  // namespace gradus::lua
