// Norms of tensors, normalisation layers, attention.
#pragma once
#include "ops/ints.hpp"

namespace gradus {

// Over all axes but the first `x.rank() - normalized_shape.size()`; weight and bias may be
// undefined.
Tensor layer_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
Tensor rms_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                double eps = 1e-5);
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
// x (n, channels, ...). training: by the batch's own mean and variance; running_mean and
// running_var, if defined, are moved towards them in place by `momentum`. Else by the running ones.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);
// softmax(q k^T scale + mask) v over the last two axes; q (..., L, e), k (..., S, e), v (..., S,
// d). mask: bool (true = may look) or added; undefined: none. scale 0: 1 / sqrt(e).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, bool is_causal = false,
                                    double scale = 0);

}  // namespace gradus
