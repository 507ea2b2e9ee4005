// Forward mode: tangents, pushed through each op by its jvp as it is called. One level at a time
// per thread; its tangents vanish at its end, and no other thread sees them.
#pragma once
#include "engine/graph.hpp"

#include <unordered_map>

namespace gradus::inline v1 {

class ForwardLevel {
 public:
  ForwardLevel();  // Error(autograd) if one is open already
  ~ForwardLevel();
  ForwardLevel(const ForwardLevel&) = delete;
  ForwardLevel& operator=(const ForwardLevel&) = delete;
  // Gives x the tangent t (same shape and dtype) for the length of this level.
  void set_tangent(const Tensor& x, const Tensor& t);

 private:
  friend class GradFn;
  friend class Tensor;
  friend void give_tangent(const Tensor&, const Tensor&);
  bool has_set(const Edge& edge) const;  // did set_tangent() give it its tangent?
  struct Dual {
    Ref<Autograd> primal;  // kept: its address is the key
    Tensor tangent;
  };
  std::unordered_map<const Autograd*, Dual> tangents_;
  std::vector<Ref<Autograd>> set_;
  uint64_t start_;  // nodes before this one were recorded before the level
};
void give_tangent(const Tensor& x, const Tensor& t);  // into the open level; unchecked

inline constinit thread_local ForwardLevel* forward_level = nullptr;  // the open one
inline constinit thread_local bool inside_jvp = false;  // or in a user's forward: nothing is pushed
inline bool forward_mode() { return forward_level && !inside_jvp; }
// While it lives, ops push tangents also inside a jvp rule.
struct OutsideJvp : Scoped<bool> {
  OutsideJvp() : Scoped(inside_jvp, false) {}
};
// The tangents of the outputs, by the op's jvp rule.
void push_tangents(OpContext& ctx, GradFn& node);

}  // namespace gradus
