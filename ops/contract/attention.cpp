// Attention: two contractions with a softmax between them.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/loss/losses.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/random/sampling.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/reduce/reductions.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace gradus::inline v1 {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor range(int64_t n, Device& device) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  return Tensor::constant(numbers, {n}, device);
}
// (rows, columns): column <= row.
Tensor lower_triangle(int64_t rows, int64_t columns, Device& device) {
  return ge(unsqueeze(range(rows, device), 1), range(columns, device));
}

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool fits = q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2 && q.size(-1) == k.size(-1) &&
                    k.size(-2) == v.size(-2);
  if (!fits)
    fail(ErrorKind::shape, "scaled_dot_product_attention", "query has shape ", q.sizes(), ", key ",
         k.sizes(), ", value ", v.sizes(), "; expected (..., L, e), (..., S, e) and (..., S, d)");
}

// softmax along the last axis of the scores that the mask allows.
Tensor attention_weights(Tensor scores, const Tensor& mask, bool is_causal) {
  Tensor allowed;
  if (is_causal) allowed = lower_triangle(scores.size(-2), scores.size(-1), scores.device());
  if (mask.defined()) {
    const bool additive = mask.dtype() != DType::bool_;
    const Tensor seen = additive ? ne(mask, -kInfinity) : mask;
    if (additive) scores = add(scores, where(seen, mask, 0.0));
    allowed = allowed.defined() ? mul(allowed, seen) : seen;
  }
  if (!allowed.defined()) return softmax(scores, -1);
  // A row that may look nowhere keeps its finite scores, so that no 0 / 0 arises, and is set to 0.
  const Tensor nowhere = eq(sum(allowed, {-1}, true), 0);
  const Tensor weights = softmax(where(add(allowed, nowhere), scores, -kInfinity), -1);
  return where(nowhere, 0.0, weights);
}

}  // namespace

void register_attention() {
  add_composition(
      "scaled_dot_product_attention", "attention",
      "values averaged by how well their keys fit each query; rows masked everywhere give 0",
      "y = softmax(query key^T scale + attn_mask) value",
      {{"query"}, {"key"}, {"value"}, {"attn_mask", false, true}},
      {number_attr("dropout_p", 0, "share of the weights set to 0 at random"),
       bool_attr("is_causal", false, "row i looks at columns up to i"),
       number_attr("scale", 0, "of the scores; 0: 1 / sqrt(e)")},
      [](Operands in, const Attrs& a) {
        return scaled_dot_product_attention(in[0], in[1], in[2], operand(in, 3), a[1].integer != 0,
                                            a[2].number, a[0].number);
      });
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, bool is_causal, double scale,
                                    double dropout_p) {
  const char* op = "scaled_dot_product_attention";
  check_shapes(query, key, value);
  if (!is_real_float(query.dtype())) refuse_dtype(op, query.dtype(), def::kReal);
  if (attn_mask.defined() && attn_mask.dtype() != DType::bool_ && !is_real_float(attn_mask.dtype()))
    fail(ErrorKind::dtype, op, "the mask is ", attn_mask.dtype(), ", expected bool or a float");
  if (scale == 0) scale = query.size(-1) > 0 ? 1 / std::sqrt(double(query.size(-1))) : 1;
  const Tensor scores = matmul(mul(query, scale), transpose(key, -2, -1));
  if (attn_mask.defined() && !broadcasts_to(attn_mask.sizes(), scores.sizes()))
    fail(ErrorKind::shape, op, "the mask has shape ", attn_mask.sizes(),
         ", which does not broadcast to the scores' ", scores.sizes());
  Tensor weights = attention_weights(scores, attn_mask, is_causal);
  if (dropout_p != 0) weights = dropout(weights, dropout_p);
  return matmul(weights, value);
}

}  // namespace gradus
