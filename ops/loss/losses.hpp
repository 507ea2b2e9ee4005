// Softmax, gates and losses. reduction: "mean", "sum" or "none". Where nothing else is said x and
// target have one shape. Losses of classes take x (n, classes, d, ...) or (classes,) and a target
// (n, d, ...) or () of class indices; weight (classes,) may be undefined, and the mean is then one
// by weight. Elements whose target is ignore_index count nowhere; if all are, the mean is NaN.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
Tensor softmin(const Tensor& x, int64_t dim);
Tensor glu(const Tensor& x, int64_t dim = -1);
Tensor prelu(const Tensor& x, const Tensor& weight);

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const char* reduction = "mean", const Tensor& weight = {},
                int64_t ignore_index = -100);
// A floating target of the logits' shape holds probabilities of classes.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const char* reduction = "mean",
                     const Tensor& weight = {}, int64_t ignore_index = -100,
                     double label_smoothing = 0);
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, double p = 1, double margin = 1,
                         const char* reduction = "mean", const Tensor& weight = {});

Tensor mse_loss(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor l1_loss(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      const char* reduction = "mean");
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  const char* reduction = "mean");

// x: logarithms of probabilities; so is the target with log_target. Also reduction "batchmean".
Tensor kl_div(const Tensor& x, const Tensor& target, const char* reduction = "mean",
              bool log_target = false);
// Logarithms are held above -100; where they are, the slope is 0.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                            const char* reduction);
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, const char* reduction);
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const char* reduction = "mean");
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8, const char* reduction = "mean");
// var: x's shape, or without its last axis, or with 1 there. It is held above eps, and its gradient
// is as if it were not (so that it can leave the bound again).
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6, const char* reduction = "mean");

// Targets are 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            const char* reduction = "mean");
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           double margin = 0, const char* reduction = "mean");
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             double margin = 0, const char* reduction = "mean");

// Targets are 0 or 1, one for each class (last axis); the loss is the mean over the classes.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   const char* reduction);
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                   const char* reduction = "mean");
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           const char* reduction = "mean");

}  // namespace gradus
