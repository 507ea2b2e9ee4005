#include "engine/modes.hpp"

namespace gradus::inline v1 {

Trace::Trace(std::string text) : text_(std::move(text)), innermost_(modes.trace, this) {}
std::string trace_text() {
  std::string text;
  for (const Trace* t = modes.trace; t; t = t->innermost_.before())
    text = text.empty() ? t->text_ : t->text_ + ", " + text;
  return text;
}
SavedTensorHooks::SavedTensorHooks(std::function<std::any(const Tensor&)> pack,
                                   std::function<Tensor(const std::any&)> unpack)
    : pack_(std::move(pack)),
      unpack_(std::move(unpack)),
      innermost_(modes.saved_tensor_hooks, this) {}

std::shared_ptr<Packed> pack(const Tensor& t, const char* op) {
  if (!modes.saved_tensor_hooks) return nullptr;
  if (t.tangent().defined())
    fail(ErrorKind::autograd, op, "a tensor ", t.sizes(),
         " with a tangent is saved, and saved-tensor hooks and checkpoints would lose the ",
         "tangent; use them outside of forward mode");
  // What the hooks themselves compute is saved as ever.
  const Scoped off(modes.saved_tensor_hooks, nullptr);
  const SavedTensorHooks& hooks = *off.before();
  // A copy (free until written): a later write in place does not reach it.
  return std::make_shared<Packed>(
      Packed{hooks.pack_(t.clone_data()), hooks.unpack_, t.sizes(), t.dtype()});
}

Tensor unpack(const Packed& p, const char* op, const char* what, size_t index) {
  const Tensor t = p.unpack(p.value);
  if (!t.defined() || !(t.sizes() == p.sizes) || t.dtype() != p.dtype)
    fail(ErrorKind::autograd, op, what, " ", int64_t(index), " was ", p.dtype, " ", p.sizes,
         ", the unpack hook gave ",
         t.defined() ? join(t.dtype(), " ", t.sizes()) : std::string("an undefined tensor"));
  return t;
}

}  // namespace gradus
