// Hooks: functions of the user's that are called as gradients pass. On a tensor: with its gradient,
// before its node's own derivative, in the order of registration; what it returns, if defined,
// replaces the gradient. On a leaf: also after .grad was accumulated. On a node: before and after
// its derivative. A hook stays until it is removed or what it hangs on dies. Threads: hooks run in
// the thread that called backward.
#pragma once
#include "engine/graph.hpp"

namespace gradus {

using TensorHook = std::function<Tensor(const Tensor& grad)>;
using LeafHook = std::function<void(const Tensor& leaf)>;
using NodePreHook = std::function<void(Tensors& grad_outputs)>;
using NodeHook = std::function<void(Tensors& grad_inputs, const Tensors& grad_outputs)>;

// What registration gives back. Forgetting it leaves the hook in place.
class HookHandle {
 public:
  void remove() {
    if (remove_) remove_();
    remove_ = nullptr;
  }

 private:
  template <class F>
  friend class HookList;
  std::function<void()> remove_;
};

template <class F>
class HookList {
 public:
  HookHandle add(F f) {
    entries_->push_back({++last_, std::move(f)});
    HookHandle handle;
    handle.remove_ = [list = std::weak_ptr(entries_), id = last_] {
      if (const auto entries = list.lock())
        std::erase_if(*entries, [&](const Entry& e) { return e.id == id; });
    };
    return handle;
  }
  // A copy, so that a hook may add or remove hooks.
  std::vector<F> functions() const {
    std::vector<F> list;
    for (const Entry& e : *entries_) list.push_back(e.f);
    return list;
  }

 private:
  struct Entry {
    uint64_t id;
    F f;
  };
  std::shared_ptr<std::vector<Entry>> entries_ = std::make_shared<std::vector<Entry>>();
  uint64_t last_ = 0;
};

struct LeafHooks {
  HookList<TensorHook> grad;
  HookList<LeafHook> accumulated;
  TensorBody* leaf = nullptr;  // whose; cleared when it dies
};
struct NodeHooks {
  struct Output {
    HookList<TensorHook> grad;
    Ref<GradSlot> retained;
  };
  std::vector<Output> outputs;
  HookList<NodePreHook> before;
  HookList<NodeHook> after;
  std::string trace;  // GradFn::trace
};

// Told, in its thread, before a leaf's .grad is set or added to; null: nobody.
inline thread_local std::function<void(Autograd& leaf, bool set)>* grad_listener = nullptr;

// Error(autograd) for a tensor that requires no gradient.
HookHandle register_hook(const Tensor& t, TensorHook hook);
// Error(autograd) for anything but a leaf that requires a gradient.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, LeafHook hook);
HookHandle register_hook(GradFn& node, NodeHook hook);
HookHandle register_prehook(GradFn& node, NodePreHook hook);

// g after the hooks of a tensor; `where` is for messages.
Tensor run_hooks(const HookList<TensorHook>& hooks, Tensor g, const char* where);

}  // namespace gradus
