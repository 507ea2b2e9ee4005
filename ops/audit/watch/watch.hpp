// Watch: while it lives, every primitive call of its thread is kept with the values of its operands
// and outputs as they were. A node alone keeps only what its derivative reads; an audit, and the
// search for the birth of a NaN, want the rest. Values are copies on write, so they cost memory but
// no copying.
#pragma once
#include "ops/audit/watch/walk.hpp"

#include <deque>
#include <unordered_map>

namespace gradus::inline v1::audit {

struct Call {
  const OpInfo* op;
  Ref<GradFn> node;         // null: not recorded; then only the storages below are known
  Tensors inputs, outputs;  // values, without history
  std::string where;        // the open Traces
  bool grad_enabled;
  // What memory it read and made, and which operands had a history: how values travel through calls
  // that record nothing.
  struct Place {
    Ref<Storage> storage;  // null: a number, or an operand left out
    bool requires_grad = false;
    DType dtype = DType::f32;
  };
  std::vector<Place> read, made;

  // The tensor that an operand or output was, in words: "f32 (2, 3)".
  std::string shapes() const;
};

class Watch : public Observer {
 public:
  // In the order in which they ran.
  const std::deque<Call>& calls() const { return calls_; }
  // Of a node that was recorded under this watch; else nullptr.
  const Call* find(const GradFn* node) const;
  // The recorded calls below these roots, in order.
  std::vector<const Call*> below(const Tensors& roots) const;

 private:
  void called(const OpContext& call, GradFn* node) override;
  std::deque<Call> calls_;
  std::unordered_map<const GradFn*, const Call*> by_node_;
  ObserverScope listening_{*this};
};

}  // namespace gradus::audit
