// Differentiation: methods of tensors (backward, detach, ...), gradus.grad, gradus.checkpoint,
// gradus.no_grad, and the functional transforms in gradus.func.
#include "bindings/lua/state.hpp"
#include "engine/checkpoint.hpp"
#include "engine/hooks.hpp"
#include "ops/func.hpp"
#include "ops/ops.hpp"

namespace gradus::lua {

namespace {

constexpr const char* kHook = "gradus.Hook";

// A named flag or table entry of the options at `index`, if there are some.
bool flag(lua_State* L, int index, const char* name) {
  if (!lua_istable(L, index)) return false;
  lua_getfield(L, index, name);
  const bool on = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return on;
}

// t:backward([seed] [, {retain_graph = true, create_graph = true}])
int backward_of(lua_State* L) {
  const Tensor t = self_at(L, "backward");
  const bool seeded = tensor_at(L, 2) != nullptr;
  const int options = seeded ? 3 : 2;
  BackwardOptions o;
  o.retain_graph = flag(L, options, "retain_graph");
  o.create_graph = flag(L, options, "create_graph");
  const Tensors seeds{seeded ? operand_at(L, 2, "backward") : Tensor()};
  look(L, {t}, seeds, Moment::backward);
  backward({t}, seeds, o);
  look(L, {t}, seeds, Moment::walked);
  return 0;
}

// gradus.grad(outputs, inputs [, seeds] [, options]): one result per input, nil for those unused
int grad_of(lua_State* L) {
  const Tensors outputs = list_at(L, 1, "grad: outputs"), inputs = list_at(L, 2, "grad: inputs");
  int options = 3;
  Tensors seeds;
  if (tensor_at(L, 3) || (lua_istable(L, 3) && lua_rawlen(L, 3) > 0))
    seeds = list_at(L, options++, "grad: seeds");
  BackwardOptions o;
  o.retain_graph = flag(L, options, "retain_graph");
  o.create_graph = flag(L, options, "create_graph");
  o.allow_unused = flag(L, options, "allow_unused");
  look(L, outputs, seeds, Moment::backward);
  const Tensors out = grad(outputs, inputs, seeds, o);
  look(L, outputs, seeds, Moment::walked);
  push(L, out);
  return int(out.size());
}

// Calls the function and gives what it gives.
template <class Mode>
int in_mode(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  const Mode mode;
  call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

template <Tensor (*F)(const Tensor&)>
int method(lua_State* L) {
  push(L, F(self_at(L, "tensor")));
  return 1;
}
Tensor detached(const Tensor& t) { return t.detach(); }
Tensor retained(const Tensor& t) {
  t.retain_grad();
  return t;
}
Tensor forgotten(const Tensor& t) {
  t.set_grad(Tensor());
  return t;
}
int requires_grad(lua_State* L) {
  Tensor t = self_at(L, "requires_grad_");
  t.set_requires_grad(lua_isnone(L, 2) || lua_toboolean(L, 2));
  lua_settop(L, 1);
  return 1;
}

// ---- gradus.func: a Lua function as a function of tensors

// Kept in the registry as long as C++ holds it, or the state is open.
class Callback {
 public:
  Callback(lua_State* L, int index) : L_(L), open_(types_of(L).open) {
    luaL_checktype(L, index, LUA_TFUNCTION);
    lua_pushvalue(L, index);
    key_ = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  ~Callback() {
    if (!open_.expired()) luaL_unref(L_, LUA_REGISTRYINDEX, key_);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  // From now on it is called on the main thread.
  void outlive_coroutines() {
    lua_rawgeti(L_, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State* const main = lua_tothread(L_, -1);
    lua_pop(L_, 1);
    L_ = main;
  }

  // nil is no result.
  Tensors operator()(const Tensors& in) const {
    if (open_.expired()) fail(ErrorKind::value, "function", "the script it belongs to has ended");
    const int before = lua_gettop(L_);
    lua_rawgeti(L_, LUA_REGISTRYINDEX, key_);
    push(L_, in);
    call(L_, int(in.size()), LUA_MULTRET);
    Tensors out;
    for (int i = before + 1; i <= lua_gettop(L_); ++i)
      if (!lua_isnil(L_, i)) out.push_back(operand_at(L_, i, "the function's result"));
    lua_settop(L_, before);
    return out;
  }

 private:
  lua_State* L_;
  std::weak_ptr<const bool> open_;
  int key_;
};

func::Function function_at(lua_State* L, int index) {
  return [f = std::make_shared<Callback>(L, index)](const Tensors& in) { return (*f)(in); };
}

// Results [i][k] as one tensor where there is one output and one input, else tables of tables.
int push_blocks(lua_State* L, const func::Blocks& blocks) {
  if (blocks.size() == 1 && blocks[0].size() == 1) return push(L, blocks[0][0]), 1;
  lua_createtable(L, int(blocks.size()), 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    lua_createtable(L, int(blocks[i].size()), 0);
    for (size_t k = 0; k < blocks[i].size(); ++k) {
      push(L, blocks[i][k]);
      lua_rawseti(L, -2, int64_t(k + 1));
    }
    lua_rawseti(L, -2, int64_t(i + 1));
  }
  return 1;
}

// The arguments from `first` on.
Tensors inputs_from(lua_State* L, int first, const char* who = "func") {
  Tensors in;
  for (int i = first; i <= lua_gettop(L); ++i) in.push_back(operand_at(L, i, "input"));
  if (in.empty()) fail(ErrorKind::value, who, "needs at least one input");
  return in;
}

enum class Transform { grad, value_and_grad, jacobian, hessian };

// A function made from another: what func.grad(f) and its kin give.
template <Transform What>
int transformed(lua_State* L) {
  const func::Function f = function_at(L, lua_upvalueindex(1));
  const Tensors in = inputs_from(L, 1);
  if constexpr (What == Transform::jacobian) return push_blocks(L, func::jacobian(f, in));
  if constexpr (What == Transform::hessian) return push_blocks(L, func::hessian(f, in));
  func::Options o;
  o.argnums.clear();
  for (size_t k = 0; k < in.size(); ++k) o.argnums.push_back(int64_t(k));
  const func::ValueAndGrad vg = func::value_and_grad(f, in, o);
  if constexpr (What == Transform::value_and_grad) push(L, vg.value);
  push(L, vg.grads);
  return int(vg.grads.size()) + (What == Transform::value_and_grad);
}
template <Transform What>
int transform(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushcclosure(L, bind<transformed<What>>, 1);
  return 1;
}

// func.vmap(f): over axis 1 of each input
int mapped(lua_State* L) {
  const Tensors out = func::vmap(function_at(L, lua_upvalueindex(1)))(inputs_from(L, 1));
  push(L, out);
  return int(out.size());
}
int vmap_of(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_pushcclosure(L, bind<mapped>, 1);
  return 1;
}

// func.jvp(f, inputs, tangents) gives outputs, then tangents; func.vjp(f, inputs, cotangents) gives
// outputs, then gradients; func.hvp(f, inputs, v) gives the value, then products
int jvp_of(lua_State* L) {
  const func::Jvp r =
      func::jvp(function_at(L, 1), list_at(L, 2, "jvp: inputs"), list_at(L, 3, "jvp: tangents"));
  push(L, r.outputs);
  push(L, r.tangents);
  return int(r.outputs.size() + r.tangents.size());
}
int vjp_of(lua_State* L) {
  const func::Vjp r = func::vjp(function_at(L, 1), list_at(L, 2, "vjp: inputs"));
  const Tensors grads = r.pullback(lua_isnone(L, 3) ? Tensors() : list_at(L, 3, "vjp: cotangents"));
  push(L, r.outputs);
  push(L, grads);
  return int(r.outputs.size() + grads.size());
}
int hvp_of(lua_State* L) {
  const func::Product r =
      func::hvp(function_at(L, 1), list_at(L, 2, "hvp: inputs"), list_at(L, 3, "hvp: v"));
  push(L, r.value);
  push(L, r.product);
  return int(1 + r.product.size());
}
int gradcheck_of(lua_State* L) {
  func::gradcheck(function_at(L, 1), list_at(L, 2, "gradcheck: inputs"));
  lua_pushboolean(L, true);
  return 1;
}

// gradus.checkpoint(f, x, ...): f(x, ...), of which x, ... alone are kept: backward runs f once
// more
int checkpoint_of(lua_State* L) {
  const auto f = std::make_shared<Callback>(L, 1);
  f->outlive_coroutines();
  const Tensors out =
      checkpoint([f](const Tensors& in) { return (*f)(in); }, inputs_from(L, 2, "checkpoint"));
  push(L, out);
  return int(out.size());
}

// t:register_hook(function(g) ... end): called with t's gradient as backward passes; what it gives,
// if anything, takes the gradient's place. The object it gives has remove().
int register_hook_of(lua_State* L) {
  const Tensor t = self_at(L, "register_hook");
  const auto f = std::make_shared<Callback>(L, 2);
  f->outlive_coroutines();
  auto handle = register_hook(t, [f](const Tensor& g) {
    const Tensors out = (*f)({g});
    return out.empty() ? Tensor() : out[0];
  });
  new (lua_newuserdatauv(L, sizeof(HookHandle), 0)) HookHandle(std::move(handle));
  luaL_setmetatable(L, kHook);
  return 1;
}
int remove_hook(lua_State* L) {
  if (auto* const handle = static_cast<HookHandle*>(luaL_testudata(L, 1, kHook)))
    handle->remove();
  else
    fail(ErrorKind::value, "remove", "called on ", kind_at(L, 1), "; write handle:remove()");
  return 0;
}
int collect_hook(lua_State* L) {
  if (auto* const handle = static_cast<HookHandle*>(luaL_testudata(L, 1, kHook)))
    *handle = HookHandle();
  return 0;
}

}  // namespace

void open_autograd(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {{"backward", bind<backward_of>},
                              {"detach", bind<method<detached>>},
                              {"retain_grad", bind<method<retained>>},
                              {"zero_grad", bind<method<forgotten>>},
                              {"requires_grad_", bind<requires_grad>},
                              {"register_hook", bind<register_hook_of>},
                              {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  luaL_newmetatable(L, kHook);
  const luaL_Reg handle[] = {
      {"remove", bind<remove_hook>}, {"__gc", collect_hook}, {nullptr, nullptr}};
  luaL_setfuncs(L, handle, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, kHook);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"grad", bind<grad_of>},
                                {"checkpoint", bind<checkpoint_of>},
                                {"no_grad", bind<in_mode<NoGrad>>},
                                {"enable_grad", bind<in_mode<EnableGrad>>},
                                {"detect_anomaly", bind<in_mode<DetectAnomaly>>},
                                {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  const luaL_Reg transforms[] = {{"grad", bind<transform<Transform::grad>>},
                                 {"value_and_grad", bind<transform<Transform::value_and_grad>>},
                                 {"jacobian", bind<transform<Transform::jacobian>>},
                                 {"hessian", bind<transform<Transform::hessian>>},
                                 {"vmap", bind<vmap_of>},
                                 {"jvp", bind<jvp_of>},
                                 {"vjp", bind<vjp_of>},
                                 {"hvp", bind<hvp_of>},
                                 {"gradcheck", bind<gradcheck_of>},
                                 {nullptr, nullptr}};
  lua_newtable(L);
  luaL_setfuncs(L, transforms, 0);
  lua_setfield(L, -2, "func");
}

}  // namespace gradus::lua
