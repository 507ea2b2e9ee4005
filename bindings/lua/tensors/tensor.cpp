// The type gradus.Tensor: a userdata that holds one handle, and its operators.
#include "bindings/lua/classed.hpp"
#include "bindings/lua/userdata.hpp"
#include "bindings/lua/words.hpp"
#include "engine/graph.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::lua {

namespace {

constexpr const char* kMethods = "gradus.methods";
// What a small tensor costs beside its elements, about: body, storage, node.
constexpr size_t kBody = 512;
constexpr size_t kStep = 64 << 10;  // bytes after which the collector takes a step

Tensor& self(lua_State* L) {
  Tensor* const t = tensor_at(L, 1);
  if (!t)
    fail(ErrorKind::value, "tensor", "called on ", kind_at(L, 1), "; write t:name(), not t.name()");
  return *t;
}

Tensor& alive(lua_State* L) {
  Tensor& t = self(L);
  if (!t.defined()) fail(ErrorKind::value, "tensor", "was freed");
  return t;
}

struct Box {
  Tensor tensor;
  bool late;            // made when it is first looked at (push_late)
  bool spared = false;  // by the collector, once
};
void push_box(lua_State* L, Tensor t, bool late) {
  new (lua_newuserdatauv(L, sizeof(Box), 0)) Box{std::move(t), late};
  luaL_setmetatable(L, kTensor);
}
// The userdata stays, of no tensor.
int drop(lua_State* L) {
  const heap::Unbounded room;  // no error may come of freeing
  if (auto* const box = static_cast<Box*>(luaL_testudata(L, 1, kTensor))) box->tensor = Tensor();
  return 0;
}
// A guard that dies with it may bring a hook's function back to life, and with it what that holds:
// where there are guards, a tensor is dropped by the second collection that finds it.
int collect(lua_State* L) {
  const Types& types = types_of(L);
  auto* const box = static_cast<Box*>(luaL_testudata(L, 1, kTensor));
  if (!box || box->spared || types.guards == 0 || !types.open) return drop(L);
  box->spared = true;
  luaL_setmetatable(L, kTensor);  // or it would have no finalizer any more
  return 0;
}

// to_string shows three elements at each end of a longer axis, and copies all: of a large tensor it
// gets the ends alone.
constexpr int64_t kEnds = 8, kLarge = 64 << 10;
Tensor ends(const Tensor& t, int64_t axis) {
  if (axis == t.rank()) return t;
  const int64_t n = t.size(axis);
  if (n <= kEnds) return ends(t, axis + 1);
  return cat({ends(slice(t, axis, 0, kEnds / 2), axis + 1),
              ends(slice(t, axis, n - kEnds / 2, n), axis + 1)},
             axis);
}
std::string elements_text(const Tensor& t) {
  if (t.numel() <= kLarge) return t.to_string();
  const NoGrad off;
  const Unwatched quiet;
  return ends(t.detach(), 0).to_string();
}

// Its elements, and what they are.
std::string plain_text(const Tensor& t) {
  if (!t.defined()) return "freed tensor";
  const std::string elements = elements_text(t);
  return t.rank() > 0 ? join(elements, "\n", t.dtype(), " ", to_text(t.sizes())) : elements;
}
int text(lua_State* L) {
  const Tensor& t = self(L);
  std::string s = plain_text(t);
  if (t.defined() && t.requires_grad()) {
    const GradFn* const fn = t.grad_fn();
    s += fn ? ", grad_fn = " + fn->op().name : ", requires_grad = true";
  }
  lua_pushlstring(L, s.data(), s.size());
  return 1;
}

int length(lua_State* L) {
  const Tensor& t = alive(L);
  if (t.rank() == 0) fail(ErrorKind::shape, "#", "a tensor of one number has no length");
  lua_pushinteger(L, t.size(0));
  return 1;
}

// The sign of those that classed tensors have, too.
template <Tensor (*Op)(const Tensor&, const Tensor&)>
constexpr char sign_of() {
  return Op == add ? '+' : Op == sub ? '-' : Op == mul ? '*' : Op == div ? '/' : 0;
}
// What block tensors have for this operator, where one stands beside a tensor.
bool block_operator(lua_State* L, char sign) {
  const int side = luaL_testudata(L, 2, kBlockTensor) ? 2 : 1;
  if (!luaL_testudata(L, side, kBlockTensor)) return false;
  luaL_getmetafield(L, side,
                    sign == '+'   ? "__add"
                    : sign == '-' ? "__sub"
                    : sign == '*' ? "__mul"
                    : sign == '/' ? "__div"
                                  : "__pow");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  call(L, 2, 1);
  return true;
}
// Operators: ops of two operands, in the order they were written; a number may stand on the left.
template <Tensor (*Op)(const Tensor&, const Tensor&)>
int binary(lua_State* L) {
  const Tensor *const x = tensor_at(L, 1), *const y = tensor_at(L, 2);
  if (x && y && x->defined() && y->defined() && !observer) {
    // No Lua runs inside, which could drop them: they stay where they are.
    push(L, with_room(L, [&] { return Op(*x, *y); }));
    return 1;
  }
  if (sign_of<Op>() && classed_operator(L, sign_of<Op>())) return 1;
  if (block_operator(L, sign_of<Op>())) return 1;
  const Tensor a = operand_at(L, 1, "left operand"), b = operand_at(L, 2, "right operand");
  push(L, with_room(L, [&] { return Op(a, b); }));
  return 1;
}
Tensor named(const char* op, const Tensor& a, const Tensor& b) {
  return get_op(op).call(Tensors{a, b}, {})[0];
}
Tensor floor_divided(const Tensor& a, const Tensor& b) { return named("floor_divide", a, b); }
Tensor remaining(const Tensor& a, const Tensor& b) { return named("remainder", a, b); }
int negated(lua_State* L) {
  push(L, with_room(L, [&] { return neg(alive(L)); }));
  return 1;
}
// "loss " .. t: of t the numbers, without its history.
int joined(lua_State* L) {
  for (const int side : {1, 2})
    if (const Tensor* const t = tensor_at(L, side))
      lua_pushstring(L, plain_text(*t).c_str());
    else
      luaL_tolstring(L, side, nullptr);
  lua_concat(L, 2);
  return 1;
}
// Lua makes a boolean of whatever a comparison gives, so no tensor could come of it.
template <int Kind>
int comparison(lua_State*) {
  constexpr const char* words[][3] = {
      {"==", "eq", "a:equal(b)"}, {"<", "lt", ""}, {"<=", "le", ""}};
  const auto& w = words[Kind];
  fail(ErrorKind::value, w[0], "in Lua this gives one boolean, not a tensor; write a:", w[1],
       "(b) for one answer per element", *w[2] ? join(", ", w[2], " for one in all") : "");
}

// "1", ":,2" are subscripts; names begin with a letter.
bool is_subscript(std::string_view text) {
  return text.empty() || text.find(':') != std::string_view::npos ||
         !(std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_');
}

int get(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    const std::string_view name = lua_tostring(L, 2);
    const Tensor& t = alive(L);
    if (push_property(L, t, name)) return 1;
    if (is_subscript(name)) return push(L, subscript(L, t, 2)), 1;
    if (const std::string word = word_for("tensor", name); !word.empty())
      fail(ErrorKind::value, "tensor", "has no \"", name, "\"", word);
    std::vector<std::string> known;
    for (const char* property : tensor_properties()) known.emplace_back(property);
    push_methods(L);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) known.emplace_back(lua_tostring(L, -2));
    std::sort(known.begin(), known.end());
    fail(ErrorKind::value, "tensor", "has no \"", name.substr(0, 100), "\"",
         did_you_mean(std::string(name), known));
  }
  push(L, subscript(L, alive(L), 2));
  return 1;
}

// Methods come first, by a way on which nothing can fail: each t:name() goes it.
int method_or_get(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_pop(L, 1);
  }
  return bind<get>(L);
}

int set(lua_State* L) {
  Tensor& t = alive(L);
  if (lua_type(L, 2) == LUA_TSTRING && !is_subscript(lua_tostring(L, 2))) {
    const std::string_view name = lua_tostring(L, 2);
    if (name == "requires_grad") {
      t.set_requires_grad(lua_toboolean(L, 3) != 0);
      return 0;
    }
    if (name == "grad") {
      t.set_grad(lua_isnil(L, 3) ? Tensor() : operand_at(L, 3, "grad"));
      return 0;
    }
    fail(ErrorKind::value, "tensor", "\"", name, "\" can't be set; requires_grad and grad can");
  }
  assign(L, t, 2, 3);
  return 0;
}

}  // namespace

void push(lua_State* L, Tensor t) {
  if (!t.defined()) return lua_pushnil(L);
  static thread_local size_t debt = 0;  // bytes the collector was not told of
  debt += kBody + t.bytes();
  Types& types = types_of(L);
  // Before Lua is refused the few bytes of the userdata: its own error knows no line.
  keep_limits(L);
  if (types.look_after > 0 && (types.made += t.bytes()) > types.look_after) keep_limit(L);
  push_box(L, std::move(t), false);
  if (debt >= kStep) {
    lua_gc(L, LUA_GCSTEP, int(std::min<size_t>(debt >> 10, 1 << 20)));
    debt = 0;
  }
}
void push(lua_State* L, Tensors list) {
  luaL_checkstack(L, int(list.size()), "too many results");
  for (Tensor& t : list) push(L, std::move(t));
}
void push_late(lua_State* L, std::function<Tensor()> make) {
  push_box(L, Tensor(), true);
  types_of(L).late.push_back({lua_touserdata(L, -1), std::move(make)});
}
namespace {
Tensor* late_tensor(Types& types, Box* box) {
  const auto at = std::find_if(types.late.begin(), types.late.end(),
                               [&](const Types::Late& l) { return l.userdata == box; });
  if (at == types.late.end()) return nullptr;
  box->tensor = at->make();
  box->late = false;
  return &box->tensor;
}
}  // namespace
Tensor* tensor_at(lua_State* L, int index) {
  auto* const box = static_cast<Box*>(luaL_testudata(L, index, kTensor));
  if (!box) return nullptr;
  if (box->late) return late_tensor(types_of(L), box);
  box->spared = false;
  return &box->tensor;
}

void collect_all(lua_State* L) {
  const heap::Unbounded room;
  lua_gc(L, LUA_GCCOLLECT);
  if (types_of(L).guards > 0) lua_gc(L, LUA_GCCOLLECT);  // what the first one spared
}

std::string kind_at(lua_State* L, int index) {
  if (lua_isnone(L, index)) return "nothing";
  const std::string name = luaL_typename(L, index);
  if (name == "nil") return name;
  if (tensor_at(L, index)) return "a tensor";
  if (luaL_testudata(L, index, kBlockTensor)) return "a block tensor (its numbers are x.data)";
  if (luaL_testudata(L, index, kLeg)) return "a leg";
  if (luaL_testudata(L, index, kClassed)) return "a classed tensor (x:to_dense() is the dense one)";
  const bool late = luaL_testudata(L, index, kTensor) != nullptr;
  return late ? "an argument that slope kept and did not look at" : "a " + name;
}

Tensor operand_at(lua_State* L, int index, const char* what) {
  if (Tensor* const t = tensor_at(L, index)) {
    if (!t->defined()) fail(ErrorKind::value, what, "a tensor that was freed");
    return *t;
  }
  if (lua_type(L, index) == LUA_TNUMBER)
    return lua_isinteger(L, index) ? Tensor(int64_t(lua_tointeger(L, index)))
                                   : Tensor(double(lua_tonumber(L, index)));
  if (lua_type(L, index) == LUA_TBOOLEAN) return Tensor(lua_toboolean(L, index) != 0);
  fail(ErrorKind::value, what, "expected a tensor or a number, got ", kind_at(L, index));
}

Tensor self_at(lua_State* L, const char* what) {
  if (lua_isnone(L, 1))
    fail(ErrorKind::value, what, "expected a tensor, got nothing; write x:name(), not x.name()");
  if (!tensor_at(L, 1)) fail(ErrorKind::value, what, "expected a tensor, got ", kind_at(L, 1));
  return operand_at(L, 1, what);
}

Tensors list_at(lua_State* L, int index, const char* what) {
  if (!lua_istable(L, index)) return {operand_at(L, index, what)};
  Tensors out;
  each_of(L, index, [&] { out.push_back(operand_at(L, -1, what)); });
  return out;
}

int64_t integer_at(lua_State* L, int index, const char* what) {
  int exact = 0;
  const int64_t n = lua_tointegerx(L, index, &exact);
  if (!exact || lua_type(L, index) != LUA_TNUMBER) {
    if (lua_type(L, index) == LUA_TNUMBER)
      fail(ErrorKind::value, what, "expected a whole number, got ", lua_tonumber(L, index));
    fail(ErrorKind::value, what, "expected a whole number, got ", kind_at(L, index));
  }
  return n;
}

Shape sizes_at(lua_State* L, int index, const char* what) {
  if (!lua_istable(L, index)) return {integer_at(L, index, what)};
  Shape out;
  each_of(L, index, [&] { out.push_back(integer_at(L, -1, what)); });
  return out;
}

int64_t from_one(int64_t k, const char* what) {
  if (k == 0)
    fail(ErrorKind::index, what,
         "0 is nothing: Lua counts from 1, and from the end by -1, -2, ...");
  return k > 0 ? k - 1 : k;
}

void push_methods(lua_State* L) { luaL_getsubtable(L, LUA_REGISTRYINDEX, kMethods); }

void open_tensors(lua_State* L) {
  open_type(L, kTensor,
            {{"__gc", collect},
             {"__close", drop},
             {"__tostring", bind<text>},
             {"__len", bind<length>},
             {"__add", bind<binary<add>>},
             {"__sub", bind<binary<sub>>},
             {"__mul", bind<binary<mul>>},
             {"__div", bind<binary<div>>},
             {"__pow", bind<binary<pow>>},
             {"__idiv", bind<binary<floor_divided>>},
             {"__mod", bind<binary<remaining>>},
             {"__unm", bind<negated>},
             {"__concat", bind<joined>},
             {"__eq", bind<comparison<0>>},
             {"__lt", bind<comparison<1>>},
             {"__le", bind<comparison<2>>},
             {"__newindex", bind<set>}});
  luaL_getmetatable(L, kTensor);
  push_methods(L);
  lua_pushcclosure(L, method_or_get, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  open_properties(L);
}

}  // namespace gradus::lua
