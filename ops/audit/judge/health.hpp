// Does it learn, and what of it is dead? Of each leaf: how large its gradient is, how much of it is
// zero, how far an update moved it. Of each activation, that is a node of one real operand and a
// value for each of its elements: where its slope is zero, and where it is saturated. Knows no op
// by name.
//
// What is called a sign of illness, and the bound:
//   no gradient   the roots do not depend on the leaf
//   not finite    an element of the gradient is NaN or infinite
//   zero          the whole gradient is
//   vanishing     its root mean square is below kVanishing of the largest of all leaves
//   exploding     of a leaf of two or more axes that is not zero, if the roots are single numbers,
//                 as losses are: its norm is above kExploding times the leaf's
//   leaps         of such a leaf: an update moved it by more than kLeap of its norm
//   stands still  ... by less than kStill, the unit roundoff of f32
//   dead          an activation whose slope is zero in more than kDead of its units, for all of at
//                 least kSeen elements of each; a unit is a place along the last axis, of four and
//                 more axes along axis 1, of one axis or none all of it
//   saturated     an activation of bounded values whose slope is below kFlat in more than
//                 kSaturated of its elements, and not zero in all
#pragma once
#include "ops/audit/step/graph_view.hpp"

namespace gradus::inline v1::audit {

inline constexpr double kVanishing = 1e-4, kExploding = 100, kLeap = 0.5, kStill = 6e-8;
inline constexpr double kFlat = 0.05, kSaturated = 0.9, kDead = 0.5;
inline constexpr int64_t kSeen = 16;

struct LeafHealth {
  std::string name;
  TensorStats value{}, gradient{};  // gradient.count 0: there is none
  int64_t axes = 0;
  double moved = -1;   // |update| / |value before|; -1: none was seen
  std::string sign{};  // "" for none
  double rms() const;  // of the gradient's finite elements
};
struct NodeHealth {
  int node = 0;  // %node, in the order of recording
  const OpInfo* op = nullptr;
  std::string where{};  // the open Traces, if the graph was recorded under DetectAnomaly
  double zero = 0;      // share of elements whose slope is 0
  double flat = -1;     // share of those whose slope is below kFlat; -1: values are not bounded
  int64_t elements = 0;
  int64_t units = 0, dead = 0;  // 0: it has one axis, or none
  std::string sign{};
};
struct Health {
  std::vector<LeafHealth> leaves;
  std::vector<NodeHealth> nodes;
  double gradient_norm = 0;  // of all leaves together
  double largest_rms = 0;    // of their gradients
  bool sound() const;        // no sign in any of them
};

// The step behind the roots: walks backward through it, keeps the graph, and changes no .grad.
// Error(autograd) as grad() for roots without history, or a graph that was freed.
Health health_of(const Tensors& roots, const Names& leaves, const Tensors& seeds = {});

// The parts of it, for who has the gradients already. `gain` is what a gradient still has to be
// multiplied by (loss scaling); its first elements stay as they are. judge() fills in signs,
// gradient_norm and largest_rms; `losses`: the roots are single numbers.
std::vector<NodeHealth> node_health(const Tensors& roots);
LeafHealth leaf_health(const std::string& name, const Tensor& value, const Tensor& gradient,
                       double gain = 1);
// |after - before| / |before|; infinite if before is all zero and after is not.
double moved(const Tensor& before, const Tensor& after);
void judge(Health& health, bool losses = true);

}  // namespace gradus::audit
