// KernelCall builds one gd_call on the stack and runs it:
//   KernelCall(GD_POINTWISE, id).in(a, sizes).in(b, sizes).out(y).run();
// in(t, sizes) broadcasts by stride 0. Tensors and sizes must outlive the call; strides are copied.
// No heap is used for everyday ranks.
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

// Strides that make t look like `sizes` (t broadcasts to it; checked by the caller).
Shape broadcast_strides(const Tensor& t, const Shape& sizes);

class KernelCall {
 public:
  explicit KernelCall(gd_slot slot, int op = 0) : slot_(slot), op_(op) {}
  KernelCall(const KernelCall&) = delete;
  KernelCall& in(const Tensor& t) { return add(t, t.sizes(), t.strides().data(), n_in_); }
  KernelCall& in(const Tensor& t, const Shape& sizes) {
    return t.sizes() == sizes ? add(t, sizes, t.strides().data(), n_in_)
                              : in(t, sizes, broadcast_strides(t, sizes));
  }
  KernelCall& in(const Tensor& t, const Shape& sizes, const Shape& strides) {
    return keep(strides, sizes.size()).add(t, sizes, nullptr, n_in_);
  }
  KernelCall& at(int64_t offset) {  // of the operand given last, in its storage
    views_[n_in_ + n_out_ - 1].offset = offset;
    return *this;
  }
  KernelCall& in(const Tensor&, Shape&&) = delete;
  KernelCall& in(const Tensor&, Shape&&, const Shape&) = delete;
  KernelCall& in_none() { return none(n_in_); }  // an operand that is left out: data NULL
  // All ins come before all outs.
  KernelCall& out(const Tensor& t) { return add(t, t.sizes(), t.strides().data(), n_out_); }
  // `sizes` are t's own; given where the inputs have them, all views share one pointer to them.
  KernelCall& out(const Tensor& t, const Shape& sizes) {
    return add(t, sizes, t.strides().data(), n_out_);
  }
  KernelCall& out(const Tensor& t, const Shape& sizes, const Shape& strides) {
    return keep(strides, sizes.size()).add(t, sizes, nullptr, n_out_);
  }
  KernelCall& out(const Tensor&, Shape&&, const Shape&) = delete;
  KernelCall& out_none() { return none(n_out_); }
  KernelCall& number(double x) {
    doubles_.push_back(x);
    return *this;
  }
  KernelCall& integer(int64_t x) {
    ints_.push_back(x);
    return *this;
  }
  // All of them; they must outlive the call.
  KernelCall& integers(std::span<const int64_t> all) {
    given_ = all;
    return *this;
  }
  // On the device of the operands, which must be one.
  void run();

 private:
  static constexpr int kMax = 8;
  KernelCall& keep(const Shape& strides, size_t rank) {
    strides_.append(strides.data(), rank);
    return *this;
  }
  // strides: null for those kept last
  KernelCall& add(const Tensor& t, const Shape& sizes, const int64_t* strides, int& n);
  KernelCall& none(int& n);
  gd_slot slot_;
  int op_;
  int n_in_ = 0, n_out_ = 0;
  Device* device_ = nullptr;
  gd_view views_[kMax];
  SmallVector<int64_t, 48> strides_;  // of views that are not a tensor's own, one after the other
  SmallVector<double, 12> doubles_;
  SmallVector<int64_t, 80> ints_;   // of a chain of nine statements
  std::span<const int64_t> given_;  // instead
};

// Values alone, without history. from, which broadcasts to `to`, is cast to its dtype.
void copy_values(const Tensor& from, const Tensor& to);
Tensor dense_copy(const Tensor& x);  // a row-major one
// Every element of t becomes the value; if t's dtype is an integer one, `integer`.
void fill_values(const Tensor& t, std::complex<double> value, int64_t integer);

}  // namespace gradus
