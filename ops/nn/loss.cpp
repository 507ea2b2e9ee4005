// Losses and counts over ops.hpp.
#include "ops/nn/loss.hpp"
#include "ops/loss/losses.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <numeric>

namespace gradus::inline v1::nn {

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> names{
      "cross_entropy", "nll", "mse", "l1", "smooth_l1", "huber", "binary_cross_entropy_with_logits",
      "multi_margin"};
  return names;
}

Loss::Kind loss_named(const std::string& name) {
  const auto& names = loss_names();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    fail(ErrorKind::value, "loss", "there is no loss \"", name, "\"", did_you_mean(name, names));
  return Loss::Kind(it - names.begin());
}

Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype) {
  std::vector<int64_t> numbers(static_cast<size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  return cast(eq(unsqueeze(labels, -1), Tensor::constant(numbers, {classes}, labels.device())),
              dtype);
}

bool compares_numbers(Loss::Kind kind) {
  using Kind = Loss::Kind;
  return kind == Kind::mse || kind == Kind::l1 || kind == Kind::smooth_l1 || kind == Kind::huber;
}

bool takes_sequences(Loss::Kind kind) {
  return kind == Loss::Kind::cross_entropy || kind == Loss::Kind::nll;
}

namespace {

// Elements against elements.
Tensor compared(const Loss& loss, const Tensor& outputs, const Tensor& targets) {
  switch (loss.kind) {
    case Loss::Kind::l1:
      return l1_loss(outputs, targets);
    case Loss::Kind::smooth_l1:
      return smooth_l1_loss(outputs, targets, loss.beta);
    case Loss::Kind::huber:
      return huber_loss(outputs, targets, loss.delta);
    case Loss::Kind::binary_cross_entropy_with_logits:
      return binary_cross_entropy_with_logits(outputs, targets);
    default:
      return mse_loss(outputs, targets);
  }
}

}  // namespace

Tensor loss_of(const Loss& loss, const Tensor& outputs, const Tensor& targets) {
  using Kind = Loss::Kind;
  if (is_floating(targets.dtype())) {
    if (!compares_numbers(loss.kind))
      fail(ErrorKind::value, loss_names()[size_t(loss.kind)],
           "takes classes, got numbers; for numbers there are mse, l1, smooth_l1 and huber");
    return compared(loss, outputs, cast(reshape(targets, outputs.sizes()), outputs.dtype()));
  }
  // The classes go last in networks and second in the ops; rows of outputs are all the same to a
  // loss.
  const Tensor rows = reshape(outputs, {-1, outputs.size(-1)}), classes = reshape(targets, {-1});
  if (loss.kind == Kind::cross_entropy)
    return cross_entropy(rows, classes, "mean", {}, kIgnored, loss.label_smoothing);
  if (loss.kind == Kind::nll) return nll_loss(rows, classes, "mean", {}, kIgnored);
  if (targets.rank() != 1)
    fail(ErrorKind::value, loss_names()[size_t(loss.kind)],
         "takes one label for each sample, got labels ", targets.sizes(),
         "; for sequences there are cross_entropy and nll");
  if (loss.kind == Kind::multi_margin) return multi_margin_loss(outputs, targets);
  return compared(loss, outputs, one_hot(targets, outputs.size(-1), outputs.dtype()));
}

Tensor correct(const Tensor& outputs, const Tensor& labels) {
  return sum(eq(argmax(outputs, -1), labels));
}

}  // namespace gradus::nn
