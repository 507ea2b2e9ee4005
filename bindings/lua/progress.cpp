// for i in gradus.progress(100, {text = "train"}) do ... end; a table or a tensor in place of the
// number gives i and its i-th value. bar:set{loss = l} shows a number beside the bar.
#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

namespace {

constexpr char kBar[] = "gradus.Progress";
using Clock = std::chrono::steady_clock;

struct Bar {
  LoopState loop;
  Clock::time_point begin = Clock::now();
};

using Bars = Userdata<std::unique_ptr<Bar>, kBar>;
Bar& bar_at(lua_State* L) {
  auto* const bar = Bars::at(L, 1);
  if (!bar || !*bar)
    fail(ErrorKind::value, "progress", "called on ", kind_at(L, 1), "; write bar:set{loss = 1}");
  return **bar;
}

int make_bar(lua_State* L) {
  auto bar = std::make_unique<Bar>();
  const bool number = lua_type(L, 1) == LUA_TNUMBER;
  if (number)
    bar->loop.total = integer_at(L, 1, "progress");
  else if (lua_istable(L, 1) || tensor_at(L, 1))
    bar->loop.total = luaL_len(L, 1);
  else
    fail(ErrorKind::value, "progress", "expected a number, a table or a tensor, got ",
         kind_at(L, 1));
  Options options(L, 2, "progress");
  options.text("text", bar->loop.text);
  options.finish();
  Bars::push(L, std::move(bar), 1);
  if (!number) {
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
  }
  // A loop calls the first and closes the fourth, also where it is left by break.
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, -3);
  return 4;
}

int next(lua_State* L) {
  Bar& bar = bar_at(L);
  const LoopView& view = loop_view(L);
  LoopState& loop = bar.loop;
  const bool last = loop.done >= loop.total;
  if (view) {
    loop.seconds = std::chrono::duration<double>(Clock::now() - bar.begin).count();
    view(last ? nullptr : &loop);
  }
  if (last) return 0;
  lua_pushinteger(L, ++loop.done);
  if (lua_getiuservalue(L, 1, 1) == LUA_TNIL) return lua_pop(L, 1), 1;
  lua_geti(L, -1, loop.done);
  lua_remove(L, -2);
  return 2;
}

int set(lua_State* L) {
  Bar& bar = bar_at(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  if (!loop_view(L)) return 0;
  std::vector<std::string> values;
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    look_at_clock(L);
    if (lua_type(L, -2) != LUA_TSTRING) fail(ErrorKind::value, "progress", "values need names");
    std::string text;
    if (const Tensor* const t = tensor_at(L, -1)) {
      text = t->to_string();
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
      char number[32];
      snprintf(number, sizeof number, "%.4g", lua_tonumber(L, -1));
      text = number;
    } else {
      text = luaL_tolstring(L, -1, nullptr);
      lua_pop(L, 1);
    }
    values.push_back(std::string(lua_tostring(L, -2)) + " " + text);
  }
  std::sort(values.begin(), values.end());
  bar.loop.values.clear();
  for (const std::string& v : values) bar.loop.values += (bar.loop.values.empty() ? "" : ", ") + v;
  return 0;
}

int close(lua_State* L) {
  if (const LoopView& view = loop_view(L)) view(nullptr);
  return 0;
}

}  // namespace

void open_progress(lua_State* L) {
  open_type(L, kBar, {{"__call", bind<next>}, {"__close", bind<close>}, {"__gc", Bars::collect}},
            {{"set", bind<set>}});
  lua_pushcfunction(L, bind<make_bar>);
  lua_setfield(L, -2, "progress");
}

}  // namespace gradus::lua
