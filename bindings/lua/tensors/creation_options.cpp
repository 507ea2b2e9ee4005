#include "bindings/lua/tensors/creation.hpp"

#include "ops/ops.hpp"

namespace gradus::inline v1::lua {

Wanted::Wanted(lua_State* L, int index, const char* what, bool with_list) {
  std::string name;
  Options options(L, index, what, with_list);
  options.dtype("dtype", dtype);
  options.boolean("requires_grad", requires_grad);
  options.text("device", name);
  options.finish();
  if (!name.empty()) device = &device_named(L, name, what);
}

Tensor Wanted::finish(Tensor t) const {
  if (dtype && t.dtype() != *dtype) t = cast(t, *dtype).detach();
  if (device && &t.device() != device) t = to_device(t, *device).detach();
  if (requires_grad) t.set_requires_grad();
  return t;
}

namespace {
// Where the options stand: a table without a first element at the end, or the one of the sizes; 0
// is an index of nothing.
struct OptionsPlace {
  int at = 0;
  bool among = false;  // the sizes
};
OptionsPlace options_of(lua_State* L) {
  const int top = lua_gettop(L);
  if (top == 0 || !lua_istable(L, top)) return {};
  if (lua_rawlen(L, top) > 0) return top == 1 ? OptionsPlace{1, true} : OptionsPlace{};
  if (top > 1) return {top};
  lua_pushnil(L);
  if (lua_next(L, top) == 0) return {};  // no sizes: one number
  lua_pop(L, 2);
  return {top};
}
}  // namespace

Asked::Asked(lua_State* L, const char* what)
    : wanted(L, options_of(L).at, what, options_of(L).among) {
  const OptionsPlace options = options_of(L);
  const int last = lua_gettop(L) - (options.at > 0 && !options.among);
  if (last == 1 && lua_istable(L, 1))
    sizes = sizes_at(L, 1, what);
  else
    for (int i = 1; i <= last; ++i) sizes.push_back(integer_at(L, i, what));
  for (const int64_t n : sizes)
    if (n < 0) fail(ErrorKind::shape, what, "a size of ", n);
}

}  // namespace gradus::lua
