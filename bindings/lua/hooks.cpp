// Hooks: t:register_hook(f), and how f and the tensor it hangs on are freed together.
#include "engine/hooks.hpp"

#include "bindings/lua/script_state.hpp"
#include "bindings/lua/userdata.hpp"

namespace gradus::inline v1::lua {

namespace {

constexpr char kHook[] = "gradus.Hook";
using Handles = Userdata<HookHandle, kHook>;

// A hook's function may hold the tensor that it hangs on. So that Lua's collector can
// see such a circle, the function hangs on the userdata: by a guard, which holds both, and which a
// table with weak keys gives for the userdata. Once nothing of Lua leads there any more the guard's
// finalizer looks whether anything else does, as a graph may, and then keeps the guard until it is
// Lua's alone again.
constexpr const char* kGuard = "gradus.Guard";
constexpr const char* kOfTensor = "gradus.guards of a tensor";  // userdata -> {id -> guard}
constexpr const char* kById = "gradus.guards by id";            // id -> guard, weak
constexpr const char* kKept = "gradus.guards kept";             // id -> guard

class HookFunction {
 public:
  HookFunction(lua_State* main, int64_t id) : L_(main), open_(types_of(main).open), id_(id) {}
  Tensor operator()(const Tensor& g) const {
    if (open_.expired()) fail(ErrorKind::value, "function", "the script it belongs to has ended");
    const int before = lua_gettop(L_);
    luaL_checkstack(L_, 6, "functions within functions");
    if (!push_guard()) lua_gc(L_, LUA_GCCOLLECT);  // its finalizer is due
    if (!push_guard()) fail(ErrorKind::internal, "register_hook", "the function is gone");
    lua_getiuservalue(L_, -1, 2);
    push(L_, g);
    call(L_, 1, 1);
    const Tensor out = lua_isnil(L_, -1) ? Tensor() : operand_at(L_, -1, "the function's result");
    lua_settop(L_, before);
    return out;
  }

 private:
  bool push_guard() const {
    lua_getfield(L_, LUA_REGISTRYINDEX, kById);
    return lua_rawgeti(L_, -1, id_) != LUA_TNIL;
  }
  lua_State* L_;
  std::weak_ptr<const bool> open_;
  int64_t id_;
};
struct Guard {
  int64_t id;
  std::weak_ptr<HookFunction> function;  // gone once the hook is
};

// Does anything but the guard's userdata own what the hook hangs on?
bool needed(lua_State* L, int guard) {
  const auto* const g = static_cast<Guard*>(lua_touserdata(L, guard));
  if (g->function.expired()) return false;
  lua_getiuservalue(L, guard, 1);
  const Tensor* const t = tensor_at(L, -1);
  lua_pop(L, 1);
  if (!t || !t->defined() || t->body()->use_count() > 1) return true;
  const Autograd* const a = t->body()->autograd.get();
  const bool here = a && (a->fn ? a->fn->hooks_if_any() != nullptr : a->hooks != nullptr);
  return !here || a->use_count() > 1 || (a->fn && a->fn->use_count() > 1);
}
void set_in(lua_State* L, const char* table, int64_t id, int value) {
  lua_getfield(L, LUA_REGISTRYINDEX, table);
  lua_pushvalue(L, value);
  lua_rawseti(L, -2, id);
  lua_pop(L, 1);
}
void let_go_of_guards(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, kKept);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (needed(L, lua_gettop(L))) continue;
    lua_pushvalue(L, -2);
    lua_pushnil(L);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
}
int collect_guard(lua_State* L) {
  auto* const g = static_cast<Guard*>(lua_touserdata(L, 1));
  const bool open = bool(types_of(L).open);
  if (open && needed(L, 1)) {
    set_in(L, kById, g->id, 1);
    set_in(L, kKept, g->id, 1);
    luaL_setmetatable(L, kGuard);  // or it would have no finalizer any more
  } else {
    g->~Guard();
    --types_of(L).guards;
    lua_pushnil(L);
    lua_setmetatable(L, 1);
  }
  return 0;
}
void hang(lua_State* L, int tensor, int function, std::weak_ptr<HookFunction> f, int64_t id) {
  new (lua_newuserdatauv(L, sizeof(Guard), 2)) Guard{id, std::move(f)};
  ++types_of(L).guards;
  luaL_setmetatable(L, kGuard);
  const int guard = lua_gettop(L);
  lua_pushvalue(L, tensor);
  lua_setiuservalue(L, guard, 1);
  lua_pushvalue(L, function);
  lua_setiuservalue(L, guard, 2);
  set_in(L, kById, id, guard);
  lua_getfield(L, LUA_REGISTRYINDEX, kOfTensor);
  lua_pushvalue(L, tensor);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, tensor);
    lua_pushvalue(L, -2);
    lua_rawset(L, -5);
  }
  lua_pushvalue(L, guard);
  lua_rawseti(L, -2, id);
  lua_settop(L, guard - 1);
}

// t:register_hook(function(g) ... end): called with t's gradient as backward passes; what it gives,
// if anything, takes the gradient's place. The object it gives has remove().
int register_hook_of(lua_State* L) {
  const Tensor t = self_at(L, "register_hook");
  luaL_checktype(L, 2, LUA_TFUNCTION);
  let_go_of_guards(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State* const main = lua_tothread(L, -1);  // coroutines may end before the hook is called
  lua_pop(L, 1);
  static std::atomic<int64_t> last = 0;
  const int64_t id = ++last;
  const auto f = std::make_shared<HookFunction>(main, id);
  hang(L, 1, 2, f, id);
  Handles::push(L, register_hook(t, [f](const Tensor& g) { return (*f)(g); }));
  return 1;
}
int remove_hook(lua_State* L) {
  if (HookHandle* const handle = Handles::at(L, 1))
    handle->remove();
  else
    fail(ErrorKind::value, "remove", "called on ", kind_at(L, 1), "; write handle:remove()");
  return 0;
}

}  // namespace

void open_hooks(lua_State* L) {
  push_methods(L);
  lua_pushcfunction(L, bind<register_hook_of>);
  lua_setfield(L, -2, "register_hook");
  lua_pop(L, 1);
  luaL_newmetatable(L, kGuard);
  lua_pushcfunction(L, collect_guard);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  constexpr const char* tables[][2] = {{kOfTensor, "k"}, {kById, "v"}, {kKept, ""}};
  for (const auto& [name, weak] : tables) {
    lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, weak);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, name);
  }
  open_type(L, kHook, {{"__gc", Handles::collect}}, {{"remove", bind<remove_hook>}});
}

}  // namespace gradus::lua
