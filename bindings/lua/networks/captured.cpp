// gradus.capture(f [, options]): f as a step that is recorded once for each shape of its arguments,
// and replayed from then on: the same bits without Lua, graph or allocation.
#include "bindings/lua/networks/captured.hpp"

#include "bindings/lua/options.hpp"
#include "bindings/lua/userdata.hpp"
#include "engine/random.hpp"
#include "engine/capture/capture.hpp"
#include "ops/ops.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

namespace {

constexpr char kStep[] = "gradus.Step";
constexpr const char* kFields[] = {"replays", "calls", "why_not"};
constexpr int kFunction = 1, kOptimizers = 2;  // of the userdata, beside it

// One shape of the arguments. Its optimisers stand in the table kOptimizers, at its number.
struct Entry {
  std::string key;
  Tensors fixed;  // what the recorded step reads; the arguments are copied there
  bool warm = false;
  Captured captured;
};
struct Step {
  bool required = false;
  std::vector<std::unique_ptr<Entry>> entries{};
  int64_t replays = 0;
  std::string why_not{};
};

using Steps = Userdata<std::unique_ptr<Step>, kStep>;
Step& self(lua_State* L) {
  auto* const s = Steps::at(L, 1);
  if (!s || !*s) fail(ErrorKind::value, "capture", "called on ", kind_at(L, 1));
  return **s;
}

int make(lua_State* L) {
  at_most(L, 2, "capture");
  if (!lua_isfunction(L, 1))
    fail(ErrorKind::value, "capture", "expected a function, got ", kind_at(L, 1));
  auto step = std::make_unique<Step>();
  Options options(L, 2, "capture");
  options.boolean("required", step->required);
  options.finish();
  Steps::push(L, std::move(step), 2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, kFunction);
  lua_newtable(L);
  lua_setiuservalue(L, -2, kOptimizers);
  return 1;
}

// The arguments behind the step itself.
Tensors arguments(lua_State* L) {
  Tensors out;
  for (int i = 2; i <= lua_gettop(L); ++i) {
    const Tensor* const t = tensor_at(L, i);
    if (!t || !t->defined())
      fail(ErrorKind::value, "capture", "argument ", i - 1, ": expected a tensor, got ",
           kind_at(L, i),
           lua_type(L, i) == LUA_TNUMBER
               ? "; a number would be recorded as it is now: gradus.tensor(x)"
               : "");
    if (t->requires_grad())
      fail(ErrorKind::value, "capture", "argument ", i - 1, " requires a gradient, but what goes ",
           "in is copied; let the function take it from a variable, or pass it detached");
    out.push_back(*t);
  }
  return out;
}

Entry& entry_of(Step& step, const Tensors& in) {
  std::string key;
  for (const Tensor& t : in) key += join(t.dtype(), to_text(t.sizes()), t.device().name(), ";");
  for (const auto& e : step.entries)
    if (e->key == key) return *e;
  auto entry = std::make_unique<Entry>();
  entry->key = std::move(key);
  for (const Tensor& t : in) entry->fixed.push_back(clone(t).detach());
  step.entries.push_back(std::move(entry));
  return *step.entries.back();
}

// In Types::stepping for the length of a run; the table of optimisers lies at `list`.
class Within {
 public:
  Within(lua_State* L, Stepping& stepping, int list) : L_(L), stepping_(stepping) {
    lua_pushvalue(L, list);
    stepping_.list = luaL_ref(L, LUA_REGISTRYINDEX);
    types_of(L).stepping = &stepping;
  }
  ~Within() {
    types_of(L_).stepping = nullptr;
    luaL_unref(L_, LUA_REGISTRYINDEX, stepping_.list);
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  lua_State* L_;
  Stepping& stepping_;
};

// f(fixed tensors...), its results without history.
Tensors run_function(lua_State* L, const Entry& entry) {
  const int before = lua_gettop(L);
  luaL_checkstack(L, int(entry.fixed.size()) + 4, "too many arguments");
  lua_getiuservalue(L, 1, kFunction);
  push(L, entry.fixed);
  call(L, int(entry.fixed.size()), LUA_MULTRET);
  Tensors out;
  for (int i = before + 1; i <= lua_gettop(L); ++i)
    if (!lua_isnil(L, i))
      out.push_back(operand_at(L, i, "capture: the function's result").detach());
  lua_settop(L, before);
  return out;
}

void prepare_all(lua_State* L, int list, Stepping& stepping) {
  each_of(L, list, [&] { stepping.prepared.push_back(prepare_optimizer(L, -1)); });
}

void refuse_required(const Step& step) {
  if (step.required && !step.why_not.empty())
    fail(ErrorKind::value, "capture", "the step can't be replayed: ", step.why_not);
}

// As it is the first time, when it also shows which optimisers it takes; recorded the second.
Tensors run_entry(lua_State* L, Step& step, Entry& entry, int list) {
  Stepping stepping;
  if (entry.captured) {
    prepare_all(L, list, stepping);
    ++step.replays;
    return entry.captured.replay();
  }
  if (!entry.warm) {
    const Within here(L, stepping, list);
    Tensors out = run_function(L, entry);
    entry.warm = true;
    return out;
  }
  if (!entry.captured.why_not().empty()) {
    refuse_required(step);
    return run_function(L, entry);
  }
  prepare_all(L, list, stepping);
  Device& device = entry.fixed.empty() ? device_of(L) : entry.fixed[0].device();
  Captured captured;
  {
    const Within here(L, stepping, list);
    captured = capture(device, [&] { return run_function(L, entry); });
  }
  if (!stepping.prepared.empty())
    fail(ErrorKind::value, "capture", "an optimiser that took a step before took none now; a step ",
         "that does other things at other times can't be captured");
  entry.captured = std::move(captured);
  if (step.why_not.empty()) step.why_not = entry.captured.why_not();
  refuse_required(step);
  return entry.captured.outputs();
}

int run(lua_State* L) {
  Step& step = self(L);
  if (types_of(L).stepping)
    fail(ErrorKind::value, "capture", "a captured step runs within another one");
  const Tensors in = arguments(L);
  Entry& entry = entry_of(step, in);
  {
    const NoGrad off;
    for (size_t k = 0; k < in.size(); ++k) copy_(entry.fixed[k], in[k]);
  }
  const auto number = std::find_if(step.entries.begin(), step.entries.end(),
                                   [&](const auto& e) { return e.get() == &entry; }) -
                      step.entries.begin() + 1;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, kOptimizers);
  if (lua_rawgeti(L, 2, number) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 2, number);
  }
  default_generator().begin_step();
  // The next run writes to what it gives, so the script gets tensors of its own.
  Tensors out;
  for (const Tensor& t : run_entry(L, step, entry, 3)) {
    const NoGrad off;
    out.push_back(clone(t));
  }
  push(L, out);
  return int(out.size());
}

int get(lua_State* L) {
  const Step& step = self(L);
  const std::string_view name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (name == "replays") return lua_pushinteger(L, step.replays), 1;
  if (name == "why_not") {
    step.why_not.empty() ? lua_pushnil(L) : void(lua_pushstring(L, step.why_not.c_str()));
    return 1;
  }
  if (name == "calls") {
    int64_t calls = 0;
    for (const auto& e : step.entries) calls = std::max(calls, int64_t(e->captured.calls()));
    return lua_pushinteger(L, calls), 1;
  }
  fail(ErrorKind::value, "capture", "has no \"", name.substr(0, 100),
       "\"; replays, calls and why_not");
}
int text(lua_State* L) {
  const Step& step = self(L);
  std::string s = "step that was not recorded yet: the second call does so";
  if (!step.why_not.empty())
    s = "step that runs as it is: " + step.why_not;
  else
    for (const auto& e : step.entries)
      if (e->captured)
        s = join("captured step of ", e->captured.calls(), " kernel calls, replayed ", step.replays,
                 step.replays == 1 ? " time" : " times");
  lua_pushstring(L, s.c_str());
  return 1;
}

}  // namespace

void open_capture(lua_State* L) {
  open_type(L, kStep,
            {{"__call", bind<run>},
             {"__index", bind<get>},
             {"__tostring", bind<text>},
             {"__gc", Steps::collect}},
            {}, kFields);
  lua_pushcfunction(L, bind<make>);
  lua_setfield(L, -2, "capture");
}

}  // namespace gradus::lua
