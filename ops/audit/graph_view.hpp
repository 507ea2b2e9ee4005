// A recorded graph as plain data, for people and files: every node with its op, attributes, where
// its operands come from, what it saved, what it costs and where in the program it was recorded;
// and the backward program: which vjp runs when, of which ops it consists, and where gradients add
// up. read_graph() reads a live graph and leaves it as it was; everything else here only writes
// what it found. Knows no op by name, no JSON.
#pragma once
#include "engine/graph.hpp"
#include "ops/audit/tensor_stats.hpp"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gradus::audit {

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
};

struct GraphCall {
  const OpInfo* op = nullptr;
  std::vector<std::pair<std::string, std::string>> attrs;  // those that are not none
  std::vector<Source> inputs;
  std::vector<Value> outputs;
};

struct SavedTensor {
  std::string what;  // the operand's name, "y", or "extra"
  size_t bytes = 0;
  int storage = 0;      // equal numbers share memory
  bool counted = true;  // false: an older node's saved_bytes has it, or a leaf holds it anyway
  bool packed = false;  // by hooks or a checkpoint: who knows how much they keep; not counted
  bool read = true;     // did a vjp of this walk ask for it?
};

struct Node : GraphCall {
  std::vector<std::string> path;  // of the modules it was recorded in, outermost first
  std::vector<SavedTensor> saved;
  size_t saved_bytes = 0;         // those that are counted
  double flops = -1, bytes = -1;  // by OpInfo::cost; -1: not known
  double forward_ns = -1;         // in kernels
  double backward_ns = -1;        // of its vjp, in kernels
  int step = -1;                  // when backward comes to it; -1: never
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
};

using Names = std::vector<std::pair<std::string, Tensor>>;

// Notes what a graph does not keep: operands without a gradient, statistics of values, costs, time
// in kernels. Lives while the forward pass runs, in its thread.
class GraphRecorder {
 public:
  // With `values`, statistics of every value and gradient are taken: slow for large tensors.
  GraphRecorder(Device& device, bool values);
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

 private:
  friend class GraphReader;
  struct Note {
    Tensors operands;  // those that no node made; others are undefined
    Cost cost{-1, -1};
    double ns = -1;
    std::vector<TensorStats> outputs;
  };
  class Clock;
  void note(const OpContext& ctx, GradFn& node);

  Device& device_;
  bool values_;
  std::unordered_map<const GradFn*, Note> notes_;
  std::unique_ptr<Clock> clock_;
  std::optional<WrapperScope> scope_;
  std::optional<DetectAnomaly> traces_;
  CallListener listener_, *before_;
};

// Reads the graph behind `roots`, and walks backward through it: once timed if there is a recorder,
// once recorded. No .grad changes, nothing is freed. Leaves that have no name are called "leaf0".
// Error(autograd) for roots without history, or a graph that was freed.
GraphView read_graph(const Tensors& roots, const Names& names, GraphRecorder* seen = nullptr);

// ---- words for people, shared by the writers

std::string name_of(const GraphView& view, const Source& source);  // "%3", "layers.0.weight", "c1"
std::string type_text(const Value& value);                         // "f32[64,10]"
// "matmul(%5, layers.1.weight)"; long attributes are cut.
std::string call_text(const GraphView& view, const GraphCall& call);
// Formulas of the derivative, if the op is a statement: "dy/dx = y * (1 - y)".
std::vector<std::string> derivatives_of(const OpInfo& op);
std::string bytes_text(double bytes);  // "1.5 KiB"

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
