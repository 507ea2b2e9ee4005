// gradus.op{name = "softcap", value = function(x) ... end, slope = function(x, y) ... end}: an op
// of the script's own. `value` computes, unrecorded; `slope` gives dy/dx element by element, one
// result per operand, in terms of ops, so that it has derivatives in turn; what it has no parameter
// for is not saved. The derivative is checked against differences when the op is made, unless check
// = false. Gives the op as a function; gradus.NAME and x:NAME() are it too.
#include "bindings/lua/options.hpp"
#include "engine/graph.hpp"
#include "ops/transforms/func.hpp"
#include "ops/ops.hpp"
#include "ops/check/user.hpp"

#include <mutex>

namespace gradus::inline v1::lua {

namespace {

// Ops live for ever, their functions as long as their state.
struct OwnOp {
  lua_State* L = nullptr;
  int value = LUA_NOREF, slope = LUA_NOREF;
  size_t named = 0;  // parameters of slope; what they do not name is not saved
};
struct OwnOps {
  std::mutex mutex;
  std::map<const OpInfo*, OwnOp> ops;
};
OwnOps& own_ops() {
  static OwnOps* const all = new OwnOps;
  return *all;
}
OwnOp own(const OpInfo& op) {
  const std::lock_guard lock(own_ops().mutex);
  const auto it = own_ops().ops.find(&op);
  if (it == own_ops().ops.end() || !it->second.L)
    fail(ErrorKind::value, op.name, "the script that made this op has ended");
  return it->second;
}

// One call of one of an op's functions, by Lua: `wanted` results, each a tensor.
using Late = std::function<Tensor()>;
struct Question {
  const OpInfo& op;
  const char* name;  // of the function: value or slope
  int function, wanted;
  bool late;  // are arguments made as they are looked at?
  const std::vector<Late>& arguments;
  Tensors results{};
};
int answer(lua_State* L) {
  auto& q = *static_cast<Question*>(lua_touserdata(L, 1));
  const int n = int(q.arguments.size());
  luaL_checkstack(L, 2 * n + q.wanted + 1, "too many operands");
  for (const Late& argument : q.arguments) q.late ? push_late(L, argument) : push(L, argument());
  lua_rawgeti(L, LUA_REGISTRYINDEX, q.function);
  for (int k = 0; k < n; ++k) lua_pushvalue(L, 2 + k);
  lua_call(L, n, q.wanted);
  for (int i = 2 + n; i < 2 + n + q.wanted; ++i)
    q.results.push_back(operand_at(L, i, (q.op.name + ": " + q.name + "'s result").c_str()));
  return 0;
}
// Protected as a whole: the walk of a graph need not begin in the script.
Tensors ask(const OpInfo& op, lua_State* L, const char* name, int function,
            const std::vector<Late>& arguments, int wanted, bool late) {
  Question q{op, name, function, wanted, late, arguments};
  luaL_checkstack(L, 4, "functions within functions");
  struct Cut {
    std::vector<Types::Late>& late;
    size_t to = late.size();
    ~Cut() { late.erase(late.begin() + std::ptrdiff_t(to), late.end()); }
  } cut{types_of(L).late};
  lua_pushcfunction(L, bind<answer>);
  lua_pushlightuserdata(L, &q);
  call(L, 1, 0);
  return std::move(q.results);
}

void forward(OpContext& ctx) {
  const OwnOp o = own(ctx.op);
  std::vector<Late> inputs;
  for (const Tensor& x : ctx.inputs) inputs.push_back([&x] { return x; });
  ctx.outputs.push_back(ask(ctx.op, o.L, "value", o.value, inputs, 1, false)[0]);
  for (size_t k = 0; k < std::min(inputs.size(), o.named); ++k) ctx.save_input(k);
  if (o.named > inputs.size()) ctx.save_output(0);
}
// Saved tensors are unpacked as slope looks at them: so a node knows which of them it reads.
Tensors slopes(GradFn& node) {
  const OwnOp o = own(node.op());
  const size_t n = node.op().operands.size();
  std::vector<Late> arguments;
  for (size_t k = 0; k < std::min(n + 1, o.named); ++k)
    arguments.push_back([&node, k, n] { return k < n ? node.input(k) : node.output(0); });
  return ask(node.op(), o.L, "slope", o.slope, arguments, int(n), true);
}
Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  return g[0] * conj(slopes(node)[k]);
}
Tensor jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  const Tensors s = slopes(node);
  Tensor sum;
  for (size_t k = 0; k < s.size(); ++k)
    if (t[k].defined()) sum = sum.defined() ? sum + s[k] * t[k] : s[k] * t[k];
  return sum;
}

std::string text_field(lua_State* L, const char* name, const char* otherwise) {
  lua_getfield(L, 1, name);
  std::string s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : otherwise;
  lua_pop(L, 1);
  return s;
}
int function_field(lua_State* L, const char* name) {
  if (lua_getfield(L, 1, name) != LUA_TFUNCTION)
    fail(ErrorKind::value, "op", name, ": expected a function, got ", kind_at(L, -1));
  return luaL_ref(L, LUA_REGISTRYINDEX);
}
size_t named(lua_State* L, int function) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, function);
  lua_Debug info;
  lua_getinfo(L, ">u", &info);
  return info.isvararg ? SIZE_MAX : info.nparams;
}
// The names of a function's parameters: the operands.
std::vector<OperandSpec> parameters(lua_State* L, int function) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, function);
  lua_Debug info;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">u", &info);
  std::vector<OperandSpec> out;
  for (int k = 1; k <= info.nparams; ++k) out.push_back({lua_getlocal(L, nullptr, k)});
  lua_pop(L, 1);
  if (out.empty() || info.isvararg)
    fail(ErrorKind::value, "op", "value: expected a function of some operands");
  return out;
}

void keep(const OpInfo& op, const OwnOp& o) {
  const std::lock_guard lock(own_ops().mutex);
  own_ops().ops[&op] = o;
}

// What the op's name will stand for must stand for nothing yet: gradus.NAME, x:NAME() and x.NAME.
void check_free(lua_State* L, const std::string& name) {
  const auto taken = [&](const std::string& by) {
    fail(ErrorKind::value, "op", "the name \"", name, "\" is taken: there is ", by);
  };
  const auto has = [&] {  // takes the table on top
    lua_pushlstring(L, name.data(), name.size());
    const bool there = lua_rawget(L, -2) != LUA_TNIL;
    lua_pop(L, 2);
    return there;
  };
  lua_getglobal(L, "gradus");
  if (!lua_istable(L, -1)) fail(ErrorKind::value, "op", "the global gradus is gone");
  if (has()) taken("gradus." + name);
  push_methods(L);
  if (has()) taken("x:" + name + "() of tensors");
  for (const char* property : tensor_properties())
    if (name == property) taken("x." + name + " of tensors");
}

// Compares the op's derivative with differences between the bounds of the field `domain`.
void check_slope(lua_State* L, const OpInfo& op) {
  double low = -1, high = 1;
  if (lua_getfield(L, 1, "domain") == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    low = lua_tonumber(L, -2);
    high = lua_tonumber(L, -1);
  }
  lua_settop(L, 1);
  Tensors points;
  constexpr int64_t kPoints = 7;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    std::vector<double> x;
    for (int64_t i = 0; i < kPoints; ++i)  // apart for each operand, in no order
      x.push_back(low +
                  (high - low) * (double((i * 3 + int64_t(k) * 2) % kPoints) + 0.5) / kPoints);
    points.push_back(Tensor::from(x, {kPoints}, device_of(L)));
  }
  try {
    func::gradcheck([&op](const Tensors& in) { return op.call(in, {}); }, points);
  } catch (const Error& e) {
    if (e.op() != "gradcheck") throw;
    fail(e.kind(), op.name, "slope is not the derivative of value between ", low, " and ", high,
         ": ", e.message());
  }
}

int make(lua_State* L) {
  if (!lua_istable(L, 1))
    fail(ErrorKind::value, "op", "expected {name = ..., value = ..., slope = ...}, got ",
         kind_at(L, 1));
  Options options(L, 1, "op");
  for (const char* field : {"name", "value", "slope", "doc", "formula", "check", "domain"})
    options.known(field);
  options.finish();
  const std::string name = text_field(L, "name", "");
  if (name.empty()) fail(ErrorKind::value, "op", "name: expected a text");
  OwnOp o{L, function_field(L, "value"), function_field(L, "slope")};
  o.named = named(L, o.slope);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  o.L = lua_tothread(L, -1);  // outlives coroutines
  lua_pop(L, 1);
  UserFunction f;
  f.name = name;
  f.doc = text_field(L, "doc", "an op of a script");
  f.formula = text_field(L, "formula", "");
  f.operands = parameters(L, o.value);
  f.forward = forward;
  f.vjp = vjp;
  f.jvp = jvp;
  f.local = true;
  const size_t operands = f.operands.size();
  const OpInfo* op = find_op(name);
  {
    const std::lock_guard lock(own_ops().mutex);
    const auto& all = own_ops().ops;
    const auto known = op ? all.find(op) : all.end();
    if (op && (known == all.end() || (known->second.L && known->second.L != o.L) ||
               op->operands.size() != operands))
      fail(ErrorKind::value, "op", "there is an op \"", name, "\" already");
  }
  if (!op) check_free(L, name);
  lua_getfield(L, 1, "check");
  if (lua_isnil(L, -1) || lua_toboolean(L, -1)) {
    // Before it is in the op list: one that is wrong leaves nothing there.
    const OpInfo& trial = unlisted_function(f);
    keep(trial, o);
    check_slope(L, trial);
  }
  if (!op) {
    const std::vector<rows::Domain> domains(operands, rows::between(-1, 1));
    op = &add_function(std::move(f), {"",
                                      domains,
                                      def::kReal,
                                      {{std::vector<Shape>(domains.size(), Shape{5})}},
                                      {64, true, 4, "a script's own"}});
  }
  keep(*op, o);
  return open_op(L, *op), 1;
}

}  // namespace

void open_own_ops(lua_State* L) {
  lua_pushcfunction(L, bind<make>);
  lua_setfield(L, -2, "op");
}

void forget_own_ops(lua_State* L) {
  const std::lock_guard lock(own_ops().mutex);
  for (auto& [op, o] : own_ops().ops)
    if (o.L == L) o.L = nullptr;
}

}  // namespace gradus::lua
