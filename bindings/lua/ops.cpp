// Every op of the op list as gradus.NAME(...) and t:NAME(...): operands first, then attributes in
// their order or by name in a last table: gradus.sum(x, {dim = {1, 2}, keepdim = true}).
// Attributes that are axes count from 1; all other numbers are as in C++.
#include "bindings/lua/classed.hpp"
#include "bindings/lua/labels.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/shape/in_place.hpp"
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/check/rows.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

namespace gradus::inline v1::lua {

namespace {

// The value at an index, of the kind that an attribute has; axes are counted from 1.
AttrValue attribute_at(lua_State* L, int index, const OpInfo& op, const AttrSpec& spec, bool axis) {
  using Type = AttrValue::Type;
  const auto number = [&](int64_t n) {
    return axis ? from_one(n, n != 0 ? "" : (op.name + ": " + spec.name).c_str()) : n;
  };
  switch (spec.type) {
    case Type::integer:
      return number(integer_at(L, index, (op.name + ": " + spec.name).c_str()));
    case Type::integers: {
      SmallVector<int64_t, 6> list;
      for (const int64_t n : sizes_at(L, index, (op.name + ": " + spec.name).c_str()))
        list.push_back(number(n));
      return list;
    }
    case Type::number:
      if (lua_isinteger(L, index) && !is_exact(lua_tointeger(L, index)))
        fail(ErrorKind::value, op.name, spec.name, ": no double is ",
             int64_t(lua_tointeger(L, index)), "; give it as a tensor where the op takes one");
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

// What the function of an op knows of it.
struct Callee {
  const OpInfo& op;
  Attrs defaults;
  uint64_t axes = 0;       // a bit for each attribute
  bool required = false;   // must any of them be given?
  bool range = false;      // arange
  bool dim_first = false;  // may the axis stand before the second operand?
  bool labelled = false;   // einsum, which takes labels in the place of an equation
};
const Callee& callee_of(const OpInfo& op) {
  static std::mutex mutex;
  static auto* all = new std::map<const OpInfo*, Callee>;
  const std::lock_guard lock(mutex);
  const auto [at, made] = all->try_emplace(&op, Callee{op, op.completed({})});
  Callee& callee = at->second;
  if (!made) return callee;  // other threads may read it
  callee.range = op.name == "arange";
  callee.labelled = op.name == "einsum";
  callee.dim_first =
      op.operands.size() > 1 && op.operands[1].name == "index" && op.attr_index("dim") == 0;
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const AttrSpec& spec = op.attrs[i];
    callee.axes |= uint64_t(is_axis(op, spec)) << i;
    callee.required |= spec.default_value.is_none() && !spec.optional;
  }
  return callee;
}

// The attributes of a call: the op's defaults, copied as far as one is given.
class Given {
 public:
  Given(lua_State* L, const Callee& callee) : L_(L), callee_(callee) {}
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  void read(size_t i, int index) {  // attribute i stands at `index`; nil: its default
    add_defaults(i);
    if (own_.size() == i) own_.emplace_back();
    AttrValue& value = own_[i];
    const OpInfo& op = callee_.op;
    const AttrSpec& spec = op.attrs[i];
    const bool axis = callee_.axes >> i & 1;
    // Most are one whole number, but for axes never 0.
    int64_t n = 0;
    if (lua_isinteger(L_, index) && ((n = lua_tointeger(L_, index)) != 0 || !axis)) {
      if (axis && n > 0) --n;
      value.type = spec.type;
      if (spec.type == AttrValue::Type::integer) {
        value.integer = n;
        return;
      }
      if (spec.type == AttrValue::Type::integers) {
        value.integers.clear();
        value.integers.append(&n, 1);
        return;
      }
    }
    value = lua_isnil(L_, index) ? callee_.defaults[i] : attribute_at(L_, index, op, spec, axis);
  }
  const Attrs& all() {
    if (own_.empty()) return callee_.defaults;
    add_defaults(callee_.defaults.size());
    return own_;
  }

 private:
  void add_defaults(size_t end) {
    if (own_.size() < end) own_.append(callee_.defaults.begin() + own_.size(), end - own_.size());
  }
  lua_State* L_;
  const Callee& callee_;
  Attrs own_;
};

// A table that holds names only.
bool is_named(lua_State* L, int index) {
  if (!lua_istable(L, index) || lua_rawlen(L, index) > 0) return false;
  lua_pushnil(L);
  if (lua_next(L, index) == 0) return false;
  const bool text = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return text;
}

using Room = SmallVector<Tensor, 3>;
// The arguments from 1 to the top, as operands, kept in `room` if they must be, and attributes.
Operands read_call(lua_State* L, const Callee& callee, Room& room, Given& attrs) {
  const OpInfo& op = callee.op;
  int at = 1;
  const int top = lua_gettop(L), last = top > 0 && is_named(L, top) ? top - 1 : top;
  size_t a = 0;
  // One tensor stays where it is if no Lua runs inside, which could drop it.
  const Tensor* const one =
      op.operands.size() == 1 && !op.user && !observer ? tensor_at(L, at) : nullptr;
  const bool lent = one && one->defined() && !op.operands[0].variadic;
  at += lent;
  // A text may come before the operands: einsum("ij,jk->ik", x, y).
  for (; !lent && a < op.attrs.size() && at <= last && lua_type(L, at) == LUA_TSTRING; ++at, ++a)
    attrs.read(a, at);
  for (size_t k = 0; !lent && k < op.operands.size() && at <= last; ++k) {
    const OperandSpec& spec = op.operands[k];
    const Tensor* tensor = tensor_at(L, at);
    // PyTorch's order: the axis stands before the indices, x:gather(1, index).
    if (k == 1 && callee.dim_first && !tensor && at < last && tensor_at(L, at + 1)) {
      attrs.read(0, at++);
      a = 1;
      tensor = tensor_at(L, at);
    }
    if (tensor && tensor->defined() && !spec.variadic) {
      room.push_back(*tensor);
      ++at;
      continue;
    }
    const bool fits = tensor || lua_type(L, at) == LUA_TNUMBER || lua_isboolean(L, at);
    if (spec.variadic) {
      if (lua_istable(L, at)) {
        for (Tensor& t : list_at(L, at++, op.name.c_str())) room.push_back(std::move(t));
        break;
      }
      while (at <= last && tensor_at(L, at)) room.push_back(operand_at(L, at++, op.name.c_str()));
      break;
    }
    if (!fits && spec.optional) {
      if (!lua_isnil(L, at)) break;  // an attribute
      room.emplace_back();
      ++at;
      continue;
    }
    if (!fits)
      fail(ErrorKind::value, op.name, spec.name, ": expected a tensor or a number, got ",
           kind_at(L, at));
    room.push_back(operand_at(L, at++, op.name.c_str()));
  }
  while (!room.empty() && !room.back().defined()) room.pop_back();
  const Operands operands = lent ? Operands(one, 1) : Operands(room.data(), room.size());
  if (operands.size() < op.operands.size() && operands.size() < op.least_operands())
    fail(ErrorKind::value, op.name, "takes ", int64_t(op.least_operands()), " operands (",
         op.operands[0].name, op.operands.size() > 1 ? ", ..." : "", "), got ",
         int64_t(operands.size()), top == 0 ? "; of a tensor write x:" + op.name + "()" : "");
  // arange(end), arange(start, end, step): as in PyTorch, the end stands first only if it is alone.
  static constexpr const char* range[] = {"start", "end", "step"};
  const bool ranges = last > 1 && callee.range;
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
      attrs.read(which, lua_gettop(L));
      lua_pop(L, 1);
      break;
    }
    attrs.read(which, at);
  }
  if (last == top) return operands;
  for (lua_pushnil(L); lua_next(L, top); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, op.name, "attributes have names");
    const std::string name = lua_tostring(L, -2);
    int i = op.attr_index(name);
    if (i < 0 && name == "stop") i = op.attr_index("end");  // which is a word of Lua
    if (i < 0) {
      std::vector<std::string> names;
      for (const AttrSpec& spec : op.attrs)
        names.push_back(spec.name == "end" ? "stop" : spec.name);
      std::string hint = did_you_mean(name, names);
      const bool list = hint.empty();
      for (size_t k = 0; list && k < names.size(); ++k)
        hint += (k ? ", " : "; there are ") + names[k];
      fail(ErrorKind::value, op.name, "has no attribute \"", name, "\"", hint);
    }
    attrs.read(size_t(i), lua_gettop(L));
  }
  return operands;
}

// The calls of most loops: tensors and numbers alone, and a statement without parameters.
bool run_plainly(lua_State* L, const OpInfo& op) {
  constexpr int kMost = 3;
  const int n = lua_gettop(L);
  if (op.statement < 0 || !op.attrs.empty() || size_t(n) != op.operands.size() || n > kMost)
    return false;
  const Tensor* given[kMost];
  int tensors = 0;
  while (tensors < n && (given[tensors] = tensor_at(L, tensors + 1)) && given[tensors]->defined())
    ++tensors;
  static const Attrs none;
  if (tensors == n && !op.user && !observer) {
    // No Lua runs inside, which could drop them: they stay where they are.
    push(L, with_room(L, [&] {
           const auto& [a, b, c] = given;
           return n == 1   ? run_statement(op, {a, 1}, none)
                  : n == 2 ? run_statement(op, std::array{*a, *b}, none)
                           : run_statement(op, std::array{*a, *b, *c}, none);
         }));
    return true;
  }
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
  push(L, with_room(L, [&] { return run_statement(op, {operands, size_t(n)}, none); }));
  return true;
}

int run_op(lua_State* L) {
  const auto& callee = *static_cast<const Callee*>(lua_touserdata(L, lua_upvalueindex(1)));
  const OpInfo& op = callee.op;
  if (run_plainly(L, op)) return 1;
  if (callee.labelled && says_blocks(L)) return einsum_of_blocks(L);
  if (callee.labelled && classed_einsum(L)) return 1;
  if (callee.labelled && says_labels(L)) return einsum_by_labels(L);
  if (callee.labelled && says_sublists(L)) return einsum_by_sublists(L);
  Room room;
  Given given(L, callee);
  const Operands operands = read_call(L, callee, room, given);
  const Attrs& attrs = given.all();
  for (size_t i = 0; i < attrs.size() && callee.required; ++i)
    if (attrs[i].is_none() && !op.attrs[i].optional)
      rows::attrs_of(op, {});  // says which is missing
  Outputs outputs =
      saying_from_one([&] { return with_room(L, [&] { return op.call(operands, attrs); }); });
  const int n = int(outputs.size());
  n == 1 ? push(L, std::move(outputs[0])) : push(L, std::move(outputs));
  return n;
}

// x:add_(y) and its kin: the op in place, with its attributes
int run_in_place(lua_State* L) {
  const auto& callee = *static_cast<const Callee*>(lua_touserdata(L, lua_upvalueindex(1)));
  const OpInfo& op = callee.op;
  const Tensor x = self_at(L, (op.name + "_").c_str());
  const auto given = int64_t(lua_gettop(L)) - 1, takes = int64_t(op.operands.size()) - 1;
  if (op.attrs.empty() && given != takes)
    fail(ErrorKind::value, op.name + "_", "takes ", takes, takes == 1 ? " argument" : " arguments",
         ", got ", given);
  Room room;
  Given attrs(L, callee);
  const Operands operands = read_call(L, callee, room, attrs);
  const Tensors others(operands.begin() + 1, operands.end());
  saying_from_one([&] { return in_place(op, x, others, attrs.all()); });
  lua_settop(L, 1);
  return 1;
}

// The op as a function on the stack; kept in the table of functions at `functions` and, if it takes
// an operand, among the methods.
void add_op_to(lua_State* L, int functions, const OpInfo& op) {
  lua_pushlightuserdata(L, const_cast<Callee*>(&callee_of(op)));
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
      {"mm", "matmul"}, {"max", "amax"}, {"min", "amin"}, {"repeats", "repeat"}};
  for (const auto& [alias, op] : aliases) {
    if (find_op(alias)) continue;
    lua_getfield(L, -1, op);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, alias);
    lua_setfield(L, -2, alias);
  }
  for (const char* op :
       {"add",         "sub",        "mul",       "div",        "pow",         "neg",    "abs",
        "exp",         "log",        "sqrt",      "square",     "reciprocal",  "sin",    "cos",
        "tanh",        "sigmoid",    "relu",      "leaky_relu", "clamp",       "floor",  "ceil",
        "round",       "sign",       "lerp",      "addcmul",    "masked_fill", "tril",   "triu",
        "scatter_add", "index_fill", "index_add", "nan_to_num", "remainder",   "addcdiv"}) {
    lua_pushlightuserdata(L, const_cast<Callee*>(&callee_of(get_op(op))));
    lua_pushcclosure(L, bind<run_in_place>, 1);
    lua_setfield(L, -2, (std::string(op) + "_").c_str());
  }
  lua_pop(L, 1);
}

}  // namespace gradus::lua
