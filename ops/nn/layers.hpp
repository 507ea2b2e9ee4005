// The layers that every network uses: linear, any op of one operand by its name (activations,
// pooling, views), dropout, flatten, embeddings. All numbers come from the thread's generator, so a
// seed fixes a network.
#pragma once
#include "ops/nn/module.hpp"
#include "ops/random/sampling.hpp"

namespace gradus::inline v1::nn {

// A parameter, uniform on [-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's rule for weights and biases
// (He et al., "Delving Deep into Rectifiers", ICCV 2015, with the gain that a = sqrt(5) gives).
Tensor uniform_parameter(const Shape& size, int64_t fan_in, DType dtype, Device& device);
// A parameter full of one value.
Tensor constant_parameter(const Shape& size, double value, DType dtype, Device& device);

// y = x W^T + b over the last axis: (..., in) -> (..., out). weight is (out, in), bias (out,), both
// by uniform_parameter with fan_in = in.
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

// An op that needs one operand, with its attributes in the op's order.
class OpLayer : public Module {
 public:
  // `attrs` shorter than the op's are filled up with defaults. Error(value) for an op that is not
  // there, needs more than one operand, or lacks an attribute.
  explicit OpLayer(const std::string& op, Attrs attrs = {});
  Tensor forward(const Tensor& x) override { return op_.call(std::span(&x, 1), attrs_)[0]; }
  std::string kind() const override { return op_.name; }
  // Whether an op may stand as a layer.
  static bool accepts(const OpInfo& op);

 private:
  const OpInfo& op_;
  Attrs attrs_;
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

// (n, a b ..., rest...) -> (n, a, b, ..., rest...): `sizes` in the place of the first axis after n.
class Unflatten : public Module {
 public:
  explicit Unflatten(Ints sizes) : sizes_(std::move(sizes)) {}
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "unflatten"; }

 private:
  Ints sizes_;
};

// Row i of a table for each integer i: (...) -> (..., dim). The table starts standard normal.
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t dim, DType dtype = DType::f32,
            Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "embedding"; }
  void collect(const std::string& prefix, NamedTensors& out) const override {
    out.emplace_back(prefix + "weight", weight);
  }

  Tensor weight;  // (count, dim)
};

// Adds row i of a learned table at place i: (n, length, dim) -> the same. Starts as Embedding does.
class PositionalEmbedding : public Module {
 public:
  PositionalEmbedding(int64_t max_length, int64_t dim, DType dtype = DType::f32,
                      Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "positional_embedding"; }
  void collect(const std::string& prefix, NamedTensors& out) const override {
    out.emplace_back(prefix + "weight", weight);
  }

  Tensor weight;  // (max_length, dim)
};

}  // namespace gradus::nn
