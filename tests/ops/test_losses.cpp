// Norms, normalisation layers, losses and attention where the op table cannot draw: zeros, bounds,
// infinities, masks, targets of another kind, running statistics. Expected numbers are worked out
// by hand or are PyTorch's documented behaviour.
#include "ops/nn/loss.hpp"
#include "engine/forward.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/not_finite.hpp"

#include <limits>
#include <numbers>

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor slope(const Tensor& y, const Tensor& x, bool create_graph = false) {
  return grad({y}, {x}, {}, {.create_graph = create_graph})[0];
}
bool all(const Tensor& t, double value) {
  for (const double v : values(t))
    if (v != value) return false;
  return true;
}
bool finite(const Tensor& t) {
  for (const double v : values(is_complex(t.dtype()) ? abs(t.detach()) : t))
    if (!std::isfinite(v)) return false;
  return true;
}
std::vector<double> weights_of(const Tensor& q, const Tensor& k, const Tensor& mask) {
  const Tensor eye = f64({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  return values(scaled_dot_product_attention(q, k, eye, mask));
}

}  // namespace

TEST_CASE("norm: where all is 0 its gradients of first and second order are 0") {
  for (const DType dtype : {DType::f64, DType::c128})
    for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
      const Tensor x = leaf(Tensor::zeros({4}, dtype));
      const Tensor y = norm(x, p);
      CHECK(y.item() == 0);
      const Tensor dx = slope(y, x, true);
      CHECK_MESSAGE(all(abs(dx), 0), "p ", p);
      if (!dx.requires_grad()) continue;
      const Tensor total = sum(is_complex(dtype) ? real(dx) : dx);
      const Tensor ddx = grad({total}, {x}, {}, {.allow_unused = true})[0];
      if (ddx.defined()) CHECK_MESSAGE(all(abs(ddx), 0), "p ", p);
    }
}

TEST_CASE("norm: single zeros beside other elements give no NaN in any order") {
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, -1.0, kInf, -kInf}) {
    const Tensor x = leaf(f64({0, 3, -4}, {3}));
    const Tensor dx = slope(norm(x, p), x, true);
    CHECK_MESSAGE(finite(dx), "p ", p);
    CHECK(values(dx)[0] == 0);
    if (!dx.requires_grad()) continue;
    const Tensor ddx = grad({sum(dx)}, {x}, {}, {.allow_unused = true})[0];
    if (ddx.defined()) CHECK_MESSAGE(finite(ddx), "p ", p);
  }
  CHECK(norm(f64({0, 3, -4}, {3}), 0).item() == 2);
  CHECK(norm(f64({0, 3, -4}, {3}), -1).item() == 0);
  CHECK(std::isnan(norm(f64({kNaN, 1}, {2})).item()));
}

TEST_CASE("norm: an even split among equal winners of the infinity norm") {
  const Tensor x = leaf(f64({2, -2, 1}, {3}));
  CHECK(close(values(slope(norm(x, kInf), x)), {0.5, -0.5, 0}));
}

TEST_CASE("cdist, cosine_similarity and normalize at coinciding points and zero vectors") {
  const Tensor a = leaf(f64({1, 2, 3, 4}, {2, 2}));
  const Tensor d = cdist(a, a);
  CHECK(values(d)[0] == 0);
  CHECK(finite(slope(sum(d), a)));
  const Tensor zero = leaf(f64({0, 0}, {1, 2})), one = f64({3, 4}, {1, 2});
  CHECK(cosine_similarity(zero, one, 1, 0.5).item() == 0);
  CHECK(close(values(slope(cosine_similarity(zero, one, 1, 0.5), zero)), {1.2, 1.6}));
  CHECK(close(values(slope(sum(normalize(zero, 2, {1}, 0.25)), zero)), {4, 4}));
}

TEST_CASE("16-bit floats: squares and means that f16 could not hold") {
  const Tensor x = cast(f32({300, 400, 500, 1000}, {1, 4}), DType::f16);
  CHECK(norm(x).dtype() == DType::f16);
  CHECK(close(values(norm(x)), {1225}, 1e-3));
  CHECK(close(values(layer_norm(x, {4})), {-0.9283, -0.5570, -0.1857, 1.6710}, 1e-3));
  CHECK(close(values(rms_norm(x, {4})), {0.4899, 0.6532, 0.8165, 1.6330}, 1e-3));
  CHECK(close(values(normalize(x)), {0.2449, 0.3266, 0.4082, 0.8165}, 1e-3));
}

TEST_CASE("batch_norm moves the running statistics, the variance with n - 1") {
  const Tensor x = f64({1, 10, 3, 10, 5, 40}, {3, 2});  // means 3, 20; variances 8/3, 200
  const Tensor mean = f64({0, 0}, {2}), var = f64({1, 1}, {2});
  const uint64_t before = mean.version();
  const Tensor y = batch_norm(x, mean, var, {}, {}, true, 0.1, 0);
  CHECK(close(values(y), {-std::sqrt(1.5), -std::sqrt(0.5), 0, -std::sqrt(0.5), std::sqrt(1.5),
                          std::sqrt(2)}));
  CHECK(close(values(mean), {0.3, 2}));
  CHECK(close(values(var), {0.9 + 0.4, 0.9 + 30}));
  CHECK(mean.version() > before);
  // Not training: by them, and they stay.
  const Tensor z = batch_norm(x, mean, var, {}, {}, false, 0.1, 0);
  CHECK(close({values(z)[0]}, {0.7 / std::sqrt(1.3)}));
  CHECK(close(values(mean), {0.3, 2}));
  // Without running statistics training still works, evaluation is refused.
  CHECK(close(values(batch_norm(x, {}, {}, {}, {}, true, 0.1, 0)), values(y)));
  CHECK(error_of([&] { batch_norm(x, {}, {}); }) ==
        "batch_norm: needs running_mean and running_var when it is not training");
  // The op of the list writes nowhere.
  const uint64_t version = mean.version();
  get_op("batch_norm").call(Tensors{x, mean, var}, {true, 0.1, 1e-5});
  CHECK(mean.version() == version);
}

TEST_CASE("batch_norm: the running statistics carry no history and no tangent") {
  const Tensor mean = f64({0, 0}, {2}), var = f64({1, 1}, {2});
  const Tensor x = leaf(f64({1, 10, 3, 10, 5, 40}, {3, 2}));
  batch_norm(x, mean, var, {}, {}, true);
  CHECK_FALSE(mean.requires_grad());
  ForwardLevel level;
  level.set_tangent(x, x.detach());
  CHECK_NOTHROW(batch_norm(x, mean, var, {}, {}, true));
  CHECK_FALSE(mean.tangent().defined());
}

TEST_CASE("cross_entropy: the mean divides by the weights of the targets") {
  const Tensor x = f64({1, 2, 0, 0, 1, 3}, {2, 3}), w = f64({1, 2, 5}, {3});
  const double a = std::log(std::exp(1) + std::exp(2) + 1) - 2;  // class 1, weight 2
  const double b = std::log(1 + std::exp(1) + std::exp(3)) - 0;  // class 0, weight 1
  const Tensor t = i64({1, 0}, {2});
  CHECK(close(values(cross_entropy(x, t, "mean", w)), {(2 * a + b) / 3}));
  CHECK(close(values(cross_entropy(x, t, "sum", w)), {2 * a + b}));
  CHECK(close(values(cross_entropy(x, i64({1, -100}, {2}), "mean", w)), {a}));
  CHECK(close(values(cross_entropy(x, i64({1, -100}, {2}), "none", w)), {2 * a, 0}));
}

TEST_CASE("cross_entropy: ignored targets have no gradient; if all are ignored the mean is NaN") {
  const Tensor x = leaf(f64({1, 2, 0, 0, 1, 3}, {2, 3}));
  const Tensor dx = slope(cross_entropy(x, i64({1, -100}, {2})), x);
  CHECK(all(slice(dx, 0, 1), 0));
  CHECK(std::isnan(cross_entropy(x, i64({-100, -100}, {2})).item()));
  CHECK(cross_entropy(x, i64({-100, -100}, {2}), "sum").item() == 0);
  // An infinite logarithm at an ignored place does no harm.
  const Tensor lp = leaf(f64({-kInf, -1, -2, -3}, {2, 2}));
  CHECK(close(values(slope(nll_loss(lp, i64({7, 1}, {2}), "mean", {}, 7), lp)), {0, 0, 0, -1}));
  // Targets in u8 know no -100.
  CHECK(nll_loss(lp, cast(i64({1, 1}, {2}), DType::u8)).item() == 2);
}

TEST_CASE("cross_entropy: probabilities as targets agree with indices where both say the same") {
  const Tensor x = leaf(f64({1, 2, 0, 0, 1, 3, -1, 0.5, 0.25, 1, 1, 2}, {2, 3, 2}));
  const Tensor t = i64({0, 2, 1, 1}, {2, 2});
  const Tensor one_hot = transpose(nn::one_hot(t, 3, DType::f64), 1, 2);
  const Tensor w = f64({1, 2, 5}, {3});
  for (const double smoothing : {0.0, 0.3})
    for (const char* reduction : {"sum", "none"}) {
      const Tensor a = cross_entropy(x, t, reduction, {}, -100, smoothing);
      const Tensor b = cross_entropy(x, one_hot, reduction, {}, -100, smoothing);
      CHECK(close(values(a), values(b)));
      CHECK(close(values(slope(sum(a), x)), values(slope(sum(b), x))));
    }
  CHECK(
      close(values(cross_entropy(x, t, "none", w)), values(cross_entropy(x, one_hot, "none", w))));
  // The mean over probabilities counts targets, whatever the weights.
  CHECK(close(values(cross_entropy(x, one_hot, "mean", w)),
              {values(cross_entropy(x, t, "sum", w))[0] / 4}));
  // A proper mixture, and its slope softmax - target.
  const Tensor z = leaf(f64({0, std::log(3.0)}, {2})), p = f64({0.5, 0.5}, {2});
  CHECK(close(values(cross_entropy(z, p)), {0.5 * std::log(4.0) + 0.5 * std::log(4.0 / 3)}));
  CHECK(close(values(slope(cross_entropy(z, p), z)), {-0.25, 0.25}));
}

TEST_CASE("binary_cross_entropy: logarithms stop at -100, with finite gradients") {
  const Tensor x = leaf(f64({0, 1, 0, 1, 0.25}, {5})), t = f64({1, 0, 0, 1, 1}, {5});
  const Tensor y = binary_cross_entropy(x, t, "none");
  CHECK(close(values(y), {100, 100, 0, 0, std::log(4.0)}));
  CHECK(close(values(slope(sum(y), x)), {-1e12, 1e12, 1, -1, -4}));
  CHECK(std::isnan(binary_cross_entropy(f64({-0.5}, {1}), f64({1}, {1})).item()));
  CHECK(std::isnan(binary_cross_entropy(f64({1.5}, {1}), f64({0}, {1})).item()));
  // Logits of any size: no bound is needed.
  const Tensor z = f64({-1000, 1000}, {2});
  CHECK(close(values(binary_cross_entropy_with_logits(z, f64({1, 0}, {2}), "none")), {1000, 1000}));
}

TEST_CASE("kl_div and poisson_nll_loss at a target of 0") {
  const Tensor t = leaf(f64({0, 1}, {2})), x = f64({-1, -2}, {2});
  CHECK(close(values(kl_div(x, t, "none")), {0, 2}));
  CHECK(values(slope(kl_div(x, t, "sum"), t)) == std::vector<double>{-kInf, 3});
  CHECK(close(values(kl_div(reshape(x, {2, 1}), reshape(t, {2, 1}), "batchmean")), {1}));
  CHECK(finite(slope(poisson_nll_loss(x, t, true, true), t)));
}

TEST_CASE("gaussian_nll_loss: the bound of the variance does not stop its gradient") {
  const Tensor var = leaf(f64({1e-9, 4}, {2})), x = f64({2, 2}, {2}), t = f64({1, 0}, {2});
  const Tensor y = gaussian_nll_loss(x, t, var, false, 0.25, "none");
  CHECK(close(values(y), {0.5 * (std::log(0.25) + 4), 0.5 * (std::log(4.0) + 1)}));
  // (1 / v - d^2 / v^2) / 2 with v = 0.25 and v = 4
  CHECK(close(values(slope(sum(y), var)), {0.5 * (4 - 16), 0}));
  CHECK(close(
      values(gaussian_nll_loss(x, t, f64({1, 1}, {2}), true, 1e-6, "none")),
      {0.5 * (1 + std::log(2 * std::numbers::pi)), 0.5 * (4 + std::log(2 * std::numbers::pi))}));
}

TEST_CASE("margins: both targets, and another one as PyTorch counts it") {
  const Tensor x = f64({0.5, 0.5, 3, 0.5}, {4}), t = f64({1, -1, -1, 0}, {4});
  CHECK(close(values(hinge_embedding_loss(x, t, 1, "none")), {0.5, 0.5, 0, 1}));
  const Tensor a = f64({1, 0, 1, 0, 1, 0}, {3, 2}), b = f64({1, 1, 1, 1, 0, 1}, {3, 2});
  const double c = std::sqrt(0.5);
  CHECK(close(values(cosine_embedding_loss(a, b, i64({1, -1, -1}, {3}), 0.2, "none")),
              {1 - c, c - 0.2, 0}));
  const Tensor zero = leaf(f64({0, 0}, {1, 2}));
  CHECK(finite(slope(cosine_embedding_loss(zero, f64({1, 2}, {1, 2}), i64({1}, {1})), zero)));
}

TEST_CASE("margins: dtypes promote; u8 wraps where PyTorch's does") {
  const Tensor x = f64({1, 0, 1, 0}, {2, 2}), t = i64({1, -1}, {2});
  CHECK(cosine_embedding_loss(cast(x, DType::f16), x, t).dtype() == DType::f64);
  const Tensor whole = cast(x, DType::i32);
  const Tensor loss = cosine_embedding_loss(whole, whole, t, 0, "none");
  CHECK(loss.dtype() == DType::f32);
  CHECK(close(values(cast(loss, DType::f64)), {0, 1}));
  CHECK(multilabel_soft_margin_loss(cast(x, DType::f16), whole).dtype() == DType::f16);
  const Tensor one = cast(f64({1}, {1}), DType::u8), two = cast(f64({2}, {1}), DType::u8);
  CHECK(margin_ranking_loss(one, two, i64({-1}, {1})).item() == 255);
}

TEST_CASE("multi_margin_loss: what lies just at the margin has no gradient") {
  const Tensor x = leaf(f64({1, 0, 0.5}, {1, 3}));
  CHECK(values(slope(multi_margin_loss(x, i64({0}, {1}), 1, 1, "sum"), x)) ==
        std::vector<double>{-1.0 / 3, 0, 1.0 / 3});
}

TEST_CASE("pieces: an infinite difference has a finite gradient") {
  const Tensor x = leaf(f64({kInf, -kInf, 0.5}, {3})), t = f64({0, 0, 0}, {3});
  CHECK(close(values(slope(huber_loss(x, t, 2, "sum"), x)), {2, -2, 0.5}));
  CHECK(close(values(slope(smooth_l1_loss(x, t, 2, "sum"), x)), {1, -1, 0.25}));
  const Tensor w = leaf(f64({0.5}, {1}));
  CHECK(close(values(slope(sum(prelu(f64({kInf, -2}, {2}), w)), w)), {-2}));
  // A matrix that is not read may hold anything.
  const Tensor a = f64({1, 2}, {1, 2}), b = f64({3, 4}, {2, 1});
  CHECK(addmm(f64({kNaN}, {1, 1}), a, b, 0, 2).item() == 22);
}

TEST_CASE("attention: an additive mask of 0 and -inf is the bool mask") {
  const Tensor q = f64({1, 0, 2, 1, 0, 1}, {3, 2}), k = f64({0, 1, 1, 1, 2, 0}, {3, 2});
  const Tensor seen = cast(i64({1, 0, 1, 0, 0, 0, 1, 1, 1}, {3, 3}), DType::bool_);
  const Tensor added = where(seen, f64({0}, {1}), -kInf);
  const auto w = weights_of(q, k, seen);
  CHECK(close(w, weights_of(q, k, added)));
  CHECK(w[1] == 0);
  CHECK(std::abs(w[0] + w[2] - 1) < 1e-12);
  CHECK((w[3] == 0 && w[4] == 0 && w[5] == 0));  // the row that may look nowhere
  // Added numbers multiply the weights.
  const Tensor half = f64({std::log(0.5), 0, 0}, {3});
  const auto plain = weights_of(q, k, {}), less = weights_of(q, k, half);
  CHECK(std::abs(less[0] / less[1] - 0.5 * plain[0] / plain[1]) < 1e-12);
}

TEST_CASE("attention: rows that may look nowhere have gradient 0, not NaN") {
  for (const bool additive : {false, true}) {
    const Tensor q = leaf(f64({1, 0, 2, 1}, {2, 2})), k = leaf(f64({0, 1, 1, 1}, {2, 2}));
    const Tensor v = leaf(f64({1, 2, 3, 5}, {2, 2}));
    const Tensor seen = cast(i64({1, 1, 0, 0}, {2, 2}), DType::bool_);
    Tensor mask = seen;
    if (additive) mask = leaf(where(seen, f64({0}, {1}), -kInf).detach());
    const Tensor y = scaled_dot_product_attention(q, k, v, mask);
    CHECK(all(slice(y, 0, 1), 0));
    const Tensors g = grad({sum(y)}, {q, k, v}, {}, {.create_graph = true});
    for (const Tensor& t : g) CHECK(finite(t));
    CHECK(all(slice(g[0], 0, 1), 0));
    CHECK(finite(slope(sum(g[0] * g[0]), q, true)));
    if (additive) CHECK(finite(slope(sum(y), mask)));
  }
}

TEST_CASE("attention: causal is the lower triangle; dropout zeroes weights and scales the others") {
  const Tensor q = f64({1, 0, 2, 1, 0, 1}, {3, 2}), k = f64({0, 1, 1, 1, 2, 0}, {3, 2});
  const Tensor eye = f64({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  const Tensor lower = cast(i64({1, 0, 0, 1, 1, 0, 1, 1, 1}, {3, 3}), DType::bool_);
  CHECK(close(values(scaled_dot_product_attention(q, k, eye, {}, true)), weights_of(q, k, lower)));
  const auto plain = weights_of(q, k, {});
  const auto dropped = values(scaled_dot_product_attention(q, k, eye, {}, false, 0, 0.5));
  int zeros = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    zeros += dropped[i] == 0;
    CHECK((dropped[i] == 0 || std::abs(dropped[i] - 2 * plain[i]) < 1e-12));
  }
  CHECK(zeros > 0);
}
