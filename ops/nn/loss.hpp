// Losses by name, for networks that tell classes apart: what a row of outputs costs against a
// class.
#pragma once
#include "ops/ops.hpp"

#include <string>

namespace gradus::nn {

// cross_entropy takes logits, nll logarithms of probabilities, mse outputs that should be 1 for the
// class and 0 elsewhere.
enum class Loss { cross_entropy, nll, mse };
// "cross_entropy", "nll" (also "nll_loss"), "mse" (also "mse_loss"); Error(value) otherwise.
Loss loss_named(const std::string& name);

// Mean over the batch: outputs (n, classes), labels (n,) i64.
Tensor loss_of(Loss loss, const Tensor& outputs, const Tensor& labels);
// (n, classes) of 0 and 1, in a floating dtype.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype);
// How many rows have their largest output at their label, as an i64 number on the device.
Tensor correct(const Tensor& outputs, const Tensor& labels);

}  // namespace gradus::nn
