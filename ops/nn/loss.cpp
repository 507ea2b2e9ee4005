// Losses and counts over ops.hpp.
#include "ops/nn/loss.hpp"

#include <numeric>

namespace gradus::nn {

Loss loss_named(const std::string& name) {
  if (name == "cross_entropy") return Loss::cross_entropy;
  if (name == "nll" || name == "nll_loss") return Loss::nll;
  if (name == "mse" || name == "mse_loss") return Loss::mse;
  const std::vector<std::string> known{"cross_entropy", "nll", "mse"};
  fail(ErrorKind::value, "loss", "there is no loss \"", name, "\"", did_you_mean(name, known),
       "; known are cross_entropy, nll and mse");
}

Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype) {
  std::vector<int64_t> numbers(static_cast<size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  return cast(eq(unsqueeze(labels, -1), Tensor::from(numbers, {classes}, labels.device())), dtype);
}

Tensor loss_of(Loss loss, const Tensor& outputs, const Tensor& labels) {
  switch (loss) {
    case Loss::cross_entropy:
      return cross_entropy(outputs, labels);
    case Loss::nll:
      return nll_loss(outputs, labels);
    case Loss::mse:
      break;
  }
  return mse_loss(outputs, one_hot(labels, outputs.size(-1), outputs.dtype()));
}

Tensor correct(const Tensor& outputs, const Tensor& labels) {
  return sum(eq(argmax(outputs, -1), labels));
}

}  // namespace gradus::nn
