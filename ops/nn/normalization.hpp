// Normalisation layers: the functions of ops/reduce/norms.hpp with their scale and shift as
// parameters, which start as 1 and 0, and for batch_norm the running statistics as buffers.
#pragma once
#include "ops/nn/module.hpp"

namespace gradus::inline v1::nn {

// What the normalisation layers share: a scale and a shift, each undefined if the layer has none.
class Affine : public Module {
 public:
  void collect(const std::string& prefix, NamedTensors& out) const override;
  Tensor weight, bias;

 protected:
  Affine(const Shape& sizes, bool with_weight, bool with_bias, DType dtype, Device& device);
};

// (n, channels) or (n, channels, ...): every channel by mean and variance of the batch while
// training, which also move the running ones by `momentum`; by the running ones after.
class BatchNorm : public Affine {
 public:
  explicit BatchNorm(int64_t channels, double eps = 1e-5, double momentum = 0.1, bool affine = true,
                     DType dtype = DType::f32, Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "batch_norm"; }
  void collect(const std::string& prefix, NamedTensors& out) const override;
  void set_training(bool on) override { training_ = on; }

  Tensor running_mean, running_var;  // (channels,), start as 0 and 1

 private:
  double eps_, momentum_;
  bool training_ = true;
};

// Over the last axes, as many as `sizes` has.
class LayerNorm : public Affine {
 public:
  explicit LayerNorm(Ints sizes, double eps = 1e-5, bool affine = true, bool bias = true,
                     DType dtype = DType::f32, Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "layer_norm"; }

 private:
  Ints sizes_;
  double eps_;
};

// By the root mean square over the last axes, without a shift.
class RmsNorm : public Affine {
 public:
  explicit RmsNorm(Ints sizes, double eps = 1e-5, bool affine = true, DType dtype = DType::f32,
                   Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "rms_norm"; }

 private:
  Ints sizes_;
  double eps_;
};

// (n, channels, ...): the channels of a sample in groups.
class GroupNorm : public Affine {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true,
            DType dtype = DType::f32, Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "group_norm"; }

 private:
  int64_t groups_, channels_;
  double eps_;
};

}  // namespace gradus::nn
