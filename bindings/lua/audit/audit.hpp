// What the functions of gradus.audit share: what they look at, and tables of answers.
#pragma once
#include "bindings/lua/state.hpp"
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/watch.hpp"

namespace gradus::inline v1::lua {

// A watch that scripts can ask while a function runs.
class OpenWatch {
 public:
  explicit OpenWatch(lua_State* L) : open_(types_of(L).watch, &watch_) {}

 private:
  const audit::Watch watch_{};
  Scoped<const audit::Watch*> open_;
};

// What the argument at 1 stands for; a function's tensors among its results are the roots.
struct Subject {
  std::optional<OpenWatch> own{};
  const audit::Watch* watch = nullptr;
  Tensors roots{};

  Subject(lua_State* L, const char* who);
  // Error(value) if the roots were made outside of any watch.
  const audit::Watch& watched(const char* who) const;
  static Tensors results_of(lua_State* L, int function);
  // For who looks at the script (ScriptOptions::looking): the roots' graph is about to be walked,
  // and has been; a watch of its own ends before that is told, since another may begin there.
  void begin_walk(lua_State* L) const;
  void end_walk(lua_State* L);
};

// Of the table on top.
void set_field(lua_State* L, const char* name, const std::string& text);
void set_field(lua_State* L, const char* name, double number);
void set_field(lua_State* L, const char* name, int64_t number);
void set_field(lua_State* L, const char* name, bool on);
void set_field(lua_State* L, const char* name, const Shape& subscript);  // from 1 on

// Are these all the options at 2? Error(value) with the nearest name.
void check_options(lua_State* L, const char* who, const std::vector<std::string>& known);
std::string text_option(lua_State* L, int options, const char* name);  // "" if there is none
bool flag_option(lua_State* L, int options, const char* name);

// The variables that the roots depend on.
nn::NamedTensors leaves_behind(lua_State* L, const Tensors& roots);

// A node's turn in backward, as a table.
struct TurnTold {
  std::string node, op, where;
  Tensors cotangents;  // undefined: none came
  struct Sent {
    int64_t operand;  // from 1
    std::string to;
    Tensor value;
    int64_t nth, of;  // of what is added up there
  };
  std::vector<Sent> sent;
};
void push(lua_State* L, const TurnTold& turn);

// Add to the table on top what looks at a step as a whole (audit_step.cpp), and the debugger
// (stepper.cpp).
void add_step_functions(lua_State* L);
void add_stepper(lua_State* L);

}  // namespace gradus::lua
