// Norms of tensors, normalisation layers, attention.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

// x with mean 0 and variance 1 over the axes `dims` (none: all), times weight, plus bias, which may
// be undefined and broadcast to x. Also the mean and the biased variance that x had; they keep
// their axes with size 1, and are f32 for f16 and bf16. rms: the mean is taken as 0.
struct Standardized {
  Tensor y, mean, var;
};
Standardized standardize(const Tensor& x, const Ints& dims = {}, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5, bool rms = false);

// ---- normalisation layers; weight and bias may be undefined

// Over all axes but the first `x.rank() - normalized_shape.size()`.
Tensor layer_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
Tensor rms_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                double eps = 1e-5);
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
// x (n, channels, ...): each channel of each sample by itself. No running statistics.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double eps = 1e-5);
// x (n, channels, ...). training: by the batch's own mean and variance; running_mean and
// running_var, if defined, are moved towards them in place by `momentum`, the variance with n - 1
// in its denominator. Else by the running ones. The op of the list, `batch_norm`, only computes:
// it writes to none of its operands.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);
// x / (k + alpha * mean of the squares of `size` neighbouring channels)^beta.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1);

// ---- attention

// softmax(q k^T scale + mask) v over the last two axes; q (..., L, e), k (..., S, e), v (..., S,
// d). mask: bool (true = may look) or added; undefined: none. scale 0: 1 / sqrt(e). is_causal:
// row i looks at columns up to i, and where the mask allows. A row that may look nowhere gives 0,
// and its gradients are 0.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, bool is_causal = false,
                                    double scale = 0, double dropout_p = 0);

// ---- norms and distances. p: any number, infinity and -infinity too; 0 counts what is not 0.
// Where a norm is 0, or an element is 0 and the slope there infinite, the gradient is 0.

Tensor norm(const Tensor& x, double p = 2, const Ints& dims = {}, bool keepdim = false);
Tensor normalize(const Tensor& x, double p = 2, const Ints& dims = {1}, double eps = 1e-12);
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8);
// Of x1 - x2 + eps, over the last axis.
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
// x1 (..., P, m), x2 (..., R, m): the distances (..., P, R), by differences: exact for near points.
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2);
Tensor dist(const Tensor& x1, const Tensor& x2, double p = 2);

struct Spread {
  Tensor spread, mean;
};
Spread var_mean(const Tensor& x, const Ints& dims = {}, double correction = 1,
                bool keepdim = false);
Spread std_mean(const Tensor& x, const Ints& dims = {}, double correction = 1,
                bool keepdim = false);

}  // namespace gradus
