// The graph is data. A GradFn holds its op's description, its input edges, what was saved and its
// attributes: no closures. It is built by record(), walked by backward()/grad(), and destroyed
// without recursion. Every primitive op runs in apply(), which records and pushes tangents.
#pragma once
#include "engine/modes.hpp"
#include "engine/op_info.hpp"

#include <atomic>
#include <initializer_list>
#include <memory>

namespace gradus::inline v1 {

// Where a cotangent goes: output `index` of node fn, or a leaf. Both null: nowhere.
struct Edge {
  Ref<GradFn> fn;
  Ref<Autograd> leaf;
  uint32_t index = 0;
  bool leads_somewhere() const { return fn || leaf; }
};

Edge edge_of(const Tensor& t);  // where t's cotangent goes, if it requires a gradient

struct TensorMeta {
  Shape sizes;
  DType dtype;
  Device* device;
};

// A tensor kept for vjp and jvp, with the version it had.
struct Saved {
  enum class Role : uint8_t { input, output, extra } role;
  uint32_t index;  // which input or output; the n-th extra
  Tensor tensor;   // an output is kept without its history (it would own itself)
  uint64_t version;
  std::shared_ptr<Packed> packed = nullptr;  // then `tensor` is undefined
  mutable bool read = false;                 // a note: has a vjp or jvp asked for it?
};

struct NodeHooks;

class GradFn : public RefCounted {
 public:
  const OpInfo& op() const { return *op_; }
  uint64_t sequence() const { return sequence_; }
  const Attrs& attrs() const { return *attrs_; }
  const SharedAttrs& shared_attrs() const { return attrs_; }
  std::span<const Edge> inputs() const { return {inputs_.data(), inputs_.size()}; }
  std::span<const TensorMeta> input_metas() const {
    return {input_metas_.data(), input_metas_.size()};
  }
  std::span<const TensorMeta> output_metas() const {
    return {output_metas_.data(), output_metas_.size()};
  }
  std::span<const Saved> saved() const { return {saved_.data(), saved_.size()}; }
  bool freed() const { return freed_; }
  [[noreturn]] void fail_freed() const;
  // Does operand k depend on a leaf that requires a gradient, or have a tangent?
  bool needs(size_t k) const { return needs_[k]; }

  NodeHooks& hooks();  // made on first need (hooks.hpp)
  NodeHooks* hooks_if_any() const { return hooks_.get(); }
  // Where it was recorded, if anomaly detection was on: the texts of the open Traces.
  std::string_view trace() const;

  // Saved tensors, unpacked: checks that they are still there and unchanged. Error(autograd).
  // Threads: several backward passes may unpack and free at once.
  Tensor input(size_t k);
  Tensor output(size_t k);
  Tensor extra(size_t k);
  const AttrValue& attr(size_t i) const { return attrs()[i]; }

  void free_saved();
  ~GradFn();

 private:
  friend class OpContext;
  friend void destroy(const GradFn*);
  friend Ref<GradFn> record(OpContext&);
  friend void push_tangents(OpContext&, GradFn&);
  friend void record_outputs(OpContext&);
  Tensor unpack(Saved::Role role, size_t index);
  Tensor with_history(const Tensor& t, Saved::Role role, size_t index);
  void pack_saved();

  const OpInfo* op_ = nullptr;
  uint64_t sequence_ = 0;
  SharedAttrs attrs_;
  SmallVector<Edge, 2> inputs_;
  SmallVector<TensorMeta, 2> input_metas_;
  SmallVector<TensorMeta, 1> output_metas_;
  SmallVector<Saved, 2> saved_;
  SmallVector<bool, 4> needs_;
  std::unique_ptr<NodeHooks> hooks_;
  Lock saved_lock_;
  mutable const GradFn* next_dying_ = nullptr;
  std::atomic<bool> freed_ = false;
  bool attached_ = false;  // outputs point here (false: made for its jvp alone)
};

// One call of a primitive op, as its forward sees it.
class OpContext {
 public:
  OpContext(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs);
  const OpInfo& op;
  std::span<const Tensor> inputs;
  const Attrs& attrs;
  const SharedAttrs* shared = nullptr;  // who holds attrs, for a node to hold them too
  Outputs outputs;

  // Will a derivative with respect to operand k (or any operand) be asked for?
  bool needs(size_t k) const { return needs_[k]; }
  bool needs_any() const { return any_; }
  // Keep for vjp/jvp, if a derivative will be asked for; outputs by index, once appended.
  void save_input(size_t k);
  void save_output(size_t k);
  void save(const Tensor& extra);

 private:
  friend Ref<GradFn> record(OpContext&);
  void keep(Saved::Role role, uint32_t index, const Tensor& t);
  SmallVector<bool, 4> needs_;
  bool any_ = false;
  SmallVector<Saved, 2> saved_;
  uint32_t extras_ = 0;
};

// The sequence number of the next node to be recorded.
uint64_t next_sequence();
// Records a call whose outputs stand in ctx already, and pushes tangents forward.
void record_outputs(OpContext& ctx);
// Runs the op, records it if a derivative can be asked for, and pushes tangents forward.
Outputs apply(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs = {},
              const SharedAttrs* shared = nullptr);
// As apply, for ops of one output.
Tensor apply1(const OpInfo& op, std::span<const Tensor> inputs, const Attrs& attrs = {});
inline Tensor apply1(const OpInfo& op, std::initializer_list<Uncounted> in, const Attrs& a = {}) {
  return apply1(op, Operands(in.size() ? &in.begin()->tensor : nullptr, in.size()), a);
}

// ---- reverse mode
struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;        // implies retain_graph
  bool allow_unused = false;        // grad(): undefined for inputs that are not in the graph
  bool materialize_grads = false;   // grad(): zeros for them
  const Tensors* inputs = nullptr;  // backward(): accumulate into these leaves only
};
// Adds d(sum of <seed, root>)/d(leaf) to .grad of every leaf (or of options.inputs). A seed may be
// undefined for one-element real roots (it is 1). Error(autograd) where PyTorch has one: no
// history, freed graph, wrong seed. Leaves get their gradients at the end; where any leaf has a
// post-accumulate hook, each as soon as no node that is left leads to it, and an error after that
// leaves it there. Within a call the order of every sum is fixed. Threads: calls that share nodes
// or leaves may run at once and no sum is lost, but three or more calls add to a leaf in no fixed
// order, so its last bits may differ; where they must not, add up what each thread's grad() gives.
void backward(const Tensors& roots, const Tensors& seeds = {}, BackwardOptions options = {});
void backward(const Tensor& root, BackwardOptions options = {});
// The same sums with respect to `inputs` (leaves or not), returned; .grad stays untouched.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& seeds = {},
             BackwardOptions options = {});

}  // namespace gradus
