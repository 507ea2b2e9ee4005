// Gradients, hooks, forward mode.
#include "bindings/c/door.hpp"
#include "engine/forward.hpp"
#include "engine/hooks.hpp"

using namespace gradus;
using namespace gradus::c;

namespace {

BackwardOptions options_of(uint32_t flags) {
  constexpr uint32_t known =
      GRADUS_RETAIN_GRAPH | GRADUS_CREATE_GRAPH | GRADUS_ALLOW_UNUSED | GRADUS_MATERIALIZE_GRADS;
  if (flags & ~known) throw Refusal{GRADUS_VALUE, join("flags: unknown bits in ", flags)};
  BackwardOptions options;
  options.retain_graph = flags & GRADUS_RETAIN_GRAPH;
  options.create_graph = flags & GRADUS_CREATE_GRAPH;
  options.allow_unused = flags & GRADUS_ALLOW_UNUSED;
  options.materialize_grads = flags & GRADUS_MATERIALIZE_GRADS;
  return options;
}

// One for each root; 0 is undefined.
Tensors seeds_at(const gradus_tensor* seeds, size_t n) {
  Tensors out;
  for (size_t i = 0; seeds && i < n; ++i) out.push_back(maybe_tensor(seeds[i], {"seeds", i}));
  return out;
}

struct Hook : Object {
  explicit Hook(HookHandle h) : handle(std::move(h)) {}
  HookHandle handle;
};
gradus_hook hook_of(HookHandle installed) {
  try {
    return new_handle(Kind::hook, std::make_shared<Hook>(installed));
  } catch (...) {
    installed.remove();
    throw;
  }
}

thread_local std::unique_ptr<ForwardLevel> level;

}  // namespace

gradus_status gradus_set_requires_grad(gradus_tensor leaf, int32_t on) {
  return door("gradus_set_requires_grad",
              [&] { tensor_of(leaf, "leaf").set_requires_grad(on != 0); });
}
gradus_status gradus_requires_grad(gradus_tensor t, int32_t* out) {
  return result("gradus_requires_grad", out, [&] { return tensor_of(t, "t").requires_grad(); });
}
gradus_status gradus_retain_grad(gradus_tensor t) {
  return door("gradus_retain_grad", [&] { tensor_of(t, "t").retain_grad(); });
}
gradus_status gradus_detach(gradus_tensor t, gradus_tensor* out) {
  return result("gradus_detach", out, [&] { return handle_of(tensor_of(t, "t").detach()); });
}
gradus_status gradus_grad(gradus_tensor leaf, gradus_tensor* out) {
  return result("gradus_grad", out, [&] { return handle_of(tensor_of(leaf, "leaf").grad()); });
}
gradus_status gradus_set_grad(gradus_tensor leaf, gradus_tensor grad) {
  return door("gradus_set_grad",
              [&] { tensor_of(leaf, "leaf").set_grad(maybe_tensor(grad, "grad")); });
}

gradus_status gradus_backward(const gradus_tensor* roots, const gradus_tensor* seeds, size_t n,
                              uint32_t flags) {
  return door("gradus_backward", [&] {
    if (n == 0) throw Refusal{GRADUS_VALUE, "roots: there are none"};
    backward(tensors_at(roots, n, "roots"), seeds_at(seeds, n), options_of(flags));
  });
}
gradus_status gradus_gradients(const gradus_tensor* outputs, const gradus_tensor* seeds,
                               size_t n_outputs, const gradus_tensor* inputs, size_t n_inputs,
                               uint32_t flags, gradus_tensor* grads) {
  return door("gradus_gradients", [&] {
    array(grads, n_inputs, "grads");
    give(grad(tensors_at(outputs, n_outputs, "outputs"), tensors_at(inputs, n_inputs, "inputs"),
              seeds_at(seeds, n_outputs), options_of(flags)),
         grads);
  });
}

gradus_status gradus_set_grad_enabled(int32_t on, int32_t* before) {
  return door("gradus_set_grad_enabled", [&] {
    if (before) *before = modes.grad;
    modes.grad = on != 0;
  });
}

gradus_status gradus_register_hook(gradus_tensor t, gradus_hook_fn hook, void* user,
                                   gradus_destroy_fn destroy, gradus_hook* out) {
  return door("gradus_register_hook", [&] {
    need(out, "out");
    need(hook, "hook");
    const auto owned = user_of(user, destroy);
    *out = hook_of(register_hook(tensor_of(t, "t"), [hook, owned](const Tensor& g) {
      const Lent lent(g);
      Written replacement;
      call_back("hook", [&] { return hook(owned->user, lent.get(), replacement.data()); });
      return maybe_tensor(replacement[0], "the hook's replacement");
    }));
    owned->ours = true;
  });
}
gradus_status gradus_register_accumulate_hook(gradus_tensor leaf, gradus_leaf_hook_fn hook,
                                              void* user, gradus_destroy_fn destroy,
                                              gradus_hook* out) {
  return door("gradus_register_accumulate_hook", [&] {
    need(out, "out");
    need(hook, "hook");
    const auto owned = user_of(user, destroy);
    *out = hook_of(
        register_post_accumulate_grad_hook(tensor_of(leaf, "leaf"), [hook, owned](const Tensor& x) {
          const Lent lent(x);
          call_back("hook", [&] { return hook(owned->user, lent.get()); });
        }));
    owned->ours = true;
  });
}
gradus_status gradus_remove_hook(gradus_hook hook) {
  return door("gradus_remove_hook", [&] { object_at<Hook>(Kind::hook, hook)->handle.remove(); });
}

gradus_status gradus_forward_begin(void) {
  return door("gradus_forward_begin", [&] { level = std::make_unique<ForwardLevel>(); });
}
gradus_status gradus_forward_end(void) {
  return door("gradus_forward_end", [&] {
    if (inside_jvp)
      throw Refusal{GRADUS_AUTOGRAD, "within a jvp: the level is in use by the call under way"};
    if (!level) throw Refusal{GRADUS_AUTOGRAD, "no level is open in this thread"};
    level.reset();
  });
}
gradus_status gradus_set_tangent(gradus_tensor x, gradus_tensor tangent) {
  return door("gradus_set_tangent", [&] {
    if (!level)
      throw Refusal{GRADUS_AUTOGRAD,
                    "no level is open in this thread; call gradus_forward_begin()"};
    level->set_tangent(tensor_of(x, "x"), tensor_of(tangent, "tangent"));
  });
}
gradus_status gradus_tangent(gradus_tensor y, gradus_tensor* out) {
  return result("gradus_tangent", out, [&] { return handle_of(tensor_of(y, "y").tangent()); });
}
