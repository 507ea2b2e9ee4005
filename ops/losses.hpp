// Softmax and losses. reduction: "mean", "sum" or "none".
#pragma once
#include "ops/ints.hpp"

namespace gradus {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const char* reduction = "mean");
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const char* reduction = "mean");
Tensor mse_loss(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const char* reduction = "mean");

}  // namespace gradus
