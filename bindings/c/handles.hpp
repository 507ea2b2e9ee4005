// The table of handles behind the C door. A handle is kind, generation and slot in the table; the
// generation of a slot rises when what stood there is given back, so a handle is never given out
// twice. Threads: any; a slot is locked for the few instructions of a look.
#pragma once
#include "engine/base/lock.hpp"
#include "engine/op_info.hpp"

#include <memory>
#include <string>

namespace gradus::inline v1::c {

enum class Kind : uint8_t {
  none,
  tensor,
  op,
  hook,
  plan,
  stream,
  event,
  step,
  optimizer,
  tensors,
  network,
  trainer,
  operation,
  blocks
};

// What stands behind a handle that is no tensor. A call that uses it holds it, so that another
// thread may free the handle meanwhile; `mutex` is for those that can't be used by two at once.
struct Object {
  virtual ~Object() = default;
};

// What a function of the door refuses by itself: a status that no Error has, and a text.
struct Refusal {
  int32_t status;
  std::string message;
};

// The argument that a handle is, for messages: "out", or the index-th of "operands".
struct Argument {
  Argument(const char* n, size_t i = SIZE_MAX) : name(n), index(i) {}
  const char* name;
  size_t index;
};

int64_t new_handle(Kind kind, Tensor tensor);
int64_t new_handle(Kind kind, std::shared_ptr<Object> object);
int64_t new_handle(Kind kind, Object* lasting);  // one that is never destroyed

// What the handle names; Refusal (GRADUS_HANDLE) if it is nothing of this kind.
Tensor tensor_of(int64_t handle, Argument argument);
// The tensor itself, in use by a call: it stays until this ends, though its handle be freed.
class InUse {
 public:
  InUse(int64_t handle, Argument argument);
  ~InUse();
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  operator const Tensor&() const { return *tensor_; }

 private:
  uint32_t slot_;
  const Tensor* tensor_;
};
std::shared_ptr<Object> object_of(Kind kind, int64_t handle);
// The same without a lock, of an object that is never destroyed; null if the handle names none.
Object* lasting_object(Kind kind, int64_t handle);

void retain_handle(int64_t handle);
void free_handle(int64_t handle);  // 0 is nothing
int64_t live_handles();

}  // namespace gradus::c
