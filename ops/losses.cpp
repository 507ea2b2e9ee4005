// Losses: all are compositions.
#include "ops/registry.hpp"
#include "ops/shape.hpp"

namespace gradus {

namespace {

Tensor reduced(const char* op, const Tensor& x, const char* reduction) {
  const std::string_view r = reduction;
  if (r == "none") return x;
  if (r == "sum") return sum(x);
  if (r == "mean") return mean(x);
  fail(ErrorKind::value, op, "reduction is \"", r, "\"; expected mean, sum or none");
}

AttrSpec reduction_attr() { return text_attr("reduction", "mean", "mean, sum or none"); }

using Loss = Tensor (*)(const Tensor&, const Tensor&, const char*);
template <Loss f>
void register_loss(const char* name, const char* doc, const char* formula, const char* x,
                   const char* target) {
  add_composition(
      name, "loss", doc, formula, {{x}, {target}}, {reduction_attr()},
      [](const Tensors& in, const Attrs& a) { return Tensors{f(in[0], in[1], a[0].text)}; });
}

// x (n, classes) or (classes,); target holds class indices, (n,) or ().
void check_target(const char* op, const Tensor& x, const Tensor& target) {
  if (!is_integer(target.dtype()) || target.dtype() == DType::bool_)
    fail(ErrorKind::dtype, op, "the target is ", target.dtype(), ", expected class indices (i64)");
  if (x.rank() < 1 || x.rank() > 2 || target.rank() != x.rank() - 1 ||
      (x.rank() == 2 && x.size(0) != target.size(0)))
    fail(ErrorKind::shape, op, "the input has shape ", x.sizes(), ", the target ", target.sizes(),
         "; expected (n, classes) and (n,)");
}

}  // namespace

void register_losses() {
  register_loss<nll_loss>("nll_loss", "negative log likelihood of the target classes",
                          "-x[i, target_i]", "log_probabilities", "target");
  register_loss<cross_entropy>("cross_entropy", "nll_loss of log_softmax",
                               "-log softmax(x)[i, target_i]", "logits", "target");
  register_loss<mse_loss>("mse_loss", "squared difference", "(x - target)^2", "x", "target");
  register_loss<bce_with_logits>("bce_with_logits", "binary cross-entropy of sigmoid(x)",
                                 "-target log s(x) - (1 - target) log(1 - s(x))", "x", "target");
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  check_target("nll_loss", x, target);
  const Tensor index = cast(unsqueeze(target, -1), DType::i64);
  return reduced("nll_loss", neg(squeeze(gather(x, -1, index), {-1})), reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const char* reduction) {
  check_target("cross_entropy", logits, target);
  return nll_loss(log_softmax(logits, -1), target, reduction);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  if (!(x.sizes() == target.sizes()))
    fail(ErrorKind::shape, "mse_loss", "the input has shape ", x.sizes(), ", the target ",
         target.sizes());
  return reduced("mse_loss", square(sub(x, target)), reduction);
}

// -t log s - (1 - t) log(1 - s) = (1 - t) x - logsigmoid(x), which never overflows.
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const char* reduction) {
  if (!(x.sizes() == target.sizes()))
    fail(ErrorKind::shape, "bce_with_logits", "the input has shape ", x.sizes(), ", the target ",
         target.sizes());
  return reduced("bce_with_logits", sub(mul(sub(1.0, target), x), logsigmoid(x)), reduction);
}

}  // namespace gradus
