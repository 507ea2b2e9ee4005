// Lua scripts over tensors: a state of Lua 5.4 with every op of the op list, in a sandbox with
// limits. What scripts may say stands in bindings/lua/manual.md.
// Threads: one Script is used by one thread; several may live in several threads.
#pragma once
#include "bindings/lua/paths.hpp"
#include "engine/op_info.hpp"
#include "ops/nn/module.hpp"

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gradus::inline v1::lua {

struct Limits {               // 0: none
  size_t memory = 0;          // bytes of the heap and of all devices, since its beginning
  double seconds = 0;         // of Lua code; a loop inside a C function is the caller's to end
  uint64_t instructions = 0;  // of Lua's machine, to the next thousand
};

// A function that the program offers to scripts as gradus.NAME: a table in, a table out, both as
// JSON, the latter with tensors of their own names.
struct Answer {
  std::string json = "{}";
  std::vector<std::pair<std::string, Tensor>> tensors{};
};
// What a door must keep to, as the script does.
struct Bounds {
  std::function<void(Device& device)> device;  // told of each before anything is made on it
  const Paths& paths;                          // that the script may touch
};
using Door = std::function<Answer(const std::string& json, const Bounds& bounds)>;

// Is this attribute an axis, which scripts count from 1?
bool is_axis(const OpInfo& op, const AttrSpec& spec);

// One line on a name of `gradus`, or on a method of tensors, that is no op; "" for others.
std::string help_line(const std::string& name);

// Layers as a config writes them (JSON), built for inputs like `probe`.
using NetworkBuilder = std::function<nn::Sequential(const std::string& layers, Tensor probe)>;

// When a script comes to backward(), gradus.grad() or what walks a graph in gradus.audit (backward,
// check, stepper), leaves it, or calls gradus.audit.mark.
enum class Moment { backward, walked, mark };
// Looks at the graph behind these roots, which has not been walked yet; seeds may be undefined or
// none. True: the script ends here, as at a limit, and run() returns.
using Looking = std::function<bool(const Tensors& roots, const Tensors& seeds, Moment moment)>;

// A loop of gradus.progress, as it stands.
struct LoopState {
  std::string text, values;  // its title; "loss 0.12" as the script says
  int64_t done = 0, total = 0;
  double seconds = 0;  // since it began
};
// Draws it; null: takes away what it drew.
using LoopView = std::function<void(const LoopState*)>;

struct ScriptOptions {
  bool unsafe = false;  // all of Lua's libraries, bytecode too
  Limits limits{};
  std::string folder = ".";  // its own, where `require` looks
  // Folders that it may touch in the sandbox beside its own and the working one; what it may write
  // it may read.
  std::vector<std::string> read{}, write{};
  std::vector<std::string> arguments{};  // the script's own: `...` and `arg`
  Device* device = nullptr;              // for new tensors; null: the default device
  std::map<std::string, Door> doors{};
  NetworkBuilder network{};     // gradus.nn; empty: there is none
  std::ostream* out = nullptr;  // of print; null: standard output
  LoopView progress{};          // empty: nobody looks
  Looking looking{};            // the same
};

class Script {
 public:
  explicit Script(const ScriptOptions& options);
  ~Script();
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // Runs Lua text; `name` stands for it in messages ("train.lua"). Error(config) for a syntax
  // error, Error(value) for a failure of the script, with its traceback below the first line;
  // Error(numeric) for a limit.
  void run(const std::string& text, const std::string& name);
  // Syntax alone.
  void check(const std::string& text, const std::string& name);

  // For a prompt. Runs one input: an expression prints its values, and the first is `_`.
  // False: the text is the beginning of something longer, nothing ran.
  bool run_line(const std::string& text);
  // Whole lines that continue what stands before the cursor: globals, fields, behind a dot
  // properties and behind a colon methods of tensors, networks and whatever else has some.
  std::vector<std::string> complete(const std::string& before);

  // Of a script that was ended by who looks at it: its leaves that require a gradient, by the names
  // of the variables that held them: "w", "first.b", "net.layers.0.weight".
  const nn::NamedTensors& leaves() const;
  // The lines around a place of a text that has been run ("train.lua:12"), as
  // audit::lines_around() writes them; "" if there is no such text.
  std::string source(const std::string& place) const;

  // Makes the running script stop with an error as soon as it is back in Lua code. May be called
  // from a signal handler.
  void interrupt();
  // Its next op looks whether its time is over. May be called from a signal handler.
  void look_at_clock();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gradus::lua
