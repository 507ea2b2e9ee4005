// Names for leaves: the variables that hold them, as a debugger would find them.
#include "bindings/lua/state.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace gradus::inline v1::lua {

namespace {

constexpr int kDeep = 6;          // tables within tables
constexpr size_t kMost = 100000;  // values looked at

class Finder {
 public:
  explicit Finder(lua_State* L) : L_(L) {
    // Libraries and `gradus` are no variables of the script.
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_istable(L, -1))
      for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) tables_.insert(lua_topointer(L, -1));
    lua_getglobal(L, "gradus");
    tables_.insert(lua_topointer(L, -1));
    lua_pop(L, 2);
  }

  // Locals and upvalues of the functions that run in a thread, innermost first.
  void frames(lua_State* thread) {
    lua_Debug frame;
    for (int level = 0; lua_getstack(thread, level, &frame); ++level) {
      const auto each = [&](auto next) {
        for (int n = 1;; ++n) {
          const char* const name = next(n);
          if (!name) return;
          lua_xmove(thread, L_, 1);
          if (*name && *name != '(' && std::string_view(name) != "_ENV") visit(name, 0);
          lua_pop(L_, 1);
        }
      };
      each([&](int n) { return lua_getlocal(thread, &frame, n); });
      lua_getinfo(thread, "f", &frame);
      if (!lua_iscfunction(thread, -1)) each([&](int n) { return lua_getupvalue(thread, -1, n); });
      lua_pop(thread, 1);
    }
  }
  void globals() {
    lua_pushglobaltable(L_);
    fields("", 0);
    lua_pop(L_, 1);
  }

  nn::NamedTensors take() { return std::move(found_); }

 private:
  // The value on top.
  void visit(const std::string& name, int depth) {
    if (++visited_ > kMost) return;
    if (const Tensor* const t = tensor_at(L_, -1)) return add(name, *t);
    if (luaL_testudata(L_, -1, kBlockTensor)) {
      lua_getiuservalue(L_, -1, 1);
      if (const Tensor* const t = tensor_at(L_, -1)) add(name, *t);
      return lua_pop(L_, 1);
    }
    if (const nn::Sequential* const network = network_at(L_, -1))
      for (const auto& [field, t] : network->parameters()) add(name + "." + field, t);
    if (lua_istable(L_, -1) && depth < kDeep && tables_.insert(lua_topointer(L_, -1)).second)
      fields(name, depth);
  }

  // Of the table on top, in an order that is the same in every run.
  void fields(const std::string& name, int depth) {
    luaL_checkstack(L_, 4, "tables too deep");
    std::vector<std::string> names;
    std::vector<int64_t> numbers;
    for (lua_pushnil(L_); lua_next(L_, -2); lua_pop(L_, 1)) {
      if (lua_type(L_, -2) == LUA_TSTRING) names.emplace_back(lua_tostring(L_, -2));
      if (lua_isinteger(L_, -2)) numbers.push_back(lua_tointeger(L_, -2));
    }
    std::sort(names.begin(), names.end());
    std::sort(numbers.begin(), numbers.end());
    for (const std::string& field : names) {
      lua_pushstring(L_, field.c_str());
      lua_rawget(L_, -2);
      visit(name.empty() ? field : name + "." + field, depth + 1);
      lua_pop(L_, 1);
    }
    for (const int64_t i : numbers) {
      lua_rawgeti(L_, -1, i);
      visit(join(name, "[", i, "]"), depth + 1);
      lua_pop(L_, 1);
    }
  }

  // One name a leaf: a name says more than a number in a list.
  void add(const std::string& name, const Tensor& t) {
    if (!t.defined() || !t.is_leaf() || !t.requires_grad()) return;
    const auto [at, fresh] = ids_.try_emplace(t.body()->autograd.get(), found_.size());
    if (fresh) return found_.emplace_back(name, t), void();
    std::string& known = found_[at->second].first;
    const auto subscripts = [](const std::string& s) {
      return std::count(s.begin(), s.end(), '[');
    };
    if (subscripts(name) < subscripts(known)) known = name;
  }

  lua_State* L_;
  std::set<const void*> tables_;
  std::unordered_map<const Autograd*, size_t> ids_;
  nn::NamedTensors found_;
  size_t visited_ = 0;
};

}  // namespace

nn::NamedTensors variables(lua_State* L) {
  Finder finder(L);
  finder.frames(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  if (lua_State* const main = lua_tothread(L, -1); main != L) finder.frames(main);
  lua_pop(L, 1);
  finder.globals();
  return finder.take();
}

}  // namespace gradus::lua
