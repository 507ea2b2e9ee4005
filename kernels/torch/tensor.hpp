// Tensors of libtorch over the memory of views, and its ops called by their names. What libtorch
// refuses is a Refusal with its own words.
#pragma once
#include "kernels/call/call.hpp"
#include "kernels/torch/library.hpp"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::torch {

using calls::Call;

// One reference to a tensor.
class Tensor {
 public:
  explicit Tensor(TensorHandle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor();

  TensorHandle get() const { return handle_; }
  TensorHandle release() { return std::exchange(handle_, nullptr); }

 private:
  TensorHandle handle_;
};

// Arguments. Each may be given to one call, which takes it.
Value value(Tensor&& t);
Value value(const Tensor& t);
inline Value value(int64_t n) { return Value(n); }
inline Value value(bool b) { return Value(b); }
Value value(double x);
Value value(const std::string& text);
Value value(const std::vector<int64_t>& numbers);
Value value(std::vector<Tensor>&& tensors);
Value some(Value v);  // of an optional parameter
inline constexpr Value kNone = 0;

// The op NAME.OVERLOAD of all arguments of its schema; its first result.
Tensor aten(const char* name, const char* overload, std::initializer_list<Value> arguments);

// The very memory of a view. libtorch has no negative strides: such axes run upwards in it, and
// `turned` names them.
struct Memory {
  Tensor tensor;
  std::vector<int64_t> turned;
};
Memory memory_of(const gd_view& v);
// A view's elements: its memory, or a copy if an axis has a negative stride.
Tensor read(const gd_view& v);
// out[i] = y[i], in out's dtype.
void write(const gd_view& out, const Tensor& y);
// One number, as a tensor without axes of f64 or c128.
Tensor number(const c128& x, bool complex);

// Of floating numbers.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor cast(const Tensor& t, DType dtype);

}  // namespace gradus::torch
