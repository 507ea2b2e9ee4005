// Losses: all are compositions. One function per loss gives what each element costs; `reduced` ends
// them all.
#include "ops/base/dtypes.hpp"
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/index/indexing.hpp"
#include "ops/loss/losses.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace gradus::inline v1 {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTwoPi = 6.283185307179586476925;

Tensor reduced(const char* op, const Tensor& x, const char* reduction) {
  const std::string_view r = reduction;
  if (r == "none") return x;
  if (r == "sum") return sum(x);
  if (r == "mean") return mean(x);
  fail(ErrorKind::value, op, "reduction is \"", r, "\"; expected mean, sum or none");
}

Tensor wide(const Tensor& x) { return cast(x, statistics_dtype(x.dtype())); }

void same_shape(const char* op, const Tensor& x, const Tensor& target) {
  if (!(x.sizes() == target.sizes()))
    fail(ErrorKind::shape, op, "the input has shape ", x.sizes(), ", the target ", target.sizes());
}

Tensor weighted(const char* op, const Tensor& loss, const Tensor& weight) {
  if (!weight.defined()) return loss;
  if (!broadcasts_to(weight.sizes(), loss.sizes()))
    fail(ErrorKind::shape, op, "the weight has shape ", weight.sizes(),
         ", which does not broadcast to ", loss.sizes());
  return mul(loss, weight);
}

// ---- classes

int64_t class_axis(const Tensor& x) { return x.rank() > 1 ? 1 : 0; }

// x (n, classes, d, ...) or (classes,); target holds class indices, (n, d, ...) or ().
void check_target(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight) {
  if (!is_integer(target.dtype()) || target.dtype() == DType::bool_)
    fail(ErrorKind::dtype, op, "the target is ", target.dtype(), ", expected class indices (i64)");
  Shape rest = x.sizes();
  if (x.rank() > 0) rest.erase(size_t(class_axis(x)));
  if (x.rank() == 0 || !(rest == target.sizes()))
    fail(ErrorKind::shape, op, "the input has shape ", x.sizes(), ", the target ", target.sizes(),
         "; expected (n, classes) and (n,), or (n, classes, d, ...) and (n, d, ...)");
  if (weight.defined() && !(weight.sizes() == Shape{x.size(class_axis(x))}))
    fail(ErrorKind::shape, op, "the weight has shape ", weight.sizes(),
         ", expected one per class, (", x.size(class_axis(x)), ",)");
}

// The weight of each target's class.
Tensor weight_of(const Tensor& weight, const Tensor& index) {
  return reshape(gather(weight, 0, reshape(index, {-1})), index.sizes());
}

// weight as it broadcasts over x.
Tensor per_class(const Tensor& weight, const Tensor& x) {
  Shape shape(size_t(x.rank()), 1);
  shape[size_t(class_axis(x))] = weight.numel();
  return reshape(weight, shape);
}

// A share of the target's mass lies on its own class, the rest on all classes alike.
Tensor class_loss(const char* op, const Tensor& x, const Tensor& target, const char* reduction,
                  const Tensor& weight, int64_t ignore_index, double smoothing) {
  const int64_t axis = class_axis(x);
  const Tensor classes = cast(target, DType::i64), ignored = eq(classes, ignore_index);
  const Tensor index = where(ignored, 0, classes);
  Tensor loss;
  try {
    loss = neg(squeeze(gather(x, axis, unsqueeze(index, axis)), {axis}));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::index) throw;
    fail(e.kind(), op, "a target is no class of 0 to ", x.size(axis) - 1, ": ", e.message());
  }
  Tensor share;  // of each target in the mean, where it is not ignored
  if (weight.defined()) {
    share = weight_of(weight, index);
    loss = mul(loss, share);
  }
  if (smoothing != 0) {
    const Tensor all = weight.defined() ? mul(x, per_class(weight, x)) : x;
    loss = sub(mul(loss, 1 - smoothing), mul(sum(all, {axis}), smoothing / double(x.size(axis))));
  }
  loss = where(ignored, 0.0, loss);
  if (std::string_view(reduction) != "mean") return reduced(op, loss, reduction);
  const Tensor shares = share.defined() ? wide(where(ignored, 0.0, share))
                                        : cast(ne(classes, ignore_index), wide(loss).dtype());
  return cast(div(sum(wide(loss)), sum(shares)), loss.dtype());
}

// ---- logarithms

// t log t, 0 at 0. There the slope is that of -sqrt(t), the same -inf, which no logarithm can give
// beside the value.
Tensor entropy_term(const Tensor& t) {
  if (!t.requires_grad() && !t.tangent().defined()) return xlogy(t, t);
  const Tensor zero = eq(t, 0.0);
  return where(zero, neg(sqrt(where(zero, t, 1.0))), mul(t, log(where(zero, 1.0, t))));
}

// ---- the op list

AttrSpec reduction_attr() { return text_attr("reduction", "mean", "mean, sum or none"); }
AttrSpec margin_attr(double value) { return number_attr("margin", value, "what costs nothing"); }

void add_loss(const char* name, const char* doc, const char* formula,
              std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs, OpCall call) {
  attrs.push_back(reduction_attr());
  add_composition(name, "loss", doc, formula, std::move(operands), std::move(attrs),
                  std::move(call));
}

using Loss = Tensor (*)(const Tensor&, const Tensor&, const char*);
template <Loss f>
void register_loss(const char* name, const char* doc, const char* formula) {
  add_loss(name, doc, formula, {{"x"}, {"target"}}, {},
           [](Operands in, const Attrs& a) { return f(in[0], in[1], a[0].text); });
}
using NumberLoss = Tensor (*)(const Tensor&, const Tensor&, double, const char*);
template <NumberLoss f>
void register_loss(const char* name, const char* doc, const char* formula, AttrSpec number) {
  add_loss(name, doc, formula, {{"x"}, {"target"}}, {std::move(number)},
           [](Operands in, const Attrs& a) { return f(in[0], in[1], a[0].number, a[1].text); });
}

bool flag(const AttrValue& a) { return a.integer != 0; }
// Made when they are asked for: ops may be listed before this file's constants are made.
OperandSpec x_operand() { return {"x"}; }
OperandSpec target_operand() { return {"target"}; }
OperandSpec weight_operand() { return {"weight", false, true}; }

void register_class_losses() {
  const AttrSpec ignore = int_attr("ignore_index", -100, "a target that counts nowhere");
  add_loss("nll_loss", "negative log likelihood of the target classes", "-x[i, target_i]",
           {{"log_probabilities"}, target_operand(), weight_operand()}, {ignore},
           [](Operands in, const Attrs& a) {
             return nll_loss(in[0], in[1], a[1].text, operand(in, 2), a[0].integer);
           });
  add_loss(
      "cross_entropy", "nll_loss of log_softmax", "-log softmax(x)[i, target_i]",
      {{"logits"}, target_operand(), weight_operand()},
      {ignore, number_attr("label_smoothing", 0, "share of the target spread over all classes")},
      [](Operands in, const Attrs& a) {
        return cross_entropy(in[0], in[1], a[2].text, operand(in, 2), a[0].integer, a[1].number);
      });
  add_loss("multi_margin_loss", "hinge loss of each class against the target's",
           "sum_(c != t) max(0, margin - x[t] + x[c])^p / classes",
           {x_operand(), target_operand(), weight_operand()},
           {number_attr("p", 1, "1 or 2"), margin_attr(1)}, [](Operands in, const Attrs& a) {
             return multi_margin_loss(in[0], in[1], a[0].number, a[1].number, a[2].text,
                                      operand(in, 2));
           });
}

void register_likelihoods() {
  add_loss("kl_div", "Kullback-Leibler divergence of the target from x, a logarithm",
           "target (log target - x)", {x_operand(), target_operand()},
           {bool_attr("log_target", false, "the target is a logarithm too")},
           [](Operands in, const Attrs& a) { return kl_div(in[0], in[1], a[1].text, flag(a[0])); });
  add_loss("binary_cross_entropy", "of probabilities; logarithms are held above -100",
           "-target log x - (1 - target) log(1 - x)",
           {x_operand(), target_operand(), weight_operand()}, {}, [](Operands in, const Attrs& a) {
             return binary_cross_entropy(in[0], in[1], operand(in, 2), a[0].text);
           });
  add_loss("binary_cross_entropy_with_logits", "binary cross-entropy of s = sigmoid(x)",
           "-pos_weight target log s - (1 - target) log(1 - s)",
           {x_operand(), target_operand(), weight_operand(), {"pos_weight", false, true}}, {},
           [](Operands in, const Attrs& a) {
             return binary_cross_entropy_with_logits(in[0], in[1], operand(in, 2), operand(in, 3),
                                                     a[0].text);
           });
  add_loss("poisson_nll_loss", "of a Poisson distribution with mean exp(x), or x",
           "exp(x) - target x", {x_operand(), target_operand()},
           {bool_attr("log_input", true, "the mean is exp(x); else x"),
            bool_attr("full", false, "with Stirling's term of the target"),
            number_attr("eps", 1e-8, "added to x under the logarithm")},
           [](Operands in, const Attrs& a) {
             return poisson_nll_loss(in[0], in[1], flag(a[0]), flag(a[1]), a[2].number, a[3].text);
           });
  add_loss("gaussian_nll_loss",
           "of a normal distribution with mean x; var is held above eps, its gradient as if not",
           "(log var + (x - target)^2 / var) / 2", {x_operand(), target_operand(), {"var"}},
           {bool_attr("full", false, "with log(2 pi) / 2"),
            number_attr("eps", 1e-6, "the least variance")},
           [](Operands in, const Attrs& a) {
             return gaussian_nll_loss(in[0], in[1], in[2], flag(a[0]), a[1].number, a[2].text);
           });
}

void register_margins() {
  register_loss<soft_margin_loss>("soft_margin_loss", "logistic loss of targets 1 and -1",
                                  "log(1 + exp(-target x))");
  register_loss<hinge_embedding_loss>("hinge_embedding_loss",
                                      "x where the target is 1, where it is -1 the margin's hinge",
                                      "x, max(0, margin - x)", margin_attr(1));
  const auto three = [](const char* a, const char* b, const char* c) {
    return std::vector<OperandSpec>{{a}, {b}, {c}};
  };
  add_loss("margin_ranking_loss", "x1 should exceed x2 where the target is 1, else below it",
           "max(0, -target (x1 - x2) + margin)", three("x1", "x2", "target"), {margin_attr(0)},
           [](Operands in, const Attrs& a) {
             return margin_ranking_loss(in[0], in[1], in[2], a[0].number, a[1].text);
           });
  add_loss("cosine_embedding_loss", "rows should be parallel where the target is 1, else not",
           "1 - cos, max(0, cos - margin)", three("x1", "x2", "target"), {margin_attr(0)},
           [](Operands in, const Attrs& a) {
             return cosine_embedding_loss(in[0], in[1], in[2], a[0].number, a[1].text);
           });
  add_loss("multilabel_soft_margin_loss", "mean over the classes of binary cross-entropies",
           "-(target log s(x) + (1 - target) log s(-x))",
           {x_operand(), target_operand(), weight_operand()}, {}, [](Operands in, const Attrs& a) {
             return multilabel_soft_margin_loss(in[0], in[1], operand(in, 2), a[0].text);
           });
  add_loss("triplet_margin_loss",
           "the anchor should be nearer to the positive than to the negative",
           "max(0, margin + |a - p| - |a - n|)", three("anchor", "positive", "negative"),
           {margin_attr(1), number_attr("p", 2, "order of the norm"),
            number_attr("eps", 1e-6, "added to the differences"),
            bool_attr("swap", false, "|p - n| instead of |a - n| if it is smaller")},
           [](Operands in, const Attrs& a) {
             return triplet_margin_loss(in[0], in[1], in[2], a[0].number, a[1].number, a[2].number,
                                        flag(a[3]), a[4].text);
           });
}

}  // namespace

void register_losses() {
  register_class_losses();
  register_loss<mse_loss>("mse_loss", "squared difference", "(x - target)^2");
  register_loss<l1_loss>("l1_loss", "absolute difference", "|x - target|");
  register_loss<smooth_l1_loss>("smooth_l1_loss", "a parabola up to beta, a line beyond",
                                "d^2 / 2 beta, |d| - beta / 2 with d = x - target",
                                number_attr("beta", 1, "where the line begins"));
  register_loss<huber_loss>("huber_loss", "a parabola up to delta, a line beyond",
                            "d^2 / 2, delta (|d| - delta / 2) with d = x - target",
                            number_attr("delta", 1, "where the line begins"));
  register_likelihoods();
  register_margins();
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const char* reduction, const Tensor& weight,
                int64_t ignore_index) {
  check_target("nll_loss", x, target, weight);
  return class_loss("nll_loss", x, target, reduction, weight, ignore_index, 0);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const char* reduction,
                     const Tensor& weight, int64_t ignore_index, double smoothing) {
  const char* op = "cross_entropy";
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(ErrorKind::value, op, "label_smoothing is ", smoothing, ", expected 0 to 1");
  const bool probabilities =
      is_real_float(target.dtype()) && logits.rank() > 0 && logits.sizes() == target.sizes();
  if (!probabilities) {
    check_target(op, logits, target, weight);
    return class_loss(op, log_softmax(logits, class_axis(logits)), target, reduction, weight,
                      ignore_index, smoothing);
  }
  const int64_t axis = class_axis(logits);
  Tensor share = target;
  if (smoothing != 0)
    share = add(mul(target, 1 - smoothing), smoothing / double(logits.size(axis)));
  if (weight.defined()) {
    if (!(weight.sizes() == Shape{logits.size(axis)}))
      fail(ErrorKind::shape, op, "the weight has shape ", weight.sizes(),
           ", expected one per class, (", logits.size(axis), ",)");
    share = mul(share, per_class(weight, logits));
  }
  return reduced(op, neg(sum(mul(share, log_softmax(logits, axis)), {axis})), reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, double p, double margin,
                         const char* reduction, const Tensor& weight) {
  const char* op = "multi_margin_loss";
  if (p != 1 && p != 2) fail(ErrorKind::value, op, "p is ", p, ", expected 1 or 2");
  if (x.rank() > 2)
    fail(ErrorKind::shape, op, "the input has shape ", x.sizes(), ", expected (n, classes)");
  // One sample may have its axis on either side only; the result has the target's.
  if (x.rank() == 0)
    return multi_margin_loss(unsqueeze(x, 0), target, p, margin, reduction, weight);
  if (x.rank() == 1 && target.sizes() == Shape{1})
    return multi_margin_loss(unsqueeze(x, 0), target, p, margin, reduction, weight);
  if (x.rank() == 2 && x.size(0) == 1 && target.rank() == 0)
    return multi_margin_loss(squeeze(x, {0}), target, p, margin, reduction, weight);
  check_target(op, x, target, weight);
  std::vector<int64_t> numbers(static_cast<size_t>(x.size(-1)));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  const Tensor index = unsqueeze(cast(target, DType::i64), -1);
  const Tensor others = ne(index, Tensor::constant(numbers, {x.size(-1)}, x.device()));
  Tensor cost = relu(add(sub(x, gather(x, -1, index)), margin));
  if (p == 2) cost = square(cost);
  if (weight.defined()) cost = mul(cost, weight_of(weight, index));
  const Tensor total = sum(where(others, cost, 0.0), {-1});
  return reduced(op, div(total, double(x.size(-1))), reduction);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  same_shape("mse_loss", x, target);
  return reduced("mse_loss", square(sub(x, target)), reduction);
}
Tensor l1_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  same_shape("l1_loss", x, target);
  return reduced("l1_loss", abs(sub(x, target)), reduction);
}

// With c = d held in [-delta, delta] both pieces are c^2 / 2 + delta (|d| - |c|), finite where d
// is.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, const char* reduction) {
  same_shape("huber_loss", x, target);
  if (!(delta > 0)) fail(ErrorKind::value, "huber_loss", "delta is ", delta, ", expected above 0");
  const Tensor d = sub(x, target), c = clamp(d, -delta, delta);
  return reduced("huber_loss", add(mul(square(c), 0.5), mul(sub(abs(d), abs(c)), delta)),
                 reduction);
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, const char* reduction) {
  const char* op = "smooth_l1_loss";
  same_shape(op, x, target);
  if (!(beta >= 0)) fail(ErrorKind::value, op, "beta is ", beta, ", expected at least 0");
  if (beta == 0) return reduced(op, abs(sub(x, target)), reduction);
  const Tensor d = sub(x, target), c = clamp(d, -beta, beta);
  return reduced(op, add(mul(square(c), 0.5 / beta), sub(abs(d), abs(c))), reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, const char* reduction, bool log_target) {
  same_shape("kl_div", x, target);
  const Tensor loss =
      log_target ? mul(exp(target), sub(target, x)) : sub(entropy_term(target), mul(target, x));
  if (std::string_view(reduction) != "batchmean") return reduced("kl_div", loss, reduction);
  return x.rank() == 0 ? loss : div(sum(loss), double(x.size(0)));
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                            const char* reduction) {
  const char* op = "binary_cross_entropy";
  same_shape(op, x, target);
  const Tensor hit = mul(target, bounded_log(x)),
               miss = mul(sub(1.0, target), bounded_log(sub(1.0, x)));
  return reduced(op, weighted(op, neg(add(hit, miss)), weight), reduction);
}
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const char* reduction) {
  return binary_cross_entropy(x, target, {}, reduction);
}

// -w t log s - (1 - t) log(1 - s) = (1 - t) x - (1 + (w - 1) t) logsigmoid(x), which never
// overflows.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, const char* reduction) {
  const char* op = "binary_cross_entropy_with_logits";
  same_shape(op, x, target);
  Tensor rise = logsigmoid(x);
  if (pos_weight.defined()) rise = mul(rise, add(weighted(op, target, sub(pos_weight, 1.0)), 1.0));
  const Tensor loss = sub(mul(sub(1, target), x), rise);
  return reduced(op, weighted(op, loss, weight), reduction);
}
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const char* reduction) {
  return binary_cross_entropy_with_logits(x, target, {}, {}, reduction);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input, bool full,
                        double eps, const char* reduction) {
  same_shape("poisson_nll_loss", x, target);
  Tensor loss = log_input ? sub(exp(x), mul(target, x)) : sub(x, mul(target, log(add(x, eps))));
  if (full) {
    const Tensor large = gt(target, 1.0), t = where(large, target, 1.0);
    const Tensor stirling = add(sub(mul(t, log(t)), t), mul(log(mul(t, kTwoPi)), 0.5));
    loss = add(loss, where(large, stirling, 0.0));
  }
  return reduced("poisson_nll_loss", loss, reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                         double eps, const char* reduction) {
  const char* op = "gaussian_nll_loss";
  // As shapes broadcast, but a variance per sample, one axis short, is one for its row.
  Shape row = x.sizes();
  if (!row.empty()) row.pop_back();
  const Tensor own = var.rank() + 1 == x.rank() && var.sizes() == row ? unsqueeze(var, -1) : var;
  broadcast_shapes(op, broadcast_shapes(op, x.sizes(), target.sizes()), own.sizes());
  Tensor lift;  // 0 but where var is below eps; a constant
  {
    const NoGrad off;
    const Tensor v = own.detach();
    lift = sub(clamp(v, eps, kInfinity), v);
  }
  const Tensor held = add(own, lift);
  Tensor loss = mul(add(log(held), div(square(sub(x, target)), held)), 0.5);
  if (full) loss = add(loss, 0.5 * std::log(kTwoPi));
  return reduced(op, loss, reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  same_shape("soft_margin_loss", x, target);
  return reduced("soft_margin_loss", neg(logsigmoid(mul(x, target))), reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            const char* reduction) {
  same_shape("hinge_embedding_loss", x, target);
  const Tensor near = where(eq(target, -1), 0.0, x);
  const Tensor far = where(eq(target, 1), 0.0, relu(sub(margin, x)));
  return reduced("hinge_embedding_loss", add(near, far), reduction);
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           const char* reduction) {
  same_shape("margin_ranking_loss", x1, x2);
  same_shape("margin_ranking_loss", x1, target);
  return reduced("margin_ranking_loss", relu(add(mul(neg(target), sub(x1, x2)), margin)),
                 reduction);
}

// PyTorch's cosine here: 1e-12 is added to the squares of the lengths.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             double margin, const char* reduction) {
  const char* op = "cosine_embedding_loss";
  same_shape(op, x1, x2);
  Shape rows = x1.sizes();
  if (!rows.empty()) rows.pop_back();
  if (x1.rank() == 0 || !(rows == target.sizes()))
    fail(ErrorKind::shape, op, "the inputs have shape ", x1.sizes(), ", the target ",
         target.sizes(), "; expected (n, d) and (n,)");
  const Tensor a = wide(x1), b = wide(x2);
  const auto square_length = [](const Tensor& x) { return add(sum(square(x), {-1}), 1e-12); };
  const Tensor cosine = div(sum(mul(a, b), {-1}), sqrt(mul(square_length(a), square_length(b))));
  const Tensor apart = where(eq(target, -1), relu(sub(cosine, margin)), 0.0);
  const Tensor loss = where(eq(target, 1), sub(1.0, cosine), apart);
  const Tensor both[] = {x1, x2};
  const DType dtype = result_dtype(both);
  return reduced(op, is_floating(dtype) ? cast(loss, dtype) : loss, reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   const char* reduction) {
  const char* op = "multilabel_soft_margin_loss";
  same_shape(op, x, target);
  if (x.rank() == 0)
    fail(ErrorKind::shape, op, "the input is one number, expected an axis of classes");
  const Tensor loss = binary_cross_entropy_with_logits(x, target, weight, {}, "none");
  return reduced(op, mean(loss, {-1}), reduction);
}
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const char* reduction) {
  return multilabel_soft_margin_loss(x, target, {}, reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, const char* reduction) {
  if (!(margin > 0))
    fail(ErrorKind::value, "triplet_margin_loss", "margin is ", margin, ", expected above 0");
  same_shape("triplet_margin_loss", anchor, positive);
  same_shape("triplet_margin_loss", anchor, negative);
  const Tensor near = pairwise_distance(anchor, positive, p, eps);
  Tensor far = pairwise_distance(anchor, negative, p, eps);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps));
  return reduced("triplet_margin_loss", relu(add(sub(near, far), margin)), reduction);
}

}  // namespace gradus
