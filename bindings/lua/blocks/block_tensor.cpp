// The type gradus.BlockTensor: its operators, what it is, and the words for what it is not.
#include "bindings/lua/blocks/blocks.hpp"
#include "bindings/lua/words.hpp"
#include "ops/ops.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

namespace {

using BlocksUserdata = Userdata<std::optional<BlockStructure>, kBlockTensor>;
constexpr const char* kMethods = "gradus.block_methods";

Tensor* numbers_of(lua_State* L, int index) {
  lua_getiuservalue(L, index, 1);
  Tensor* const t = tensor_at(L, -1);
  lua_pop(L, 1);  // it stays where it is
  return t && t->defined() ? t : nullptr;
}

void push_methods_of_blocks(lua_State* L) { luaL_getsubtable(L, LUA_REGISTRYINDEX, kMethods); }

// ---- operators

[[noreturn]] void refuse_number(const char* op) {
  fail(ErrorKind::value, op, "a number beside a block tensor: ", op,
       " would fill the blocks that must be 0, so the result is dense; to_dense() makes the tensor "
       "dense, explicitly");
}

template <BlockTensor (*Op)(const BlockTensor&, const BlockTensor&), bool Minus>
int sum_of(lua_State* L) {
  constexpr const char* who = Minus ? "sub" : "add";
  for (const int side : {1, 2})
    if (lua_type(L, side) == LUA_TNUMBER) refuse_number(who);
  const BlockTensor a = blocks_at(L, 1, who, "left operand"),
                    b = blocks_at(L, 2, who, "right operand");
  return push_result(L, [&] { return Op(a, b); });
}
int product(lua_State* L) {
  if (is_blocks(L, 1) && is_blocks(L, 2))
    fail(ErrorKind::value, "mul",
         "of two block tensors: gradus.einsum contracts them; number by "
         "number, in one structure, it is x:with_data(x.data * y.data)");
  const int tensor = is_blocks(L, 1) ? 1 : 2;
  const BlockTensor x = blocks_at(L, tensor, "mul", "operand");
  const Tensor number = operand_at(L, 3 - tensor, "mul: other operand");
  return push_result(L, [&] { return mul(x, number); });
}
int quotient(lua_State* L) {
  if (!is_blocks(L, 1) || is_blocks(L, 2))
    fail(ErrorKind::value, "div",
         "a block tensor is divided by a number; blocks that are 0 divide "
         "nothing");
  const BlockTensor x = blocks_at(L, 1, "div", "left operand");
  const Tensor number = operand_at(L, 2, "div: right operand");
  return push_result(L, [&] {
    if (number.numel() != 1)
      fail(ErrorKind::shape, "div", "by one number, got shape ", number.sizes());
    return with_data(x, div(x.data, number.is_number() ? number : reshape(number, {})));
  });
}
// x ^ 2, x % 2, x // 2
int no_operator(lua_State*) {
  fail(ErrorKind::value, "block tensor",
       "has + - * / alone; number by number it is x:with_data(x.data ^ 2), and x:square() or "
       "another function of which f(0) is 0");
}
int length(lua_State* L) {
  self_blocks(L, "#");
  fail(ErrorKind::value, "#",
       "of a block tensor: x.rank legs, x.count blocks, x.elements numbers; x.shape[1] is the size "
       "of the first leg");
}
int negated(lua_State* L) {
  const BlockTensor x = self_blocks(L, "neg");
  return push_result(L, [&] { return neg(x); });
}

// ---- properties

void push_legs(lua_State* L, const BlockStructure& s) {
  lua_createtable(L, int(s.rank()), 0);
  for (size_t i = 0; i < s.rank(); ++i) {
    push_leg(L, s.legs()[i]);
    lua_rawseti(L, -2, int64_t(i + 1));
  }
}
// {{1, 1, 2}, {1, 2, 1}, ...}: the sectors of each, from 1
void push_list(lua_State* L, const BlockStructure& s) {
  lua_createtable(L, int(s.count()), 0);
  for (size_t b = 0; b < s.count(); ++b) {
    look_at_clock(L);
    lua_createtable(L, int(s.rank()), 0);
    for (size_t i = 0; i < s.rank(); ++i) {
      lua_pushinteger(L, s.at(b)[i] + 1);
      lua_rawseti(L, -2, int64_t(i + 1));
    }
    lua_rawseti(L, -2, int64_t(b + 1));
  }
}

struct Property {
  const char* name;
  void (*get)(lua_State*, const BlockTensor&);
};
constexpr Property kProperties[] = {
    {"data", [](lua_State* L, const BlockTensor&) { lua_getiuservalue(L, 1, 1); }},
    {"legs", [](lua_State* L, const BlockTensor& x) { push_legs(L, x.structure); }},
    {"charge", [](lua_State* L, const BlockTensor& x) { push_charge(L, x.structure.charge()); }},
    {"symmetry",
     [](lua_State* L, const BlockTensor& x) {
       lua_pushstring(L, x.structure.symmetry().text().c_str());
     }},
    {"blocks", [](lua_State* L, const BlockTensor& x) { push_list(L, x.structure); }},
    {"count",
     [](lua_State* L, const BlockTensor& x) { lua_pushinteger(L, int64_t(x.structure.count())); }},
    {"elements",
     [](lua_State* L, const BlockTensor& x) { lua_pushinteger(L, x.structure.elements()); }},
    {"rank", [](lua_State* L, const BlockTensor& x) { lua_pushinteger(L, int64_t(x.rank())); }},
    {"shape", [](lua_State* L, const BlockTensor& x) { push_sizes(L, x.structure.dense_sizes()); }},
    {"grad",
     [](lua_State* L, const BlockTensor& x) {
       const Tensor g = x.data.grad();
       g.defined() ? push_blocks(L, with_data(x, g)) : lua_pushnil(L);
     }},
    // Of the numbers:
    {"dtype", [](lua_State* L, const BlockTensor& x) { push_property(L, x.data, "dtype"); }},
    {"device", [](lua_State* L, const BlockTensor& x) { push_property(L, x.data, "device"); }},
    {"requires_grad",
     [](lua_State* L, const BlockTensor& x) { push_property(L, x.data, "requires_grad"); }},
    {"is_leaf", [](lua_State* L, const BlockTensor& x) { push_property(L, x.data, "is_leaf"); }},
    {"grad_fn", [](lua_State* L, const BlockTensor& x) { push_property(L, x.data, "grad_fn"); }}};

// x:tanh(), x:exp(): the op on the numbers, if it keeps 0.
int pointwise(lua_State* L) {
  const auto* const op = static_cast<const OpInfo*>(lua_touserdata(L, lua_upvalueindex(1)));
  const BlockTensor x = self_blocks(L, op->name.c_str());
  at_most(L, 1, (op->name + ": with the block tensor").c_str());
  return push_result(L, [&] { return map(op->name.c_str(), x); });
}

// Why there is no such thing.
std::string word_for_blocks(std::string_view name) {
  for (const char* shaped : {"reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze"})
    if (name == shaped)
      return "; legs are fused and split: x:fuse(1, 2), x:split(1); or to_dense(), explicitly";
  for (const char* turned : {"transpose", "t", "T", "mT", "movedim", "adjoint"})
    if (name == turned) return "; write x:permute(2, 1), and x:conj() turns the arrows";
  for (const char* joined : {"matmul", "mm", "tensordot", "contract", "dot"})
    if (name == joined) return "; write gradus.einsum(\"ij,jk->ik\", x, y)";
  if (find_op(name))
    return "; x.data:" + std::string(name) +
           "() goes over the numbers, x:to_dense() makes them dense, explicitly";
  return "";
}

int get(lua_State* L) {
  const BlockTensor x = self_blocks(L, "block tensor");
  const std::string name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  for (const Property& p : kProperties)
    if (name == p.name) return p.get(L, x), 1;
  if (name.empty())
    fail(ErrorKind::value, "block tensor",
         "x[...] does not count its numbers: a block is "
         "x:block({1, 2}), all are x.data, and x:to_dense()[...] is dense");
  if (const OpInfo* const op = find_op(name);
      op && op->group == "pointwise" && op->least_operands() == 1 && op->operands.size() == 1) {
    lua_pushlightuserdata(L, const_cast<OpInfo*>(op));
    lua_pushcclosure(L, bind<pointwise>, 1);
    return 1;
  }
  std::string hint = word_for_blocks(name);
  if (hint.empty()) {
    std::vector<std::string> known;
    for (const Property& p : kProperties) known.emplace_back(p.name);
    push_methods_of_blocks(L);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) known.emplace_back(lua_tostring(L, -2));
    std::sort(known.begin(), known.end());
    // Of "foo" no more than a letter of "to" is left.
    std::erase_if(known, [&](const std::string& k) {
      return 2 * edit_distance(name, k) > std::max(name.size(), k.size());
    });
    hint = did_you_mean(name, known);
  }
  fail(ErrorKind::value, "block tensor", "has no \"", name.substr(0, 100), "\"", hint);
}
int method_or_get(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_pop(L, 1);
  }
  return bind<get>(L);
}

int set(lua_State* L) {
  self_blocks(L, "block tensor");
  const std::string name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (name == "requires_grad") return numbers_of(L, 1)->set_requires_grad(lua_toboolean(L, 3)), 0;
  if (name == "grad" && lua_isnil(L, 3)) return numbers_of(L, 1)->set_grad(Tensor()), 0;
  if (name.empty())
    fail(ErrorKind::value, "block tensor",
         "x[...] can't be set: x:set_block({1, 2}, t) is another tensor, x:block(1, 2):copy_(t) "
         "writes to this one");
  fail(ErrorKind::value, "block tensor", "\"", name.substr(0, 100),
       "\" can't be set; x:with_data(t) is another tensor of these blocks, x.data:copy_(t) writes "
       "to this one");
}

int text(lua_State* L) {
  const BlockTensor x = self_blocks(L, "block tensor");
  std::string s = to_string(x, 1);
  if (x.data.requires_grad()) {
    const GradFn* const fn = x.data.grad_fn();
    s += fn ? ", grad_fn = " + fn->op().name : ", requires_grad = true";
  }
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}

// ---- methods that are those of the numbers

// What the tensor's method gives is a block tensor again.
int of_numbers(lua_State* L) {
  const char* const name = lua_tostring(L, lua_upvalueindex(1));
  const BlockStructure s = self_blocks(L, name).structure;
  if (is_blocks(L, 2)) {  // x:to(y), x:copy_(y)
    if (!(blocks_at(L, 2, name, "argument").structure == s) && std::string_view(name) == "copy_")
      fail(ErrorKind::value, name, "of another structure");
    lua_getiuservalue(L, 2, 1);
    lua_replace(L, 2);
  }
  push_methods(L);
  lua_getfield(L, -1, name);
  lua_replace(L, -2);
  lua_getiuservalue(L, 1, 1);
  lua_replace(L, 1);
  lua_insert(L, 1);
  call(L, lua_gettop(L) - 1, 1);
  const Tensor* const t = tensor_at(L, -1);
  if (!t || !t->defined()) return 1;
  push_blocks(L, {*t, s});
  return 1;
}
constexpr const char* kOfNumbers[] = {
    "to",     "cpu",       "cuda",     "float",          "double",     "clone",
    "detach", "zero_grad", "cfloat",   "cdouble",        "zero_",      "fill_",
    "copy_",  "normal_",   "uniform_", "requires_grad_", "retain_grad"};

int item(lua_State* L) {
  const BlockTensor x = self_blocks(L, "item");
  if (x.rank() > 0)
    fail(ErrorKind::shape, "item", "needs a number, the tensor has ", x.rank(), " legs");
  push_methods(L);
  lua_getfield(L, -1, "item");
  push(L, with_room(L, [&] { return to_dense(x); }));
  call(L, 1, 1);
  return 1;
}
// x:backward([options]) of a number
int walk_back(lua_State* L) {
  const BlockTensor x = self_blocks(L, "backward");
  if (x.rank() > 0)
    fail(ErrorKind::shape, "backward", "starts at a number; of a tensor with ", x.rank(),
         " legs, x.data:backward(seed) takes a seed for each number");
  push_methods(L);
  lua_getfield(L, -1, "backward");
  lua_replace(L, -2);
  push(L, with_room(L, [&] { return to_dense(x); }));
  lua_replace(L, 1);
  lua_insert(L, 1);
  call(L, lua_gettop(L) - 1, 0);
  return 0;
}

}  // namespace

bool counts_from_zero(std::string_view message) {
  const auto counted = [&](std::string_view word) {
    for (size_t at = 0; (at = message.find(word, at)) != message.npos;) {
      const size_t digits = at += word.size();
      while (at < message.size() && message[at] >= '0' && message[at] <= '9') ++at;
      // "sector 1 has size -2" says a charge, "has no sector 3" and "sector 1 is" a place.
      if (at > digits && (word != "sector " || message.substr(at).starts_with(" is "))) return true;
    }
    return false;
  };
  for (const char* word : {"leg ", "axis ", "axes ", "sector ", "component ", "range ", "dims (",
                           "block ", "operand ", "no sector "})
    if (counted(word)) return true;
  return false;
}

void push_blocks(lua_State* L, const BlockTensor& x) {
  if (x.data.dtype() == DType::bool_)
    fail(ErrorKind::dtype, "block tensor", "blocks hold numbers, not bool");
  BlocksUserdata::push(L, x.structure, 1);
  push(L, x.data);
  lua_setiuservalue(L, -2, 1);
}
bool is_blocks(lua_State* L, int index) { return BlocksUserdata::at(L, index) != nullptr; }
BlockTensor blocks_at(lua_State* L, int index, const char* who, const char* what) {
  const auto* const s = BlocksUserdata::at(L, index);
  if (!s)
    fail(ErrorKind::value, who, what, ": expected a block tensor, got ", kind_at(L, index),
         tensor_at(L, index) ? "; gradus.blocks.from_dense(x, legs) makes one of it" : "");
  const Tensor* const data = *s ? numbers_of(L, index) : nullptr;
  if (!data) fail(ErrorKind::value, who, what, " was freed");
  return {*data, **s};
}
BlockTensor self_blocks(lua_State* L, const char* who) {
  return blocks_at(L, 1, who, "called as x:name()");
}

void open_block_type(lua_State* L) {
  open_type(L, kBlockTensor,
            {{"__gc", BlocksUserdata::collect},
             {"__tostring", bind<text>},
             {"__add", bind<sum_of<add, false>>},
             {"__sub", bind<sum_of<sub, true>>},
             {"__mul", bind<product>},
             {"__div", bind<quotient>},
             {"__pow", bind<no_operator>},
             {"__mod", bind<no_operator>},
             {"__idiv", bind<no_operator>},
             {"__len", bind<length>},
             {"__newindex", bind<set>},
             {"__unm", bind<negated>}});
  push_methods_of_blocks(L);
  add_moves(L);
  add_factors(L);
  const luaL_Reg methods[] = {
      {"item", bind<item>}, {"backward", bind<walk_back>}, {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  for (const char* name : kOfNumbers) {
    lua_pushstring(L, name);
    lua_pushcclosure(L, bind<of_numbers>, 1);
    lua_setfield(L, -2, name);
  }
  lua_pop(L, 1);
  luaL_getmetatable(L, kBlockTensor);
  push_methods_of_blocks(L);
  lua_pushcclosure(L, method_or_get, 1);
  lua_setfield(L, -2, "__index");
  // For completion: methods and properties.
  lua_newtable(L);
  push_methods_of_blocks(L);
  for (lua_pushnil(L); lua_next(L, -2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_settable(L, -5);
  }
  lua_pop(L, 1);
  for (const Property& p : kProperties) {
    lua_pushboolean(L, true);
    lua_setfield(L, -2, p.name);
  }
  lua_setfield(L, -2, kNames);
  lua_pop(L, 1);
}

}  // namespace gradus::lua
