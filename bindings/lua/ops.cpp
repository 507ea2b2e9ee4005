// Every op of the op list as gradus.NAME(...) and t:NAME(...): operands first, then attributes in
// their order or by name in a last table: gradus.sum(x, {dim = {1, 2}, keepdim = true}).
// Attributes that are axes count from 1; all other numbers are as in C++.
#include "bindings/lua/state.hpp"
#include "ops/dtypes.hpp"
#include "ops/pointwise_calls.hpp"
#include "ops/rows/rows.hpp"

#include <algorithm>

namespace gradus::lua {

bool is_axis(const OpInfo& op, const AttrSpec& spec) {
  if (op.name == "tensordot" && spec.name == "dims") return false;  // how many
  constexpr const char* names[] = {"dim",       "dims",      "dim0",   "dim1",
                                   "dim2",      "dimension", "dims_a", "dims_b",
                                   "start_dim", "end_dim",   "source", "destination"};
  return (spec.type == AttrValue::Type::integer || spec.type == AttrValue::Type::integers) &&
         std::find(std::begin(names), std::end(names), spec.name) != std::end(names);
}

namespace {

// The value at an index, of the kind that an attribute has.
AttrValue attribute_at(lua_State* L, int index, const OpInfo& op, const AttrSpec& spec) {
  using Type = AttrValue::Type;
  const auto number = [&](int64_t n) {
    if (!is_axis(op, spec)) return n;
    return from_one(n, n != 0 ? "" : (op.name + ": " + spec.name).c_str());
  };
  switch (spec.type) {
    case Type::integer:
      if (int whole = 0; lua_type(L, index) == LUA_TNUMBER) {
        const int64_t n = lua_tointegerx(L, index, &whole);
        if (whole) return number(n);
      }
      return integer_at(L, index, (op.name + ": " + spec.name).c_str());  // says what is wrong
    case Type::integers: {
      SmallVector<int64_t, 6> list;
      for (const int64_t n : sizes_at(L, index, (op.name + ": " + spec.name).c_str()))
        list.push_back(number(n));
      return list;
    }
    case Type::number:
      if (lua_type(L, index) == LUA_TNUMBER) return double(lua_tonumber(L, index));
      break;
    case Type::boolean:
      if (lua_isboolean(L, index)) return lua_toboolean(L, index) != 0;
      break;
    case Type::text:
      if (lua_type(L, index) == LUA_TSTRING) return lua_tostring(L, index);
      break;
    case Type::dtype:
      if (lua_type(L, index) == LUA_TSTRING) return parse_dtype(lua_tostring(L, index));
      break;
    case Type::none:
      break;
  }
  constexpr const char* kinds[] = {
      "nothing",       "a whole number", "a number",           "true or false",
      "whole numbers", "a text",         "the name of a dtype"};
  fail(ErrorKind::value, op.name, spec.name, ": expected ", kinds[int(spec.type)], ", got ",
       kind_at(L, index));
}

// A table that holds names only.
bool is_named(lua_State* L, int index) {
  if (!lua_istable(L, index) || lua_rawlen(L, index) > 0) return false;
  lua_pushnil(L);
  if (lua_next(L, index) == 0) return false;
  const bool text = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return text;
}

// The arguments from 1 to the top, as operands and attributes; `attrs` holds the defaults.
void read_call(lua_State* L, const OpInfo& op, Tensors& operands, Attrs& attrs) {
  int at = 1;
  const int top = lua_gettop(L), last = top > 0 && is_named(L, top) ? top - 1 : top;
  size_t a = 0;
  // A text may come before the operands: einsum("ij,jk->ik", x, y).
  for (; at <= last && lua_type(L, at) == LUA_TSTRING && a < op.attrs.size(); ++at, ++a)
    attrs[a] = attribute_at(L, at, op, op.attrs[a]);
  operands.reserve(op.operands.size());
  for (size_t k = 0; k < op.operands.size() && at <= last; ++k) {
    const OperandSpec& spec = op.operands[k];
    const bool fits = tensor_at(L, at) || lua_type(L, at) == LUA_TNUMBER || lua_isboolean(L, at);
    if (spec.variadic) {
      if (lua_istable(L, at)) {
        for (Tensor& t : list_at(L, at++, op.name.c_str())) operands.push_back(std::move(t));
        break;
      }
      while (at <= last && tensor_at(L, at))
        operands.push_back(operand_at(L, at++, op.name.c_str()));
      break;
    }
    if (!fits && spec.optional) {
      if (!lua_isnil(L, at)) break;  // an attribute
      operands.emplace_back();
      ++at;
      continue;
    }
    if (!fits)
      fail(ErrorKind::value, op.name, spec.name, ": expected a tensor or a number, got ",
           kind_at(L, at));
    operands.push_back(operand_at(L, at++, op.name.c_str()));
  }
  while (!operands.empty() && !operands.back().defined()) operands.pop_back();
  if (operands.size() < op.least_operands())
    fail(ErrorKind::value, op.name, "takes ", int64_t(op.least_operands()), " operands (",
         op.operands[0].name, op.operands.size() > 1 ? ", ..." : "", "), got ",
         int64_t(operands.size()));
  // arange(end), arange(start, end, step): as in PyTorch, the end stands first only if it is alone.
  constexpr const char* range[] = {"start", "end", "step"};
  const bool ranges = op.name == "arange" && last > 1;
  for (; at <= last; ++at, ++a) {
    if (a >= op.attrs.size()) fail(ErrorKind::value, op.name, "argument ", at, " is one too many");
    const size_t which = ranges && a < 3 ? size_t(op.attr_index(range[a])) : a;
    const AttrSpec& spec = op.attrs[which];
    if (spec.type == AttrValue::Type::integers && a + 1 == op.attrs.size() && at < last) {
      lua_createtable(L, last - at + 1, 0);  // x:reshape(4, 3) for x:reshape({4, 3})
      for (int64_t i = 1; at <= last; ++at, ++i) {
        lua_pushvalue(L, at);
        lua_rawseti(L, -2, i);
      }
      attrs[which] = attribute_at(L, lua_gettop(L), op, spec);
      lua_pop(L, 1);
      break;
    }
    if (!lua_isnil(L, at)) attrs[which] = attribute_at(L, at, op, spec);
  }
  if (last == top) return;
  for (lua_pushnil(L); lua_next(L, top); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, op.name, "attributes have names");
    const std::string name = lua_tostring(L, -2);
    const int i = op.attr_index(name);
    if (i < 0) rows::attrs_of(op, {{name, AttrValue()}});  // says which names there are
    attrs[size_t(i)] = attribute_at(L, lua_gettop(L), op, op.attrs[size_t(i)]);
  }
}

// The calls of most loops: tensors and numbers alone, and a statement without parameters.
bool run_statement(lua_State* L, const OpInfo& op) {
  constexpr int kMost = 3;
  const int n = lua_gettop(L);
  if (op.statement < 0 || !op.attrs.empty() || size_t(n) != op.operands.size() || n > kMost)
    return false;
  Tensor operands[kMost];
  bool any = false;
  for (int k = 0; k < n; ++k) {
    if (const Tensor* const t = tensor_at(L, k + 1)) {
      operands[k] = *t;
      any = true;
    } else if (lua_type(L, k + 1) == LUA_TNUMBER) {
      operands[k] = operand_at(L, k + 1, op.name.c_str());
    }
    if (!operands[k].defined()) return false;
  }
  if (!any) return false;
  static const Attrs none;
  push(L, with_room(L, [&] { return call_statement(op.statement, {operands, size_t(n)}, none); }));
  return true;
}

int run_op(lua_State* L) {
  const auto& op = *static_cast<const OpInfo*>(lua_touserdata(L, lua_upvalueindex(1)));
  if (run_statement(L, op)) return 1;
  Tensors operands;
  Attrs attrs;
  for (const AttrSpec& spec : op.attrs) attrs.push_back(spec.default_value);
  read_call(L, op, operands, attrs);
  for (size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].is_none() && !op.attrs[i].optional)
      rows::attrs_of(op, {});  // says which is missing
  const DeviceScope scope(device_of(L));
  const Tensors outputs = with_room(L, [&] { return op.call(operands, attrs); });
  push(L, outputs);
  return int(outputs.size());
}

}  // namespace

namespace {
// The op as a function on the stack; kept in the table of functions at `functions` and, if it takes
// an operand, among the methods.
void add_op_to(lua_State* L, int functions, const OpInfo& op) {
  lua_pushlightuserdata(L, const_cast<OpInfo*>(&op));
  lua_pushcclosure(L, bind<run_op>, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, functions, op.name.c_str());
  if (op.operands.empty()) return;
  push_methods(L);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, op.name.c_str());
  lua_pop(L, 1);
}
}  // namespace

void open_op(lua_State* L, const OpInfo& op) {
  lua_getglobal(L, "gradus");
  if (!lua_istable(L, -1)) fail(ErrorKind::value, "op", "the global gradus is gone");
  add_op_to(L, lua_gettop(L), op);
}

void open_ops(lua_State* L) {
  const int functions = lua_gettop(L);
  for (const OpInfo& op : all_ops()) {
    add_op_to(L, functions, op);
    lua_pop(L, 1);
  }
  push_methods(L);
  // Short names that PyTorch has too.
  const std::pair<const char*, const char*> aliases[] = {
      {"mm", "matmul"}, {"max", "amax"}, {"min", "amin"}};
  for (const auto& [alias, op] : aliases) {
    if (find_op(alias)) continue;
    lua_getfield(L, -1, op);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, alias);
    lua_setfield(L, -2, alias);
  }
  lua_pop(L, 1);
}

}  // namespace gradus::lua
