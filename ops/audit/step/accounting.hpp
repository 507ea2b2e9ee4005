// Accounting: does backward keep its books? Read from a walk that a Stepper kept, and from what the
// leaves hold. Each check names the node or leaf:
//
//   sum     what a node (or leaf) got is, bit for bit, the sum of what its consumers sent, each
//   once turn    every node that was sent something has one turn, after all its consumers shape   a
//   cotangent has its operand's shape, after the sum over broadcast axes, dtype   and its dtype
//   alias   no .grad is memory that a node saved, a leaf's values, or another .grad
//   cycle   no node leads to itself, by its edges or by what it saved
//   leak    once the program lets go of all results, nobody else holds a node
#pragma once
#include "ops/audit/step/stepper.hpp"

namespace gradus::inline v1::audit {

struct Imbalance {
  std::string check;  // of the list above; "walk": a node failed; "hook": see `bad`
  std::string text;
  bool bad = true;  // false: worth knowing: a hook, or a set(), changed a cotangent
};
struct Account {
  std::vector<Imbalance> findings;
  size_t nodes = 0, leaves = 0, sums = 0, deliveries = 0;  // that were looked at
  size_t bad() const;
};
// All but `leak`. Reads .grad of the leaves as it is now: let backward() run before, for `alias`.
Account account(const Stepper& stepper);

// `leak`: call it when the program's own handles on the graph's tensors are gone, and with them
// steppers, watches and logs. Takes the last handles, in the order of recording.
std::vector<Imbalance> leaked(std::vector<Ref<GradFn>> nodes);

}  // namespace gradus::audit
