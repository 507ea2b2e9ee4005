// The layers: linear, activations (any pointwise op of one operand, by its name), softmax over the
// last axis, dropout, flatten. All numbers come from the thread's generator, so a seed fixes a
// network.
#pragma once
#include "ops/nn/module.hpp"

namespace gradus::nn {

// y = x W^T + b over the last axis: (..., in) -> (..., out). weight is (out, in), bias (out,). Both
// start uniform on [-1/sqrt(in), 1/sqrt(in)), PyTorch's rule (He et al., "Delving Deep into
// Rectifiers", ICCV 2015, with the gain that a = sqrt(5) gives).
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true, DType dtype = DType::f32,
         Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "linear"; }
  void collect(const std::string& prefix, NamedTensors& out) const override;
  int64_t in() const { return weight.size(1); }
  int64_t out() const { return weight.size(0); }

  Tensor weight, bias;  // bias is undefined if the layer has none
};

// A pointwise op of one operand, with its attributes in the op's order.
class Activation : public Module {
 public:
  // `attrs` shorter than the op's are filled up with defaults. Error(value) for an op that is not
  // there, takes more than one operand, or lacks an attribute.
  explicit Activation(const std::string& op, Attrs attrs = {});
  Tensor forward(const Tensor& x) override { return op_.call({x}, attrs_)[0]; }
  std::string kind() const override { return op_.name; }
  // Whether an op may stand as an activation.
  static bool accepts(const OpInfo& op);

 private:
  const OpInfo& op_;
  Attrs attrs_;
};

// Softmax over the last axis, or its logarithm.
class Softmax : public Module {
 public:
  explicit Softmax(bool logarithm) : logarithm_(logarithm) {}
  Tensor forward(const Tensor& x) override {
    return logarithm_ ? log_softmax(x, -1) : softmax(x, -1);
  }
  std::string kind() const override { return logarithm_ ? "log_softmax" : "softmax"; }

 private:
  bool logarithm_;
};

// While training, zeroes each number with probability p and scales the rest by 1 / (1 - p).
class Dropout : public Module {
 public:
  explicit Dropout(double p);  // 0 <= p < 1, else Error(value)
  Tensor forward(const Tensor& x) override { return dropout(x, p_, training_); }
  std::string kind() const override { return "dropout"; }
  void set_training(bool on) override { training_ = on; }

 private:
  double p_;
  bool training_ = true;
};

// (n, a, b, ...) -> (n, a b ...).
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "flatten"; }
};

}  // namespace gradus::nn
