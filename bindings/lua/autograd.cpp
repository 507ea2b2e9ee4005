// Differentiation: methods of tensors (backward, detach, ...), gradus.grad, gradus.checkpoint,
// gradus.no_grad, and the functional transforms in gradus.func.
#include "bindings/lua/options.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/transforms/func.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

namespace {

// The cotangent of `root` at an index: a tensor, a number, or a table of numbers.
Tensor seed_at(lua_State* L, int index, const Tensor& root, const char* what) {
  if (tensor_at(L, index) || lua_type(L, index) == LUA_TNUMBER) return operand_at(L, index, what);
  if (lua_istable(L, index)) return to_device(numbers_at(L, index, root.dtype()), root.device());
  fail(ErrorKind::value, what, "expected a tensor, a number or a table of numbers, got ",
       kind_at(L, index));
}
// Does a seed stand here, and not the options?
bool seeded(lua_State* L, int index) { return !lua_isnoneornil(L, index) && !is_options(L, index); }
// {retain_graph = true, create_graph = true}, behind a seed at `index` or in its place
BackwardOptions options_at(lua_State* L, int index, const char* who, bool of_inputs) {
  BackwardOptions o;
  Options options(L, index + !is_options(L, index), who);
  options.boolean("retain_graph", o.retain_graph);
  options.boolean("create_graph", o.create_graph);
  if (of_inputs) options.boolean("allow_unused", o.allow_unused);
  options.finish();
  return o;
}

// t:backward([seed] [, options])
int backward_of(lua_State* L) {
  const Tensor t = self_at(L, "backward");
  at_most(L, 3, "backward: with the tensor");
  const Tensors seeds{seeded(L, 2) ? seed_at(L, 2, t, "backward: seed") : Tensor()};
  const BackwardOptions o = options_at(L, 2, "backward", false);
  look(L, {t}, seeds, Moment::backward);
  backward({t}, seeds, o);
  look(L, {t}, seeds, Moment::walked);
  return 0;
}

// The seeds of gradus.grad: a table of one for each output, or, of one output, the seed itself.
Tensors seeds_at(lua_State* L, int index, const Tensors& outputs, bool one) {
  constexpr const char* what = "grad: seeds";
  if (!seeded(L, index) || outputs.empty()) return {};
  bool list = lua_istable(L, index);
  if (list && one) {
    lua_rawgeti(L, index, 1);
    list = tensor_at(L, -1) != nullptr;
    lua_pop(L, 1);
  }
  if (!list) return {seed_at(L, index, outputs.at(0), what)};
  Tensors seeds;
  each_of(L, index, [&] {
    if (seeds.size() == outputs.size())
      fail(ErrorKind::value, what, int64_t(lua_rawlen(L, index)), " for ", int64_t(outputs.size()),
           outputs.size() == 1 ? " output" : " outputs");
    seeds.push_back(seed_at(L, lua_gettop(L), outputs[seeds.size()], what));
  });
  return seeds;
}

// gradus.grad(outputs, inputs [, seeds] [, options]): one result per input, nil for those unused
int grad_of(lua_State* L) {
  at_most(L, 4, "grad");
  const Tensors outputs = list_at(L, 1, "grad: outputs"), inputs = list_at(L, 2, "grad: inputs");
  const Tensors seeds = seeds_at(L, 3, outputs, !lua_istable(L, 1));
  const BackwardOptions o = options_at(L, 3, "grad", true);
  look(L, outputs, seeds, Moment::backward);
  const Tensors out = grad(outputs, inputs, seeds, o);
  look(L, outputs, seeds, Moment::walked);
  push(L, out);
  return int(out.size());
}

// Calls the function and gives what it gives.
template <class Mode>
int in_mode(lua_State* L) {
  if (!lua_isfunction(L, 1))
    fail(ErrorKind::value, "", "expected a function, got ", kind_at(L, 1),
         "; write gradus.no_grad(function() ... end)");
  const Mode mode;
  call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int is_grad_enabled(lua_State* L) {
  lua_pushboolean(L, grad_enabled());
  return 1;
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
    luaL_checkstack(L_, 4, "functions within functions");
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
  const std::string what = join(who, ": input");
  for (int i = first; i <= lua_gettop(L); ++i) in.push_back(operand_at(L, i, what.c_str()));
  if (in.empty()) fail(ErrorKind::value, who, "needs at least one input");
  return in;
}

enum class Transform { grad, value_and_grad, jacobian, hessian };
constexpr const char* kTransforms[] = {"grad", "value_and_grad", "jacobian", "hessian"};

// A function made from another, what func.grad(f [, options]) and its kin give: f and the options
// are its upvalues.
template <int (*F)(lua_State*), void (*Check)(lua_State*, int)>
int transform(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  at_most(L, 2, "func");
  lua_settop(L, 2);
  Check(L, 2);
  lua_pushcclosure(L, bind<F>, 2);
  return 1;
}

// {argnums = 2 or {1, 3}}: the inputs to differentiate, all if it is left out; of jacobian and
// hessian {mode = "forward" or "reverse", vectorize = false, holomorphic = true}
template <Transform What>
func::Options func_options(lua_State* L, int index) {
  constexpr const char* who = kTransforms[size_t(What)];
  func::Options o;
  o.argnums.clear();
  Options options(L, index, who);
  options.boolean("strict", o.strict);
  if constexpr (What == Transform::grad || What == Transform::value_and_grad) {
    if (options.push("argnums")) {
      for (const int64_t n : sizes_at(L, -1, "argnums"))
        o.argnums.push_back(from_one(n, "argnums"));
      lua_pop(L, 1);
    }
  } else {
    std::string mode = "automatic";
    options.text("mode", mode);
    options.boolean("vectorize", o.vectorize);
    options.boolean("holomorphic", o.holomorphic);
    if (mode != "automatic" && mode != "forward" && mode != "reverse")
      fail(ErrorKind::value, who, "mode: expected automatic, forward or reverse, got \"", mode,
           "\"");
    o.mode = mode == "forward"   ? func::Mode::forward
             : mode == "reverse" ? func::Mode::reverse
                                 : func::Mode::automatic;
  }
  options.finish();
  return o;
}
template <Transform What>
void check_options(lua_State* L, int index) {
  func_options<What>(L, index);
}
template <Transform What>
int transformed(lua_State* L) {
  const func::Function f = function_at(L, lua_upvalueindex(1));
  const Tensors in = inputs_from(L, 1);
  func::Options o = func_options<What>(L, lua_upvalueindex(2));
  if constexpr (What == Transform::jacobian) return push_blocks(L, func::jacobian(f, in, o));
  if constexpr (What == Transform::hessian) return push_blocks(L, func::hessian(f, in, o));
  if (o.argnums.empty())
    for (size_t k = 0; k < in.size(); ++k) o.argnums.push_back(int64_t(k));
  const func::ValueAndGrad vg = func::value_and_grad(f, in, o);
  if constexpr (What == Transform::value_and_grad) push(L, vg.value);
  push(L, vg.grads);
  return int(vg.grads.size()) + (What == Transform::value_and_grad);
}

// func.vmap(f [, options]): over axis 1 of each input. {in_dims = {1, "none"}, out_dims = {2},
// randomness = "different"}: axes from 1, one for each; "none" is not mapped
func::MappedDims dims_option(Options& options, lua_State* L, const char* name) {
  func::MappedDims dims;
  if (!options.push(name)) return dims;
  const auto add = [&] {
    const bool none = lua_type(L, -1) == LUA_TSTRING && std::string(lua_tostring(L, -1)) == "none";
    if (!none && !lua_isinteger(L, -1)) options.wrong(name, "axes from 1, or \"none\"");
    dims.push_back(none ? func::MappedDims::value_type(func::kNone)
                        : from_one(lua_tointeger(L, -1), name));
  };
  if (lua_istable(L, -1))
    each_of(L, lua_gettop(L), add);
  else
    add();
  lua_pop(L, 1);
  return dims;
}
func::Function vmap_at(lua_State* L, func::Function f, int index) {
  Options options(L, index, "vmap");
  func::MappedDims in = dims_option(options, L, "in_dims"),
                   out = dims_option(options, L, "out_dims");
  std::string randomness = "error";
  options.text("randomness", randomness);
  options.finish();
  if (randomness != "error" && randomness != "same" && randomness != "different")
    fail(ErrorKind::value, "vmap", "randomness: expected error, same or different, got \"",
         randomness, "\"");
  return func::vmap(std::move(f), std::move(in), std::move(out),
                    randomness == "same"        ? Randomness::same
                    : randomness == "different" ? Randomness::different
                                                : Randomness::error);
}
void check_vmap(lua_State* L, int index) { vmap_at(L, {}, index); }
int mapped(lua_State* L) {
  const func::Function f = function_at(L, lua_upvalueindex(1));
  const Tensors out = vmap_at(L, f, lua_upvalueindex(2))(inputs_from(L, 1));
  push(L, out);
  return int(out.size());
}

// func.jvp(f, inputs, tangents) gives outputs, then tangents; func.vjp(f, inputs, cotangents) gives
// outputs, then gradients; func.hvp(f, inputs, v) gives the value, then products
int jvp_of(lua_State* L) {
  at_most(L, 3, "jvp");
  const func::Jvp r =
      func::jvp(function_at(L, 1), list_at(L, 2, "jvp: inputs"), list_at(L, 3, "jvp: tangents"));
  push(L, r.outputs);
  push(L, r.tangents);
  return int(r.outputs.size() + r.tangents.size());
}
int vjp_of(lua_State* L) {
  at_most(L, 3, "vjp");
  const func::Vjp r = func::vjp(function_at(L, 1), list_at(L, 2, "vjp: inputs"));
  const Tensors grads = r.pullback(lua_isnone(L, 3) ? Tensors() : list_at(L, 3, "vjp: cotangents"));
  push(L, r.outputs);
  push(L, grads);
  return int(r.outputs.size() + grads.size());
}
int hvp_of(lua_State* L) {
  at_most(L, 3, "hvp");
  const func::Product r =
      func::hvp(function_at(L, 1), list_at(L, 2, "hvp: inputs"), list_at(L, 3, "hvp: v"));
  push(L, r.value);
  push(L, r.product);
  return int(1 + r.product.size());
}
int gradcheck_of(lua_State* L) {
  at_most(L, 2, "gradcheck");
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

// func.eigsh(f, start [, {k = 1, which = "SA", tol = 0}]): w, V of a Hermitian linear map f of
// tensors shaped like `start`
int eigsh_of(lua_State* L) {
  at_most(L, 3, "eigsh");
  const func::Function f = function_at(L, 1);
  Options options(L, 3, "eigsh");
  int64_t k = 1;
  double tol = 0;
  std::string which = "LM";
  if (options.push("k")) {
    if (!lua_isinteger(L, -1)) options.wrong("k", "an integer");
    k = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  options.number("tol", tol);
  options.text("which", which);
  options.finish();
  const LinearMap map = [&](const Tensor& x) {
    const Tensors y = f({x});
    if (y.size() != 1)
      fail(ErrorKind::value, "eigsh", "the map gives ", int64_t(y.size()), " results, expected 1");
    return y[0];
  };
  push(L, eigsh(map, operand_at(L, 2, "eigsh: start"), k, which.c_str(), tol));
  return 2;
}

}  // namespace

void open_autograd(lua_State* L) {
  push_methods(L);
  const luaL_Reg methods[] = {
      {"backward", bind<backward_of>},         {"detach", bind<method<detached>>},
      {"retain_grad", bind<method<retained>>}, {"zero_grad", bind<method<forgotten>>},
      {"requires_grad_", bind<requires_grad>}, {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  const luaL_Reg functions[] = {{"grad", bind<grad_of>},
                                {"is_grad_enabled", bind<is_grad_enabled>},
                                {"checkpoint", bind<checkpoint_of>},
                                {"no_grad", bind<in_mode<NoGrad>>},
                                {"enable_grad", bind<in_mode<EnableGrad>>},
                                {"detect_anomaly", bind<in_mode<DetectAnomaly>>},
                                {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  using enum Transform;
  const luaL_Reg transforms[] = {
      {"grad", bind<transform<transformed<grad>, check_options<grad>>>},
      {"value_and_grad",
       bind<transform<transformed<value_and_grad>, check_options<value_and_grad>>>},
      {"jacobian", bind<transform<transformed<jacobian>, check_options<jacobian>>>},
      {"hessian", bind<transform<transformed<hessian>, check_options<hessian>>>},
      {"vmap", bind<transform<mapped, check_vmap>>},
      {"jvp", bind<jvp_of>},
      {"vjp", bind<vjp_of>},
      {"hvp", bind<hvp_of>},
      {"gradcheck", bind<gradcheck_of>},
      {"eigsh", bind<eigsh_of>},
      {nullptr, nullptr}};
  lua_newtable(L);
  luaL_setfuncs(L, transforms, 0);
  lua_setfield(L, -2, "func");
}

}  // namespace gradus::lua
