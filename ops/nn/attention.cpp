// Self-attention over scaled_dot_product_attention.
#include "ops/nn/attention.hpp"

#include "ops/nn/layers.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/base/ints.hpp"
#include "ops/shape/memory.hpp"
#include "ops/random/sampling.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/norms.hpp"

#include <cmath>

namespace gradus::inline v1::nn {

MultiHeadAttention::MultiHeadAttention(int64_t dim, int64_t heads, bool causal, bool bias,
                                       DType dtype, Device& device)
    : heads_(heads), causal_(causal) {
  if (dim < 1 || heads < 1 || dim % heads != 0)
    fail(ErrorKind::value, "multi_head_attention", dim, " features do not divide into ", heads,
         " heads");
  const double bound = std::sqrt(6.0 / double(dim + 3 * dim));
  in_proj_weight = uniform({3 * dim, dim}, -bound, bound, dtype, device).set_requires_grad();
  out_proj_weight = uniform_parameter({dim, dim}, dim, dtype, device);
  if (!bias) return;
  in_proj_bias = constant_parameter({3 * dim}, 0, dtype, device);
  out_proj_bias = constant_parameter({dim}, 0, dtype, device);
}

Tensor MultiHeadAttention::forward(const Tensor& x) {
  const int64_t dim = out_proj_weight.size(0);
  if (x.rank() != 3 || x.size(2) != dim)
    fail(ErrorKind::shape, "multi_head_attention", place(), " takes (n, length, ", dim,
         "), its input is ", x.sizes());
  const int64_t n = x.size(0), length = x.size(1);
  enum { kN, kPlace, kIn, kOut };
  Tensor packed = contract(x, {kN, kPlace, kIn}, used(in_proj_weight), {kOut, kIn},
                           {kN, kPlace, kOut}, Algebra::standard, used(in_proj_bias));
  // (n, length, 3 heads d) -> (3, n, heads, length, d), a view.
  packed = permute(reshape(packed, {n, length, 3, heads_, dim / heads_}), {2, 0, 3, 1, 4});
  const Tensor looked = scaled_dot_product_attention(select(packed, 0, 0), select(packed, 0, 1),
                                                     select(packed, 0, 2), {}, causal_);
  const Tensor joined = reshape(permute(looked, {0, 2, 1, 3}), {n, length, dim});
  return contract(joined, {kN, kPlace, kIn}, used(out_proj_weight), {kOut, kIn}, {kN, kPlace, kOut},
                  Algebra::standard, used(out_proj_bias));
}

void MultiHeadAttention::collect(const std::string& prefix, NamedTensors& out) const {
  out.emplace_back(prefix + "in_proj_weight", in_proj_weight);
  if (in_proj_bias.defined()) out.emplace_back(prefix + "in_proj_bias", in_proj_bias);
  out.emplace_back(prefix + "out_proj.weight", out_proj_weight);
  if (out_proj_bias.defined()) out.emplace_back(prefix + "out_proj.bias", out_proj_bias);
}

}  // namespace gradus::nn
