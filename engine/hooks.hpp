// Hooks: functions of the user's that are called as gradients pass. On a tensor: with its gradient,
// before its node's own derivative, in the order of registration; what it returns, if defined,
// replaces the gradient. On a leaf: also after .grad was accumulated. On a node: before and after
// its derivative. A hook stays until it is removed or what it hangs on dies; those of a node, and
// of tensors that are no leaves, go with the saved tensors that backward frees, so they may hold
// the tensor they hang on. A hook that holds its own leaf keeps it alive until the hook is removed:
// use one that is given the leaf. Threads: hooks run in the thread that called backward.
#pragma once
#include "engine/graph.hpp"
#include "engine/base/lock.hpp"

#include <mutex>

namespace gradus::inline v1 {

using TensorHook = std::function<Tensor(const Tensor& grad)>;
using TensorAndGradHook = std::function<Tensor(const Tensor& t, const Tensor& grad)>;
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

// Threads: a hook may be removed while others run it.
template <class F>
class HookList {
 public:
  HookHandle add(F f) {
    const auto hook = std::make_shared<const F>(std::move(f));
    {
      const std::lock_guard lock(shared_->lock);
      shared_->list.push_back(hook);
    }
    HookHandle handle;
    handle.remove_ = [from = std::weak_ptr(shared_), gone = std::weak_ptr(hook)] {
      const auto shared = from.lock();
      const auto dead = gone.lock();  // what it holds dies outside of the lock
      if (!shared) return;
      const std::lock_guard lock(shared->lock);
      std::erase(shared->list, dead);
    };
    return handle;
  }
  // A copy, so that a hook may add or remove hooks.
  std::vector<std::shared_ptr<const F>> functions() const {
    const std::lock_guard lock(shared_->lock);
    return shared_->list;
  }
  bool clear() {  // were there any?
    std::vector<std::shared_ptr<const F>> gone;
    const std::lock_guard lock(shared_->lock);
    gone.swap(shared_->list);
    return !gone.empty();
  }

 private:
  struct Shared {
    Lock lock;
    std::vector<std::shared_ptr<const F>> list;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

struct LeafHooks {
  ~LeafHooks();
  // Has any leaf a post-accumulate hook? Then backward looks for when its gradient is complete.
  static bool any_accumulated();
  void count_accumulated();
  HookList<TensorHook> grad;
  HookList<LeafHook> accumulated;
  Tensor elements;  // the leaf's, without what it knows of autograd: its handles may be gone
  static Tensor handle_on(Autograd& leaf);  // made anew
  bool counted = false;
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

  std::atomic<bool> cleared = false;

  void clear();  // drops all functions
};

// Held while a .grad is read or replaced, never while ops or hooks run.
Lock& grad_lock(const Tensor* grad);
// Held by the thread that adds to a .grad or sets it. What runs meanwhile may add to it again.
std::recursive_mutex& grad_turn(const Tensor* grad);

// Adds g to a .grad, which other threads may read and add to. `own`: no other tensor has g's
// memory.
void accumulate(Tensor& grad, Tensor g, bool own, bool in_place);

// Error(autograd) for a tensor that requires no gradient.
HookHandle register_hook(const Tensor& t, TensorHook hook);
HookHandle register_hook(const Tensor& t, TensorAndGradHook hook);  // given t too
// Error(autograd) for anything but a leaf that requires a gradient.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, LeafHook hook);
HookHandle register_hook(GradFn& node, NodeHook hook);
HookHandle register_prehook(GradFn& node, NodePreHook hook);

// g after the hooks of a tensor; `where` is for messages.
Tensor run_hooks(const HookList<TensorHook>& hooks, Tensor g, const char* where);

}  // namespace gradus
