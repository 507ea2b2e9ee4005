// Stepper: backward of a live graph one node at a time, forwards and back, with breakpoints and
// cotangents set by hand. The engine's own walk runs once, with hooks on every node that keep what
// went in and came out; a position then moves along what was kept. So order, sums and bits are
// those of backward(), and going back is free. Cotangents are handles, never written to; all of
// them stay until the stepper dies, which is as much memory as the forward pass made.
#pragma once
#include "ops/audit/watch/watch.hpp"

#include <exception>
#include <map>
#include <string>
#include <unordered_map>

namespace gradus::inline v1::audit {

// One node's turn.
struct Turn {
  int node;     // of Stepper::nodes()
  Tensors in;   // cotangents of its outputs, summed; undefined: zero
  Tensors out;  // cotangents of its operands in their shape; undefined: none, or nobody asks
  std::vector<const OpInfo*> calls;  // the ops that its vjp ran, in order
};

// Where a cotangent is added: output `output` of a node, or a leaf.
struct Place {
  bool leaf = false;
  int id = 0, output = 0;  // of nodes() or leaves()
  auto operator<=>(const Place&) const = default;
};
// What was added: by turn `turn` through operand `operand`, or the seed of root `operand` (turn
// -1).
struct Delivery {
  int turn, operand;
};

struct Breakpoint {
  enum class Kind {
    node,  // before the turn of `node`
    op,    // before turns of ops named `text`
    path,  // before turns of nodes recorded in the module `text`, or in one of its own
    norm,  // after a turn that made a cotangent of a norm above `bound`, or of none
    nan    // after a turn that made one with a NaN or an infinity
  } kind;
  int node = -1;
  std::string text{};
  double bound = 0;
};

class Stepper {
 public:
  // Roots that are not scalars want seeds, or take ones. Leaves without a name are "leaf0", ...
  // No .grad changes (of retain_grad neither), nothing is freed. Hooks of the graph run, once, and
  // once more for every set(). Error(autograd) for roots without history.
  explicit Stepper(const Tensors& roots, const Names& names = {}, const Tensors& seeds = {});

  // All nodes behind the roots, in the order of recording.
  const std::vector<Ref<GradFn>>& nodes() const { return nodes_; }
  const Names& leaves() const { return leaves_; }
  const Tensors& roots() const { return roots_; }
  const Tensors& seeds() const { return seeds_; }
  Place place_of(const Tensor& root) const;
  // All turns, in the order of backward; if a node fails, those before it.
  const std::vector<Turn>& turns() const { return turns_; }
  // Why the walk ended early: what the failing node threw; its id, or -1.
  const std::string& error() const { return error_; }
  int failed_node() const { return failed_; }

  // How many turns are taken.
  size_t position() const { return position_; }
  bool at_end() const { return position_ == turns_.size(); }
  // The turn that comes next; nullptr at the end.
  const Turn* upcoming() const { return at_end() ? nullptr : &turns_[position_]; }
  // One turn. False at the end, or the begin. Error, as the walk threw it, where a node fails.
  bool next();
  bool back();
  // Takes turns until a breakpoint of the list stops it; its place in the list, or -1 at the end.
  // A turn that it stands before already does not stop it. Error as next().
  int run(const std::vector<Breakpoint>& breakpoints);
  // Does it stop a walk that stands here and has just come to it? The text says why; "" if not.
  std::string stops(const Breakpoint& breakpoint) const;

  // A leaf by its name, an output of a node as "%7" or "%7.1". Error(value) with the nearest name.
  Place find(const std::string& name) const;
  int find_node(const std::string& name) const;  // Error(value) for a leaf, too
  // Breakpoints, known to be of this graph: Error(value) with the nearest name.
  Breakpoint at_node(const std::string& name) const;
  Breakpoint at_op(const std::string& name) const;
  Breakpoint at_path(const std::string& name) const;
  std::vector<std::string> ops() const;       // of the nodes, sorted, each once
  std::vector<std::string> paths() const;     // the modules in which nodes were recorded, the same
  std::string name_of(const Place& p) const;  // "%7", "%7.1", "layers.0.weight"
  std::string name_of(int node) const;        // "%7 add"
  std::string call_text(int node) const;      // "%7:f32[64,10] = add(%6, layers.2.bias)"

  // When a node's turn comes; -1: never.
  int turn_of(int node) const { return turn_of_[size_t(node)]; }
  // What is added at a place in the whole walk, in the order of addition.
  const std::vector<Delivery>& deliveries(const Place& to) const;
  // Where operand `operand` of a node sends its cotangent; nothing: nowhere.
  std::optional<Place> target(int node, int operand) const;
  // The value that was delivered.
  Tensor delivered(const Delivery& d) const;
  // What stands there now: the sum of what came until this position (of a node whose turn is next
  // or past: what its vjp reads). Undefined: nothing came. At the end, a leaf's gradient as grad()
  // returns it.
  Tensor cotangent(const Place& at) const;
  size_t arrived(const Place& at) const;  // deliveries until now

  // The vjp of `node` will read this instead, from now on. Its turn must not be past; shape and
  // dtype must be the output's. Error(value | shape | dtype).
  void set(int node, int output, const Tensor& value);
  void unset(int node, int output);
  bool edited() const { return !edits_.empty(); }
  bool is_set(int node, int output) const { return edits_.contains({node, output}); }

 private:
  void name_leaves(const Names& names);
  void walk();
  void check_ahead(int node, int output) const;

  Tensors roots_, seeds_;
  std::vector<Ref<GradFn>> nodes_;
  std::unordered_map<const GradFn*, int> ids_;
  Names leaves_;
  std::unordered_map<const Autograd*, int> leaf_ids_;
  std::map<std::pair<int, int>, Tensor> edits_;

  std::vector<Turn> turns_;
  std::vector<int> turn_of_;
  std::map<Place, std::vector<Delivery>> deliveries_;
  Tensors gradients_;  // of leaves; empty after a failure
  std::string error_;
  std::exception_ptr thrown_;
  int failed_ = -1;
  size_t position_ = 0;
};

// In f64; NaN or infinite if an element is.
double norm_of(const Tensor& t);

}  // namespace gradus::audit
