// What the files of this folder share: a state with its limits, functions of C++ as functions of
// Lua, tensors on Lua's stack.
//
// Errors. A function of Lua is bind<f>: what f throws becomes an error of Lua with the script's
// file and line before it. Lua's own errors are exceptions of no standard type and pass through f,
// whose destructors run; so nothing here may catch (...).
#pragma once
#include "bindings/heap/heap.hpp"
#include "bindings/lua/script.hpp"
#include "engine/device/device.hpp"
#include "engine/graph.hpp"
#include "ops/base/dtypes.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <lua.hpp>
#include <new>
#include <nlohmann/json_fwd.hpp>

namespace gradus::inline v1::audit {
class Watch;
}

namespace gradus::inline v1::lua {

// An error of Lua on its way through C++ code that called a Lua function: the error's value is kept
// in the registry.
class Raised : public std::exception {
 public:
  explicit Raised(lua_State* L) : key_(luaL_ref(L, LUA_REGISTRYINDEX)) {}  // pops the value
  void push(lua_State* L) const {
    lua_rawgeti(L, LUA_REGISTRYINDEX, key_);
    luaL_unref(L, LUA_REGISTRYINDEX, key_);
  }
  const char* what() const noexcept override { return "an error of Lua"; }

 private:
  int key_;
};

// The script's limit of memory holds on this device too, until the script's end.
void limit_memory_of(lua_State* L, Device& device);
// Does all that the script made fit under its limit, on the host and on other devices? Collects
// near the limit, where Lua's own emergency collection would come too late to free tensors.
// Error(memory).
void keep_limit(lua_State* L);
// Is the script's time over, or was it interrupted? Then an Error that no pcall swallows.
void keep_time(lua_State* L);

// May the script touch this file? Else Error(io).
const Paths& paths_of(lua_State* L);
void check_path(lua_State* L, const std::string& path, Access access);

// Pushes the text of an error after the place of the script it is raised at, "train.lua:12: ".
void push_error(lua_State* L, const char* text);

// Takes note of an interrupt, which no pcall may swallow, and of a lack of memory.
void note(lua_State* L, const Error& e);
// A block was refused: the text of that.
const char* note_refused(lua_State* L);

// In every loop over what a script gave, which may be endless without holding much.
inline void look_at_clock(lua_State* L);
// After every call: C++ code makes things that Lua knows nothing of.
inline void keep_limits(lua_State* L);

// The line of the script that runs, "train.lua:12", for the nodes recorded there. Made only while
// somebody looks on.
class ScriptLine {
 public:
  explicit ScriptLine(lua_State* L);

 private:
  std::optional<Trace> trace_{};
};

template <int (*F)(lua_State*)>
int bind(lua_State* L) {
  try {
    int results = 0;
    if (observer || detecting_anomaly()) [[unlikely]] {
      const ScriptLine here(L);
      results = F(L);
    } else {
      results = F(L);
    }
    keep_limits(L);
    return results;
  } catch (const Raised& e) {
    e.push(L);
  } catch (const Error& e) {
    const heap::Unbounded room;
    note(L, e);
    push_error(L, e.what());
  } catch (const std::bad_alloc&) {
    const heap::Unbounded room;
    push_error(L, note_refused(L));
  } catch (const std::exception& e) {
    const heap::Unbounded room;
    push_error(L, e.what());
  }
  return lua_error(L);
}

// The script's device: while Lua runs, that of new tensors.
Device& device_of(lua_State* L);

// Everything that nothing reaches any more is freed, tensors too.
void collect_all(lua_State* L);

// The same, and what pools keep of it goes back to the heap.
void make_room(lua_State* L);

// f(), and once more after that if the memory did not do.
template <class F>
auto with_room(lua_State* L, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;
  } catch (const std::bad_alloc&) {
  }
  make_room(L);
  return f();
}

// A message handler: keeps where an error was raised, for the script's traceback.
int keep_traceback(lua_State* L);
// Calls the function below its `arguments` values, as lua_call does, for C++ code that Lua's errors
// must not pass through unseen (engine code may have to put something back), and may have another
// device for new tensors.
inline void call(lua_State* L, int arguments, int results) {
  const DeviceScope scope(device_of(L));
  const int handler = lua_gettop(L) - arguments;
  lua_pushcfunction(L, keep_traceback);
  lua_insert(L, handler);
  const int status = lua_pcall(L, arguments, results, handler);
  lua_remove(L, handler);
  if (status != LUA_OK) throw Raised(L);
}

// ---- tensors

constexpr const char* kTensor = "gradus.Tensor";
inline constexpr char kBlockTensor[] = "gradus.BlockTensor";  // bindings/lua/blocks
inline constexpr char kLeg[] = "gradus.Leg";                  // the same
constexpr const char* kSizes = "gradus.Sizes";                // a table that prints as sizes do
struct Stepping;                                              // captured.hpp

// What is asked at every call, at the front of every Script::State.
struct Types {
  bool sandboxed = true;
  size_t look_above = SIZE_MAX;         // live bytes of the heap: then look at the limit
  size_t look_after = 0;                // bytes of tensors, the same; 0: they are in the heap
  size_t made = 0;                      // of tensors since the last look
  std::atomic<bool> due = false;        // look at the clock
  const audit::Watch* watch = nullptr;  // the innermost gradus.audit.watch
  Stepping* stepping = nullptr;         // the step of gradus.capture that runs
  size_t guards = 0;                    // of hooks (hooks.cpp), whose finalizers may revive tensors
  struct Late {
    const void* userdata;
    std::function<Tensor()> make;
  };
  std::vector<Late> late = {};  // tensors that nobody has looked at yet (push_late)
  std::shared_ptr<const bool> open = std::make_shared<const bool>(true);  // until the state closes
};
inline Types& types_of(lua_State* L) { return **static_cast<Types**>(lua_getextraspace(L)); }
inline void look_at_clock(lua_State* L) {
  if (types_of(L).due.load(std::memory_order_relaxed)) [[unlikely]]
    keep_time(L);
}
inline void keep_limits(lua_State* L) {
  look_at_clock(L);
  if (const Types& types = types_of(L); heap::live() > types.look_above) [[unlikely]]
    keep_limit(L);
}

// Pushes a tensor and lets the collector know of its bytes.
void push(lua_State* L, Tensor t);
void push(lua_State* L, Tensors list);  // one value each
// Pushes a tensor that is made when it is first looked at, so that it can be known whether it was.
// The caller keeps it on the stack and cuts Types::late back when that may no longer happen.
void push_late(lua_State* L, std::function<Tensor()> make);
// The tensor at an index, or nullptr if something else stands there.
Tensor* tensor_at(lua_State* L, int index);
// The first argument of a method, which must be a tensor; `what` is called.
Tensor self_at(lua_State* L, const char* what);
// A tensor, a number or a boolean; anything else is an error that names `what`.
Tensor operand_at(lua_State* L, int index, const char* what);
Tensors list_at(lua_State* L, int index, const char* what);  // a tensor, or a table of them
// f() with each element of the table at `index` on top of the stack, in order.
template <class F>
void each_of(lua_State* L, int index, F&& f) {
  const int at = lua_absindex(L, index);
  for (int64_t i = 1, n = int64_t(lua_rawlen(L, at)); i <= n; ++i, lua_pop(L, 1)) {
    look_at_clock(L);
    lua_rawgeti(L, at, i);
    f();
  }
}
// A whole number; floats like 2.0 are fine.
int64_t integer_at(lua_State* L, int index, const char* what);
// Of a number, a boolean, or tables of them; whole numbers give i64, others f32.
Tensor numbers_at(lua_State* L, int index, std::optional<DType> dtype = std::nullopt);
Shape sizes_at(lua_State* L, int index, const char* what);  // a number or a table of them
std::string kind_at(lua_State* L, int index);               // "a table", "nil", for messages

// A table, text, number or boolean as JSON.
nlohmann::json json_at(lua_State* L, int index, int depth = 0);

// An axis or a subscript as Lua counts, from 1 or from the end by negative numbers, to that of C++.
int64_t from_one(int64_t k, const char* what);
// f(), whose error about an axis says how both count.
template <class F>
auto saying_from_one(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::index || !e.message().starts_with("axis ")) throw;
    fail(e.kind(), e.op(), e.message(), "; here axes count from 0, in Lua from 1");
  }
}

const LoopView& loop_view(lua_State* L);

// ---- who looks at the script's graph (ScriptOptions::looking)
// Tells it; does not return if the script is to end here.
void look(lua_State* L, const Tensors& roots, const Tensors& seeds, Moment moment);
// Leaves that require a gradient, by the names of the variables that hold them in the running
// functions, their upvalues and the globals: "w", "first.b", "net.layers.0.weight".
nn::NamedTensors variables(lua_State* L);
// The network at an index, or nullptr.
const nn::Sequential* network_at(lua_State* L, int index);

// The lines around a place of a text that was run (Script::source).
std::string source_of(lua_State* L, const std::string& place);

// ---- the parts of `gradus`, which lies on top of the stack, and of tensors' methods
void open_tensors(lua_State* L);               // the type: subscripts, operators, properties
void open_properties(lua_State* L);            // what t.shape gives prints as it is meant
void open_ops(lua_State* L);                   // every op, as function and as method
void open_autograd(lua_State* L);              // backward, grad, no_grad, func
void open_creation(lua_State* L);              // tensor, zeros, randn, save, load, ...
void open_names(lua_State* L);                 // PyTorch's names for what is there
void open_random(lua_State* L);                // rand, randn, seed, ...
void open_device_names(lua_State* L);          // device, available, synchronize
void open_capture(lua_State* L);               // gradus.capture
void open_plans(lua_State* L);                 // gradus.einsum_plan
void open_blocks(lua_State* L);                // gradus.blocks
void open_classed(lua_State* L);               // gradus.diagonal_tensor, copy_tensor, ...
void open_functional(lua_State* L);            // gradus.nn.functional, and words for other globals
void open_optim(lua_State* L);                 // sgd, adam, adamw
void open_own_ops(lua_State* L);               // gradus.op
void open_audit(lua_State* L);                 // gradus.audit
void open_progress(lua_State* L);              // gradus.progress
void forget_own_ops(lua_State* L);             // of a main state that is about to be closed
void open_op(lua_State* L, const OpInfo& op);  // gradus.NAME, x:NAME(); pushes the function
void open_nn(lua_State* L, const NetworkBuilder& build);
void open_doors(lua_State* L, const std::map<std::string, Door>& doors);
void push_methods(lua_State* L);  // the table of tensors' methods
std::vector<const char*> tensor_properties();
bool push_property(lua_State* L, const Tensor& t, std::string_view name);  // false: no such one
void push_sizes(lua_State* L, const Shape& sizes);  // a table that prints as a shape does
// gradus.einsum of block tensors (bindings/lua/blocks): are there any among the arguments?
bool says_blocks(lua_State* L);
int einsum_of_blocks(lua_State* L);
// In the metatable of a type whose __index is a function: a table whose keys are its properties and
// methods, for completion.
constexpr const char* kNames = "gradus.names";

// t[key] and t[key] = value.
Tensor subscript(lua_State* L, const Tensor& t, int key);
void assign(lua_State* L, const Tensor& t, int key, int value);

}  // namespace gradus::lua
