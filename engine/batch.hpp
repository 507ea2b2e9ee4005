// Batched tensors: what vmap maps over. A batched tensor looks like one example and holds the
// examples of all, a physical tensor with the batch as axis 0. apply() hands an op with such an
// operand to its batching rule, which runs ops on physical tensors; so the graph holds physical
// tensors alone, and requires_grad, history and tangent of a batched tensor are those of its
// physical one. Levels nest: the physical tensor of an inner level may be batched at an outer one,
// never the other way.
#pragma once
#include "engine/graph.hpp"

namespace gradus::inline v1 {

// The vmap that a batched tensor belongs to, and the examples of all.
struct BatchLevel {
  uint64_t id;
  int depth;
  int64_t size;
};
struct Batch : RefCounted {
  Tensor physical;
  BatchLevel level;
};

enum class Randomness : uint8_t { error, same, different };

// A vmap that is running in this thread; the innermost is current().
class BatchScope {
 public:
  BatchScope(int64_t size, Randomness randomness);
  ~BatchScope();
  BatchScope(const BatchScope&) = delete;
  BatchScope& operator=(const BatchScope&) = delete;
  static const BatchScope* current();
  const BatchLevel level;
  const Randomness randomness;
  const BatchScope* const outer;
};

// One call of an op, as its batching rule sees it. Gives physical outputs, the batch as axis 0.
struct BatchCall {
  const OpInfo& op;
  std::span<const Tensor> in;           // physical
  const SmallVector<bool, 4>& batched;  // which of them have the batch as axis 0
  const Attrs& attrs;                   // of one example
  const BatchScope& scope;
};
// For ops without a rule.
void set_batch_fallback(Outputs (*rule)(const BatchCall&));

inline bool is_batched(const Tensor& t) { return t.defined() && t.body()->batch; }
bool is_batched_at(const Tensor& t, const BatchLevel& level);
// The batch of this level as axis 0 (repeated if t has none), and back again.
Tensor unwrapped(const Tensor& t, const BatchLevel& level);
Tensor wrapped(const Tensor& physical, const BatchLevel& level);
// Batched at every level that is open, so that each example has a gradient of its own.
Tensor lifted(const Tensor& t);

// What apply() and grad() do where a tensor is batched.
const BatchScope* batch_scope_of(const OpInfo& op, std::span<const Tensor> inputs);
Outputs apply_batched(const BatchScope& scope, const OpInfo& op, std::span<const Tensor> inputs,
                      const Attrs& attrs);
bool any_batched(std::span<const Tensor> tensors);
Tensors grad_batched(const Tensors& outputs, const Tensors& inputs, const Tensors& seeds,
                     BackwardOptions options);

}  // namespace gradus
