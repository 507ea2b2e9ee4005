// What every function of the C door is made of: the frame that lets no exception out, arguments
// that are checked before they are used, callbacks that may fail.
#pragma once
#include "bindings/c/gradus.h"
#include "bindings/c/handles.hpp"
#include "bindings/cpp/start.hpp"
#include "engine/files/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <span>

namespace gradus::inline v1::c {

// Makes the exception in flight the thread's last error; its status.
gradus_status report(const char* function) noexcept;
void notice(const std::string& text);  // to gradus_set_log's function

// The frame: starts gradus at its first use, runs f, turns what it throws into a status.
template <class F>
gradus_status door(const char* function, F&& f) noexcept {
  try {
    static const bool started = (start(), true);
    (void)started;
    f();
    return GRADUS_OK;
  } catch (...) {
    return report(function);
  }
}

// ---- arguments
template <class T>
T& need(T* pointer, const char* name) {
  if (!pointer) throw Refusal{GRADUS_NULL, std::string(name) + " is NULL"};
  return *pointer;
}
// The frame of a function with one result: `out` is looked at before f is run.
template <class T, class F>
gradus_status result(const char* function, T* out, F&& f) noexcept {
  return door(function, [&] {
    need(out, "out");
    *out = f();
  });
}
// n elements of an array, which may be NULL if there are none.
template <class T>
std::span<T> array(T* first, size_t n, const char* name, size_t most = 1 << 20) {
  if (n > most)
    throw Refusal{GRADUS_VALUE,
                  join(name, ": ", std::to_string(n), " are more than ", std::to_string(most))};
  if (n > 0) need(first, name);
  return {first, n};
}
inline Shape shape_at(const int64_t* sizes, size_t ndim, const char* name = "shape") {
  const auto all = array(sizes, ndim, name, GRADUS_MAX_DIMS);
  Shape shape;
  shape.append(all.data(), all.size());
  return shape;
}
DType dtype_at(int32_t code);
Tensors tensors_at(const gradus_tensor* handles, size_t n, const char* name);
// Where 0 is none: an undefined tensor.
inline Tensor maybe_tensor(gradus_tensor handle, Argument argument) {
  return handle == 0 ? Tensor() : tensor_of(handle, argument);
}
template <class T>
std::shared_ptr<T> object_at(Kind kind, int64_t handle) {
  return std::static_pointer_cast<T>(object_of(kind, handle));
}
// The caller's struct, as far as it goes, as this library knows it; what is beyond stays 0. No
// version of a struct ends within a pointer, so a size that does is none.
template <class T>
T struct_at(const T* given, const char* name) {
  const uint32_t size = need(given, name).struct_size;
  if (size < sizeof(uint32_t) || size > 4096 || size % alignof(T) != 0)
    throw Refusal{GRADUS_VALUE, join(name, ".struct_size is ", size, ", expected sizeof ", name)};
  T own{};
  std::memcpy(static_cast<void*>(&own), given, std::min(size_t(size), sizeof(T)));
  return own;
}
template <class T>
void give_struct(T* to, T own, const char* name) {
  const uint32_t size = struct_at(to, name).struct_size;
  own.struct_size = size;
  std::memcpy(static_cast<void*>(to), &own, std::min(size_t(size), sizeof(T)));
}

// ---- results: a handle for each, 0 for an undefined one
inline gradus_tensor handle_of(Tensor t) {
  return t.defined() ? new_handle(Kind::tensor, std::move(t)) : 0;
}
// Tensors with results of one call, all or none.
void give(std::span<const Tensor> tensors, gradus_tensor* out);
// Gives back a hold that somebody else may have given back already.
void drop(gradus_tensor handle) noexcept;

// What a callback writes: holds that are given over, and given back here, also if it fails.
class Written {
 public:
  explicit Written(size_t n = 1) : handles_(n, 0) {}
  ~Written() {
    for (const gradus_tensor h : handles_) drop(h);
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  gradus_tensor* data() { return handles_.data(); }
  gradus_tensor operator[](size_t i) const { return handles_[i]; }

 private:
  std::vector<gradus_tensor> handles_;
};

// A handle that is lent to a callback.
class Lent {
 public:
  explicit Lent(const Tensor& t) : handle_(handle_of(t)) {}
  ~Lent() { drop(handle_); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  gradus_tensor get() const { return handle_; }

 private:
  gradus_tensor handle_;
};
class LentList {
 public:
  explicit LentList(std::span<const Tensor> tensors);
  ~LentList();
  LentList(const LentList&) = delete;
  LentList& operator=(const LentList&) = delete;
  const gradus_tensor* data() const { return handles_.data(); }

 private:
  SmallVector<gradus_tensor, 4> handles_;
};

// Runs a callback; a status that is not OK becomes an Error with what the callback said.
void call_back(const char* who, const std::function<gradus_status()>& callback);
// The `user` of callbacks, ours once the call that brought it has succeeded: then it is destroyed
// with the last holder of this.
struct User {
  void* user;
  gradus_destroy_fn destroy;
  bool ours = false;
  ~User() {
    if (ours && destroy) destroy(user);
  }
};
inline std::shared_ptr<User> user_of(void* user, gradus_destroy_fn destroy) {
  return std::make_shared<User>(User{user, destroy});
}

// ---- what several files of the door share
// Tensors by name behind a handle; their names stay where they are while the list grows.
struct TensorList : Object {
  NamedTensors all() const;
  mutable std::mutex mutex;
  std::deque<std::pair<std::string, Tensor>> tensors;
};
gradus_tensors new_list(NamedTensors tensors);
NamedTensors named_at(gradus_tensors list);

Device& device_at(int32_t number);
int32_t number_of(Device& device);

}  // namespace gradus::c
