// A graph from its roots back: its nodes, and what it takes to look on while the engine's own walk
// goes through them. So nothing that looks at a backward has order, sums or bits of its own.
#pragma once
#include "engine/hooks.hpp"

namespace gradus::inline v1::audit {

// The nodes behind these tensors, watched or not, in the order of recording: %0, %1, ... of every
// command. Those that are `known`, and what lies behind them, are left out.
std::vector<Ref<GradFn>> nodes_behind(const Tensors& roots,
                                      const std::function<bool(const GradFn*)>& known = {});

// Where backward begins: the cotangents of the roots, ones for those that are undefined or missing.
Tensors seeds_or_ones(const Tensors& roots, const Tensors& seeds = {});

// Leaves, by the names that the program gives them.
using Names = std::vector<std::pair<std::string, Tensor>>;

// A tensor of zeros that stands for a leaf whose own handle nobody gave.
Tensor handle_of(const Ref<Autograd>& leaf, const TensorMeta& meta);

// Hooks on all these nodes for the length of a walk: told of each turn, by the node's place in the
// list, before its vjp and after it.
class Hooked {
 public:
  using Before = std::function<void(int node, Tensors& came)>;  // cotangents of its outputs
  using After = std::function<void(int node, const Tensors& sent, const Tensors& came)>;
  Hooked(const std::vector<Ref<GradFn>>& nodes, const Before& before, const After& after = {});
  ~Hooked();
  Hooked(const Hooked&) = delete;

 private:
  std::vector<HookHandle> handles_;
};

// Puts back, at its end, what retain_grad had kept at these nodes: a walk adds to it.
class RetainedAsBefore {
 public:
  explicit RetainedAsBefore(const std::vector<Ref<GradFn>>& nodes);
  ~RetainedAsBefore();

 private:
  std::vector<std::pair<Ref<GradSlot>, Tensor>> before_;
};

// The same of a node's notes of who asked for what it saved: to look is not to ask.
class ReadNotes {
 public:
  explicit ReadNotes(const GradFn& node);
  ~ReadNotes();

 private:
  const GradFn& node_;
  std::vector<bool> read_;
};

}  // namespace gradus::audit
