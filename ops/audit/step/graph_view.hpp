// A recorded graph as plain data, for people and files: every node with its op, attributes, where
// its operands come from, what it saved, what it costs and where in the program it was recorded;
// and the backward program: which vjp runs when, of which ops it consists, and where gradients add
// up. read_graph() reads a live graph and leaves it as it was; everything else here only writes
// what it found. Knows no op by name, no JSON.
#pragma once
#include "ops/audit/watch/tensor_stats.hpp"
#include "ops/audit/watch/walk.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gradus::inline v1::audit {

// Where an operand comes from.
struct Source {
  enum class Kind : uint8_t {
    absent,     // an optional operand that was left out
    node,       // output of the forward node `id`
    leaf,       // leaves[id]
    constant,   // constants[id]: no gradient was asked for
    cotangent,  // the gradient of output `output` of the forward node `id`
    seed,       // where backward begins: the cotangent of roots[id]
    call,       // output of the backward call `id`
  } kind = Kind::absent;
  int id = 0, output = 0;
};

struct Value {
  Shape sizes;
  DType dtype = DType::f32;
  TensorStats stats;     // count 0: not looked at
  TensorStats gradient;  // the same; of forward values and leaves
  int storage = -1;      // as SavedTensor::storage, if a node saved this memory; of forward values
  Shape strides{};       // where they are known and not row-major
};

struct GraphCall {
  const OpInfo* op = nullptr;
  std::vector<std::pair<std::string, std::string>> attrs;  // those that are not none
  std::string note{};  // "permute into + {0: 2} - {0: 2}, 1 block": what attributes don't show
  std::vector<Source> inputs;
  std::vector<Value> outputs;
};

struct SavedTensor {
  std::string what;  // the operand's name, "y", or "extra"
  size_t bytes = 0;
  int storage = 0;       // equal numbers share memory
  bool counted = true;   // false: an older node's saved_bytes has it, or a leaf holds it anyway
  bool packed = false;   // by hooks or a checkpoint: who knows how much they keep; not counted
  bool read = true;      // did a vjp of this walk ask for it?
  uint64_t version = 0;  // of its memory when it was saved: writes in place until then
  // Operands whose vjp asks for it; known where there was a recorder.
  std::vector<int> read_by{};
  Shape sizes{};
  DType dtype = DType::f32;
};

// What an audit says of a node (audit.hpp).
struct NodeVerdict {
  std::string verdict;  // as to_text(Verdict)
  bool bad = false;
  double error = 0, tolerance = 0;
  std::string text;
};

struct Node : GraphCall {
  std::vector<std::string> path;  // of the modules it was recorded in, outermost first
  std::vector<SavedTensor> saved;
  // Its derivative as formulas, where there was a recorder; a statement's are its op's.
  std::vector<std::string> derivatives{};
  size_t saved_bytes = 0;      // those that are counted
  double flops = -1;           // by OpInfo::cost; -1: not known, here and below
  double bytes = -1;           // that the views of its kernel calls cover, read and written
  double forward_ns = -1;      // in kernels
  double backward_flops = -1;  // of the ops of its vjp
  double backward_bytes = -1, backward_ns = -1;  // of its vjp, in kernels
  int step = -1;                                 // when backward comes to it; -1: never
  std::optional<NodeVerdict> verdict{};
  bool trivial() const;  // moves or renames numbers: views, casts, copies
};

struct Leaf {
  std::string name;
  Value value;
  int uses = 0;
};

struct Constant {
  std::string name;  // "c0"; of one number, the number
  Value value;
  bool backward = false;  // made there
  bool number = false;    // it is one: its name says all
};

// One node's turn in backward.
struct BackwardStep {
  int node = 0;
  std::vector<std::pair<int, Source>> cotangents;  // output, and what its gradient is
  int first_call = 0, sums = 0, calls = 0;         // of backward_calls: `sums` of them add up
                                                   // the cotangents, the rest is the vjp
  struct Delivery {
    int operand;
    Source to;     // node or leaf
    Source value;  // what is added there
    int nth = 1, of = 1;
  };
  std::vector<Delivery> deliveries;
  size_t saved_bytes_left = 0;  // of all nodes, after this one lets go of its own
};

// Memory while one primitive call of the forward ran, or while backward was at one node. In bytes
// above what lay on the device before.
struct MemoryMoment {
  bool backward = false;
  int node = -1;  // -1: a call that was not recorded, or is not behind the roots
  std::string op;
  size_t peak = 0, live = 0;  // the most during it, what was left after it
};
// Memory by the op that asked for it.
struct MemoryOfOp {
  std::string op;
  size_t forward = 0, backward = 0;  // bytes allocated in each pass
  size_t between = 0, at_peak = 0;   // those of them that live between the passes, and at the peak
};
struct MemoryProfile {
  size_t before = 0;  // bytes that lay there
  std::vector<MemoryMoment> moments;
  std::vector<MemoryOfOp> ops;  // those that hold the most at the peak first
};

// What this machine can do, measured (cost.hpp).
struct MachinePeaks {
  double flops = 0, bytes = 0;  // per second
  int64_t matrix = 0;           // rows of the square matrices that gave `flops`
  size_t copied = 0;            // bytes of the copy that gave `bytes`
  DType dtype = DType::f32;
};

// What an audit says of the whole.
struct Finding {
  std::string kind;  // "birth" of a NaN, "unreached" or "zero" parameter
  int node = -1;     // -1: none of the graph's
  std::string text;
};

struct GraphView {
  std::string title, device;
  std::vector<Node> nodes;  // in the order of recording
  std::vector<Leaf> leaves;
  std::vector<Constant> constants;
  std::vector<Source> roots;
  size_t saved_bytes = 0;
  std::vector<BackwardStep> steps;
  std::vector<GraphCall> backward_calls;
  int first_leaf_sum = 0;              // backward_calls from here on add up gradients of leaves
  std::vector<Source> leaf_gradients;  // absent: none
  // Filled by those who measured; read_graph() leaves them empty.
  std::optional<MemoryProfile> memory;
  std::optional<MachinePeaks> peaks;
  std::optional<std::vector<Finding>> findings;
  std::map<std::string, std::string> sources;  // of places in Node::path: the program there
};

// Notes what a graph does not keep: operands without a gradient, statistics of values, costs, time
// in kernels. Lives while the forward pass runs, in its thread.
class GraphRecorder : public Observer {
 public:
  // With `values`, statistics of every value and gradient are taken: slow for large tensors.
  GraphRecorder(Device& device, bool values);
  ~GraphRecorder();

 private:
  friend class GraphReader;
  struct Note {
    Tensors operands;  // those that no node made; others are undefined
    double flops = -1, bytes = -1, ns = -1;
    std::vector<TensorStats> outputs;
    std::vector<uint64_t> buffers;  // of the outputs
    std::vector<Shape> strides;     // the same, as in Value
  };
  class Clock;
  void called(const OpContext& ctx, GradFn* node) override;
  void note(const OpContext& ctx, GradFn& node);

  Device& device_;
  bool values_;
  std::unordered_map<const GradFn*, Note> notes_;
  std::unique_ptr<Clock> clock_;
  std::optional<WrapperScope> scope_;
  std::optional<DetectAnomaly> traces_;
  ObserverScope listening_{*this};
};

// Reads the graph behind `roots`, and walks backward through it: once timed if there is a recorder,
// once recorded. No .grad changes, nothing is freed. Leaves that have no name are called "leaf0".
// Error(autograd) for roots without history, or a graph that was freed.
GraphView read_graph(const Tensors& roots, const Names& names, GraphRecorder* seen = nullptr);

// Fills in `sources`: what `source` says of every place, "" for nothing.
void add_sources(GraphView& view, const std::function<std::string(const std::string&)>& source);
// Line `line` (from 1) of a program and some around it, numbered, with a mark; "" if there is none.
std::string lines_around(const std::string& program, int64_t line);

// ---- words for people, shared by the writers

std::string name_of(const GraphView& view, const Source& source);  // "%3", "layers.0.weight", "c1"
std::string type_text(const Value& value);                         // "f32[64,10]"
// "matmul(%5, layers.1.weight)"; long attributes are cut.
std::string call_text(const GraphView& view, const GraphCall& call);
std::string bytes_text(double bytes);  // "1.5 KiB"; halves go up, as in the page
std::string plural(size_t n, const char* one, const char* more = nullptr);  // "1 node", "2 nodes"
std::string count_text(double n, const char* unit);                         // "1.2 Mflop"
std::string module_of(const Node& node);                                    // the innermost, or ""

// ---- writers

// Both passes, like a jaxpr: each node on a line, then the vjps in the order of the walk.
std::string to_text(const GraphView& view);
// For Graphviz; modules are clusters.
std::string to_dot(const GraphView& view);
// Everything there is, as one JSON object of the format "gradus.graph/1".
std::string to_json(const GraphView& view);
// The picture, all modules open.
std::string to_svg(const GraphView& view);
// A page that stands alone: fold, find, what there is to say of a node, backward step by step.
std::string to_html(const GraphView& view);

}  // namespace gradus::audit
