// Modes: settings of this thread for the length of a scope. Are ops recorded, may their results be
// used in recorded ops later, does backward stop at a NaN, where in the program are ops called, and
// how are tensors saved?
#pragma once
#include "engine/base/scoped.hpp"
#include "engine/tensor.hpp"

#include <any>
#include <functional>
#include <memory>
#include <string>

namespace gradus::inline v1 {

class Trace;
class SavedTensorHooks;
struct Modes {
  bool grad = true, inference = false, anomaly = false;
  Trace* trace = nullptr;  // the innermost one, and the innermost hooks
  SavedTensorHooks* saved_tensor_hooks = nullptr;
};
inline constinit thread_local Modes modes;

inline bool grad_enabled() { return modes.grad; }
struct NoGrad : Scoped<bool> {
  NoGrad() : Scoped(modes.grad, false) {}
};
struct EnableGrad : Scoped<bool> {
  EnableGrad() : Scoped(modes.grad, true) {}
};
// No recording, and what is made here never takes part in it later: inference tensors can't be
// saved for backward, nor written in place outside. clone() makes a normal one.
inline bool inference_mode() { return modes.inference; }
class InferenceMode {
  const NoGrad off_{};
  const Scoped<bool> on_{modes.inference, true};
};
// Backward stops at the first cotangent with a NaN, and names the op and where it was recorded.
inline bool detecting_anomaly() { return modes.anomaly; }
struct DetectAnomaly : Scoped<bool> {
  DetectAnomaly() : Scoped(modes.anomaly, true) {}
};
// A place in the user's program ("layer 2"), for the traces of nodes; they nest.
class Trace {
 public:
  explicit Trace(std::string text);

 private:
  friend std::string trace_text();
  std::string text_;
  Scoped<Trace*> innermost_;
};
std::string trace_text();  // of those that are open
// What saved-tensor hooks keep in place of a tensor, and how it comes back.
struct Packed {
  std::any value;
  std::function<Tensor(const std::any&)> unpack;
  Shape sizes;
  DType dtype;
};

// While it lives, tensors saved for backward are packed by the first function and come back by the
// second, which must give the same sizes and dtype. A later write to the tensor does not reach
// what was packed. Innermost wins.
class SavedTensorHooks {
 public:
  SavedTensorHooks(std::function<std::any(const Tensor&)> pack,
                   std::function<Tensor(const std::any&)> unpack);

 private:
  friend std::shared_ptr<Packed> pack(const Tensor& t, const char* op);
  std::function<std::any(const Tensor&)> pack_;
  std::function<Tensor(const std::any&)> unpack_;
  Scoped<SavedTensorHooks*> innermost_;
};
// What the innermost of them keep in place of t, null if there are none; and t again, checked:
// `what` and `index` name it in the error.
std::shared_ptr<Packed> pack(const Tensor& t, const char* op);
Tensor unpack(const Packed& packed, const char* op, const char* what, size_t index);

}  // namespace gradus
