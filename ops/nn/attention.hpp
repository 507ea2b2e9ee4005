// Attention with weights of its own (Vaswani et al., "Attention is all you need", NIPS 2017). A
// transformer block is no layer of its own: it is two residuals, in configs
// {"residual": ["layer_norm", {"multi_head_attention": ...}]} and
// {"residual": ["layer_norm", {"linear": ...}, "gelu", {"linear": ...}]}.
#pragma once
#include "ops/nn/module.hpp"

namespace gradus::inline v1::nn {

// Self-attention, (n, length, dim) -> the same. Parameters as in PyTorch: in_proj_weight (3 dim,
// dim) holds query, key and value, uniform on +-sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio,
// AISTATS 2010); in_proj_bias and out_proj_bias start as 0, out_proj_weight as a linear layer's.
class MultiHeadAttention : public Module {
 public:
  // Error(value) where dim does not divide into heads. causal: place i looks at 0 .. i only.
  MultiHeadAttention(int64_t dim, int64_t heads, bool causal = false, bool bias = true,
                     DType dtype = DType::f32, Device& device = default_device());
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "multi_head_attention"; }
  void collect(const std::string& prefix, NamedTensors& out) const override;

  Tensor in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias;

 private:
  int64_t heads_;
  bool causal_;
};

}  // namespace gradus::nn
