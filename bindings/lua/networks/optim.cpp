// gradus.optim.sgd(parameters, {lr = 0.1, momentum = 0.9}), adam, adamw: objects with step() and
// zero_grad(); lr may be set between steps.
#include "bindings/lua/networks/captured.hpp"
#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "bindings/lua/words.hpp"
#include "ops/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::lua {

namespace {

constexpr char kOptimizer[] = "gradus.Optimizer";
constexpr const char* kFields[] = {"lr", "steps"};

struct Owned {
  std::unique_ptr<optim::Optimizer> optimizer;
  nn::NamedTensors parameters;
  double lr;
};

using Optimizers = Userdata<Owned, kOptimizer>;
Owned& self(lua_State* L) {
  Owned* const o = Optimizers::at(L, 1);
  if (!o || !o->optimizer) fail(ErrorKind::value, "optim", "called on ", kind_at(L, 1));
  return *o;
}

nn::NamedTensors parameters_at(lua_State* L, int index) {
  nn::NamedTensors out;
  if (const nn::Sequential* const network = network_at(L, index)) {
    out = network->parameters();
  } else if (lua_istable(L, index) && lua_rawlen(L, index) == 0) {
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        fail(ErrorKind::value, "optim", "parameters: names or 1, 2, ...");
      out.emplace_back(lua_tostring(L, -2), operand_at(L, -1, "optim: parameters"));
    }
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  } else {
    const Tensors list = list_at(L, index, "optim: parameters");
    for (size_t k = 0; k < list.size(); ++k) out.emplace_back(join(int64_t(k + 1)), list[k]);
  }
  if (out.empty()) fail(ErrorKind::value, "optim", "no parameters");
  return out;
}

void check_lr(const char* who, double lr) {
  if (!(lr >= 0 && lr < INFINITY))
    fail(ErrorKind::value, who, "lr is ", lr, ", expected 0 or more");
}

enum class Kind { sgd, adam, adamw };
template <Kind K>
int make(lua_State* L) {
  constexpr const char* name = K == Kind::sgd ? "sgd" : K == Kind::adam ? "adam" : "adamw";
  if (lua_type(L, 2) == LUA_TNUMBER)
    fail(ErrorKind::value, name,
         "expected a table of options, got a number; write {lr = ", lua_tonumber(L, 2), "}");
  Options options(L, 2, name);
  double lr = K == Kind::sgd ? 0.01 : 1e-3;
  options.number("lr", lr);
  check_lr(name, lr);
  optim::Rule rule;
  if constexpr (K == Kind::sgd) {
    optim::Sgd r;
    options.number("momentum", r.momentum);
    options.number("dampening", r.dampening);
    options.number("weight_decay", r.weight_decay);
    options.boolean("nesterov", r.nesterov);
    rule = r;
  } else {
    optim::Adam r;
    r.decoupled = K == Kind::adamw;
    if (r.decoupled) r.weight_decay = 0.01;
    options.number("beta1", r.beta1);
    options.number("beta2", r.beta2);
    if (options.push("betas")) {  // as PyTorch writes them
      if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 2) options.wrong("betas", "two numbers");
      double* const betas[] = {&r.beta1, &r.beta2};
      for (const int64_t i : {1, 2}) {
        if (lua_rawgeti(L, -1, i) != LUA_TNUMBER) options.wrong("betas", "two numbers");
        *betas[i - 1] = lua_tonumber(L, -1);
        lua_pop(L, 1);
      }
      lua_pop(L, 1);
    }
    options.number("eps", r.eps);
    options.number("weight_decay", r.weight_decay);
    rule = r;
  }
  options.finish();
  nn::NamedTensors parameters = parameters_at(L, 1);
  auto optimizer = std::make_unique<optim::Optimizer>(parameters, rule);
  Optimizers::push(L, {std::move(optimizer), std::move(parameters), lr});
  return 1;
}
// The optimiser takes part in a captured step. False: its host's half is done.
bool take_step(lua_State* L, Stepping& stepping) {
  if (std::erase(stepping.prepared, lua_touserdata(L, 1)) > 0) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, stepping.list);
  const auto known = int64_t(lua_rawlen(L, -1));
  for (int64_t i = 1; i <= known; ++i) {
    lua_rawgeti(L, -1, i);
    const bool same = lua_touserdata(L, -1) == lua_touserdata(L, 1);
    lua_pop(L, 1);
    if (same) return true;
  }
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, known + 1);
  return true;
}
// o:step([{clip = 1}]): with gradients scaled so that all together have at most this norm
int step(lua_State* L) {
  const Owned& o = self(L);
  double clip = 0;
  Options options(L, 2, "step");
  options.number("clip", clip);
  options.finish();
  if (!(clip >= 0)) fail(ErrorKind::value, "step", "clip: expected a norm above 0, got ", clip);
  const Tensor gain = clip > 0 ? optim::clip_gain(o.parameters, clip) : Tensor();
  if (Stepping* const stepping = types_of(L).stepping; stepping && !take_step(L, *stepping))
    return o.optimizer->apply(gain), 0;
  o.optimizer->step(o.lr, gain);
  return 0;
}
int zero_grad(lua_State* L) {
  self(L).optimizer->zero_grad();
  return 0;
}
int get(lua_State* L) {
  const std::string_view name = luaL_checkstring(L, 2);
  if (name == "lr") return lua_pushnumber(L, self(L).lr), 1;
  if (name == "steps") return lua_pushinteger(L, self(L).optimizer->steps()), 1;
  luaL_getmetatable(L, kOptimizer);
  lua_getfield(L, -1, name == "step" || name == "zero_grad" ? lua_tostring(L, 2) : "no such thing");
  if (lua_isnil(L, -1))
    fail(ErrorKind::value, "optim", "has no \"", name, "\"",
         word_for("optim", name).empty() ? "; lr, steps, step and zero_grad"
                                         : word_for("optim", name));
  return 1;
}
int set(lua_State* L) {
  if (std::string_view(luaL_checkstring(L, 2)) != "lr" || lua_type(L, 3) != LUA_TNUMBER)
    fail(ErrorKind::value, "optim", "lr alone can be set, to a number");
  check_lr("optim", lua_tonumber(L, 3));
  self(L).lr = lua_tonumber(L, 3);
  return 0;
}
}  // namespace

const void* prepare_optimizer(lua_State* L, int index) {
  Owned* const o = Optimizers::at(L, index);
  if (!o || !o->optimizer) fail(ErrorKind::value, "optim", "called on ", kind_at(L, index));
  o->optimizer->prepare(o->lr);
  return o;
}

void open_optim(lua_State* L) {
  open_type(L, kOptimizer,
            {{"step", bind<step>},
             {"zero_grad", bind<zero_grad>},
             {"__index", bind<get>},
             {"__newindex", bind<set>},
             {"__gc", Optimizers::collect}},
            {}, kFields);
  luaL_getmetatable(L, kOptimizer);
  lua_getfield(L, -1, kNames);
  for (const char* name : {"step", "zero_grad"}) {
    lua_getfield(L, -2, name);
    lua_setfield(L, -2, name);
  }
  lua_pop(L, 2);
  const luaL_Reg functions[] = {{"sgd", bind<make<Kind::sgd>>},
                                {"adam", bind<make<Kind::adam>>},
                                {"adamw", bind<make<Kind::adamw>>},
                                {"SGD", bind<make<Kind::sgd>>},  // as PyTorch calls them
                                {"Adam", bind<make<Kind::adam>>},
                                {"AdamW", bind<make<Kind::adamw>>},
                                {nullptr, nullptr}};
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "optim");
}

}  // namespace gradus::lua
