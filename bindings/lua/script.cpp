// The state: limits, errors, running. What a script may call is in sandbox.cpp.
#include "bindings/lua/script_state.hpp"
#include "bindings/lua/words.hpp"
#include "ops/audit/step/graph_view.hpp"

#include <algorithm>
#include <cstdlib>

namespace gradus::inline v1::lua {

namespace {

constexpr size_t kMessage = 64 << 10;  // bytes of an error's text that are told

std::string bytes_text(size_t n) {
  if (n % (1u << 30) == 0) return join(int64_t(n >> 30), "GiB");
  return n % (1u << 20) == 0 ? join(int64_t(n >> 20), "MiB") : join(int64_t(n), " bytes");
}

// ---- limits

std::string stopped_after(double seconds) {
  return join("stopped after ", seconds, " seconds (--max-seconds)");
}

// What the script has made beside the heap, where the pools of devices with host memory lie.
size_t elsewhere(const State& s) {
  size_t all = 0;
  for (const State::Limited& d : s.devices) {
    if (d.device->host_memory()) continue;
    const size_t live = d.device->pool().stats().live;
    all += live > d.live ? live - d.live : 0;
  }
  return all;
}
size_t bytes_of(const State& s) {
  const size_t live = heap::live();
  return (live > s.before ? live - s.before : 0) + elsewhere(s);
}

// What pools keep for reuse is memory, too.
size_t bytes_after_trim(const State& s) {
  for (const State::Limited& d : s.devices) d.device->pool().trim();
  heap::trim();
  return bytes_of(s);
}

void* allocate(void* user, void* old, size_t old_size, size_t size) {
  State& s = *static_cast<State*>(user);
  if (!old) old_size = 0;
  if (size == 0) {
    std::free(old);
    return nullptr;
  }
  if (size > old_size && s.lua_most > 0 && heap::live() + (size - old_size) > s.lua_most &&
      bytes_after_trim(s) + (size - old_size) > s.options.limits.memory) {
    s.out_of_memory = true;
    return nullptr;
  }
  void* const p = std::realloc(old, size);
  if (!p) s.out_of_memory = true;
  return p;
}

// What it left is looked at without limits: its own ops are still called.
void lift_limits(State& s) {
  lua_sethook(s.L, nullptr, 0, 0);
  s.over.clear();
  s.options.limits = {};
  s.look_above = SIZE_MAX;
  s.lua_most = 0;
  for (const State::Limited& d : s.devices) d.device->pool().set_limit(d.limit);
  s.devices.clear();
}

// ---- errors

int add_traceback(lua_State* L) {
  if (!lua_isstring(L, 1)) {
    if (luaL_callmeta(L, 1, "__tostring")) {
      lua_remove(L, 1);
    } else {
      lua_pushfstring(L, "the script raised %s", kind_at(L, 1).c_str());
      lua_remove(L, 1);
    }
  }
  keep_traceback(L);
  size_t length = 0;
  const char* const text = lua_tolstring(L, 1, &length);
  lua_pushlstring(L, text, std::min(length, kMessage));
  lua_pushfstring(L, "%s\n%s", lua_tostring(L, -1), state_of(L).traceback.c_str());
  return 1;
}

// `source`: of an error of syntax.
[[noreturn]] void raise(State& s, int status, std::string_view source = {}) {
  std::string text = status < 0              ? "a foreign exception"
                     : lua_tostring(s.L, -1) ? lua_tostring(s.L, -1)
                                             : "?";
  lua_settop(s.L, 0);
  if (!s.over.empty()) fail(s.interrupted ? ErrorKind::interrupted : ErrorKind::numeric, "", text);
  const size_t line = std::min(text.find('\n'), text.size());  // the traceback stands below
  const bool told = !s.kind_text.empty() && text.find(s.kind_text) < line;
  const bool no_memory = s.out_of_memory && (text.find("not enough memory") < line ||
                                             text.find("leaves no room") < line ||
                                             (told && s.kind == ErrorKind::memory));
  if (!s.options.unsafe && status == LUA_ERRRUN)
    for (const char* gone :
         {"(global 'io')", "(global 'package')", "(global 'debug')", "(global 'dofile')",
          "(global 'loadfile')", "(field 'execute')", "(field 'remove')", "(field 'exit')",
          "(field 'getenv')", "(field 'rename')", "(field 'tmpname')", "(field 'dump')"})
      if (text.find(gone) < line) text.insert(line, ": it is not in the sandbox (--unsafe has it)");
  if (status == LUA_ERRSYNTAX && text.find("binary chunk") < line)
    text.insert(line, ": bytecode runs with --unsafe alone");
  if (status == LUA_ERRSYNTAX) text.insert(line, word_for_syntax(text.substr(0, line), source));
  if (status == LUA_ERRMEM || no_memory) {
    if (s.options.limits.memory)
      text.insert(line,
                  join(" (the limit is ", bytes_text(s.options.limits.memory), ", --max-memory)"));
    fail(ErrorKind::memory, "", text);
  }
  // A file or a device that is not there, or a matrix without factors, is no fault of the script's
  // text.
  const bool outer =
      s.kind == ErrorKind::io || s.kind == ErrorKind::device || s.kind == ErrorKind::numeric;
  const bool kept = status == LUA_ERRRUN && outer && text.find(s.kind_text) != std::string::npos;
  fail(kept ? s.kind : status == LUA_ERRSYNTAX ? ErrorKind::config : ErrorKind::value, "", text);
}

int load(State& s, std::string_view text, const std::string& name) {
  return luaL_loadbufferx(s.L, text.data(), text.size(), ("@" + name).c_str(),
                          s.options.unsafe ? "bt" : "t");
}
int load_file(State& s, const std::string& text, const std::string& name) {
  return load(s, lua_part(text), name);
}

// Calls what lies on top; `results` values stay.
void run_chunk(State& s, int arguments, int results) {
  lua_pushcfunction(s.L, add_traceback);
  lua_insert(s.L, 1);
  s.begin = std::chrono::steady_clock::now();
  int status = LUA_OK;
  {
    const DeviceScope scope(*s.device);
    // Lua itself, and calls as they end, keep to the limit; within one call it is a little higher,
    // so that few are refused a small block somewhere in the midst of it.
    const size_t most = s.options.limits.memory;
    const heap::Bounded bound(most ? s.before + most + most / 16 : 0);
    status = lua_pcall(s.L, arguments, results, 1);
  }
  if (s.options.progress) s.options.progress(nullptr);
  if (s.ended) return lua_settop(s.L, 0), lift_limits(s);
  if (status != LUA_OK) raise(s, status);
  lua_remove(s.L, 1);
}

// Is this error of syntax that the text ends too early?
bool is_begun(lua_State* L) { return std::string_view(lua_tostring(L, -1)).ends_with("<eof>"); }

// Shows what an input at the prompt gave, and keeps the first value as `_`: past whatever guards
// the globals.
int show(lua_State* L) {
  const int results = lua_gettop(L);
  luaL_checkstack(L, 4, "too many values");
  lua_pushglobaltable(L);
  lua_pushliteral(L, "_");
  lua_pushvalue(L, 1);
  lua_rawset(L, -3);
  lua_pushliteral(L, "print");
  if (lua_rawget(L, -2) != LUA_TFUNCTION) lua_pushcfunction(L, print);
  lua_insert(L, 1);
  lua_settop(L, results + 1);
  lua_call(L, results, 0);
  return 0;
}

}  // namespace

std::string_view lua_part(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";  // of UTF-8, by some editors
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  if (text.starts_with('#')) text.remove_prefix(std::min(text.find('\n'), text.size()));
  return text;
}

namespace {
// From now on every instruction raises the error again; below a coroutine, too.
void stop(lua_State* L) {
  for (lua_State* const thread : {state_of(L).L, L})
    lua_sethook(thread, hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}
}  // namespace

void count(lua_State* L) {
  const heap::Unbounded room;
  State& s = state_of(L);
  if (s.over.empty()) {
    s.instructions += kHookEvery;
    const Limits& most = s.options.limits;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - s.begin;
    if (s.interrupted)
      s.over = "interrupted";
    else if (most.instructions > 0 && s.instructions > most.instructions)
      s.over =
          join("stopped after ", int64_t(most.instructions), " instructions (--max-instructions)");
    else if (most.seconds > 0 && seconds.count() > most.seconds)
      s.over = stopped_after(most.seconds);
    else
      return;
  }
  stop(L);
  push_error(L, s.over.c_str());
  lua_error(L);
}

void push_error(lua_State* L, const char* text) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    lua_pushfstring(L, "%s:%d: %s", frame.short_src, frame.currentline, text);
    return;
  }
  lua_pushstring(L, text);
}

int keep_traceback(lua_State* L) {
  if (lua_type(L, 1) != LUA_TSTRING) return 1;
  const heap::Unbounded room;
  State& s = state_of(L);
  luaL_traceback(L, L, nullptr, 1);
  size_t length = 0;
  const char* const whole = lua_tolstring(L, 1, &length);
  const std::string text = join(std::string_view(whole, std::min(length, kMessage)), length),
                    now = lua_tostring(L, -1);
  lua_pop(L, 1);
  // On its way through C++ code an error loses its innermost frames; the others are still the same.
  constexpr std::string_view head = "stack traceback:";
  if (text != s.raised || !s.traceback.ends_with(std::string_view(now).substr(head.size())))
    s.traceback = now;
  s.raised = text;
  return 1;
}

void limit_memory_of(lua_State* L, Device& device) {
  State& s = state_of(L);
  const size_t memory = s.options.limits.memory;
  if (memory == 0) return;
  for (const State::Limited& d : s.devices)
    if (d.device == &device) return;
  const size_t before = device.pool().limit(), live = device.pool().stats().live;
  const size_t most = live + memory;
  s.devices.push_back({&device, before, live});
  if (!device.host_memory()) s.look_after = memory / 32;
  if (before == 0 || before > most) device.pool().set_limit(most);
}

void make_room(lua_State* L) {
  collect_all(L);
  bytes_after_trim(state_of(L));
}

void keep_limit(lua_State* L) {
  State& s = state_of(L);
  s.made = 0;
  const size_t most = s.options.limits.memory;
  size_t used = bytes_of(s);
  if (used > most || used > s.collected + most / 8) {
    collect_all(L);
    used = bytes_of(s);
    if (used > most) used = bytes_after_trim(s);
    s.collected = used;
  }
  s.lua_most = s.before + most - std::min(most, elsewhere(s));
  if (used > most) {
    s.look_above = 0;
    fail(ErrorKind::memory, "memory", "the last result leaves no room: ", bytes_text(used),
         " are in use, by Lua, by C++ and by tensors on all devices");
  }
  s.look_above = std::max(heap::live() + most / 32, s.before + most / 4 * 3);
}

void keep_time(lua_State* L) {
  State& s = state_of(L);
  const std::chrono::duration<double> past = std::chrono::steady_clock::now() - s.begin;
  const double most = s.options.limits.seconds;
  if (s.over.empty()) {
    if (s.interrupted)
      s.over = "interrupted";
    else if (most > 0 && past.count() > most)
      s.over = stopped_after(most);
  }
  if (s.over.empty()) return;
  stop(L);
  fail(s.interrupted ? ErrorKind::interrupted : ErrorKind::numeric, "", s.over);
}

const char* note_refused(lua_State* L) {
  state_of(L).out_of_memory = true;
  return "memory: what this makes leaves no room";
}

void note(lua_State* L, const Error& e) {
  State& s = state_of(L);
  s.kind = e.kind();
  s.kind_text = e.what();
  if (e.kind() == ErrorKind::memory) s.out_of_memory = true;
  if (e.kind() != ErrorKind::interrupted) return;
  s.interrupted = true;
  if (s.over.empty()) s.over = e.what();
  lua_sethook(L, hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

ScriptLine::ScriptLine(lua_State* L) {
  lua_Debug frame;
  for (int level = 1; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    const std::string place = join(frame.short_src, ":", frame.currentline), outer = trace_text();
    if (!outer.ends_with(place)) trace_.emplace(place);
    return;
  }
}

std::string source_of(lua_State* L, const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return "";
  // Lua cuts long names at the front: "...".
  std::string_view name = std::string_view(place).substr(0, colon);
  const bool cut = name.starts_with("...");
  if (cut) name.remove_prefix(3);
  for (const auto& [known, text] : state_of(L).texts)
    if (cut ? known.ends_with(name) : known == name)
      return audit::lines_around(text, std::atoll(place.c_str() + colon + 1));
  return "";
}
std::string Script::source(const std::string& place) const { return source_of(state_->L, place); }

void look(lua_State* L, const Tensors& roots, const Tensors& seeds, Moment moment) {
  State& s = state_of(L);
  if (!s.options.looking || s.ended) return;
  if (!s.options.looking(roots, seeds, moment)) return;
  s.leaves = variables(L);
  s.ended = true;
  s.over = "ended to be looked at";
  stop(L);  // as for a limit
  luaL_error(L, "%s", s.over.c_str());
}

const Paths& paths_of(lua_State* L) { return state_of(L).paths; }
void check_path(lua_State* L, const std::string& path, Access access) {
  paths_of(L).check(path, access);
}

const LoopView& loop_view(lua_State* L) { return state_of(L).options.progress; }

Device& device_of(lua_State* L) { return *state_of(L).device; }

Script::Script(const ScriptOptions& options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = options;
  s.device = options.device ? options.device : &default_device();
  s.sandboxed = !options.unsafe;
  if (s.sandboxed) {
    std::vector<std::string> written = options.write;
    written.insert(written.begin(), {".", options.folder});
    s.paths = Paths(written, options.read);
  }
  if (const size_t most = options.limits.memory; most > 0) {
    for (Device* const d : open_devices()) d->pool().trim();  // what lies there is not its own
    s.before = heap::live();
    s.look_above = s.before + most / 4 * 3;
    s.lua_most = s.before + most;
  }
  s.L = lua_newstate(allocate, &s);
  if (!s.L) fail(ErrorKind::memory, "script", "no memory for Lua");
  *static_cast<Types**>(lua_getextraspace(s.L)) = &s;
  limit_memory_of(s.L, *s.device);
  // All of it within a protected call: Lua reports a lack of memory as an error.
  lua_pushcfunction(s.L, [](lua_State* L) {
    State& own = state_of(L);
    open_libraries(L, own.options.unsafe);
    lua_newtable(L);
    open_tensors(L);
    open_ops(L);
    open_autograd(L);
    open_hooks(L);
    open_creation(L);
    open_optim(L);
    open_own_ops(L);
    open_audit(L);
    open_progress(L);
    open_random(L);
    open_device_names(L);
    open_names(L);
    open_capture(L);
    open_plans(L);
    open_blocks(L);
    open_classed(L);
    open_nn(L, own.options.network);
    open_doors(L, own.options.doors);
    open_missing(L, "gradus");
    open_functional(L);
    lua_setglobal(L, "gradus");
    lua_newtable(L);
    for (size_t i = 0; i < own.options.arguments.size(); ++i) {
      lua_pushstring(L, own.options.arguments[i].c_str());
      lua_rawseti(L, -2, int64_t(i + 1));
    }
    lua_setglobal(L, "arg");
    return 0;
  });
  if (const int status = lua_pcall(s.L, 0, 0, 0); status != LUA_OK) {
    const std::string text = lua_tostring(s.L, -1) ? lua_tostring(s.L, -1) : "?";
    lua_close(s.L);
    fail(ErrorKind::memory, "script", text);
  }
  // Most of a small script's heap is gradus itself, which every cycle walks: the next begins at
  // four times that heap, not at twice. The bytes of tensors count (push), so that is soon.
  lua_gc(s.L, LUA_GCINC, 400, 0, 0);
  if (limited(s)) lua_sethook(s.L, hook, LUA_MASKCOUNT, kHookEvery);
}

Script::~Script() {
  lua_sethook(state_->L, nullptr, 0, 0);
  forget_own_ops(state_->L);
  state_->open.reset();
  lua_close(state_->L);
  for (const State::Limited& d : state_->devices) d.device->pool().set_limit(d.limit);
}

const nn::NamedTensors& Script::leaves() const { return state_->leaves; }

void Script::run(const std::string& text, const std::string& name) {
  State& s = *state_;
  if (const int status = load_file(s, text, name); status != LUA_OK) raise(s, status, text);
  s.texts[name] = text;
  for (const std::string& a : s.options.arguments) lua_pushstring(s.L, a.c_str());
  run_chunk(s, int(s.options.arguments.size()), 0);
}

void Script::check(const std::string& text, const std::string& name) {
  if (const int status = load_file(*state_, text, name); status != LUA_OK)
    raise(*state_, status, text);
  lua_settop(state_->L, 0);
}

bool Script::run_line(const std::string& text) {
  State& s = *state_;
  lua_State* const L = s.L;
  s.over.clear();
  s.interrupted = s.due = s.out_of_memory = false;
  limited(s) ? lua_sethook(L, hook, LUA_MASKCOUNT, kHookEvery) : lua_sethook(L, nullptr, 0, 0);
  // As an expression first, so that nobody has to type `return`. What is begun as either goes on.
  if (load(s, "return " + text, "input") != LUA_OK) {
    const bool begun = is_begun(L);
    if (const int status = load(s, text, "input"); status != LUA_OK) {
      if (begun || (status == LUA_ERRSYNTAX && is_begun(L))) return lua_settop(L, 0), false;
      raise(s, status, text);
    }
    lua_remove(L, 1);
  }
  run_chunk(s, 0, LUA_MULTRET);
  if (lua_gettop(L) == 0) return true;
  lua_pushcfunction(L, show);
  lua_insert(L, 1);
  run_chunk(s, lua_gettop(L) - 1, 0);
  return true;
}

void Script::interrupt() {
  state_->interrupted = true;
  state_->due = true;
  lua_sethook(state_->L, hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

void Script::look_at_clock() { state_->due = true; }

}  // namespace gradus::lua
