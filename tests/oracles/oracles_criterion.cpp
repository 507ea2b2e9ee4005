// Oracles and bad inputs of the losses: one number per element by the definition, in long double.
// Domains are
// small: no overflow to guard against.
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::testing {

namespace {

using R = long double;
using rows::Ints;
const R kPi = std::acos(R(-1));

Host finish(const Call& c, const Host& losses) {
  const std::string reduction = c.text("reduction");
  if (reduction == "none") return losses;
  Wide sum = 0;
  for (const Wide& x : losses.values) sum += x;
  if (reduction == "mean") sum /= R(losses.values.size());
  if (reduction == "batchmean" && !losses.sizes.empty()) sum /= R(losses.sizes[0]);
  return {{}, {sum}};
}

// x as it broadcasts against index i.
R at(const Host& x, const Shape& i) {
  Shape own(i.begin() + (i.size() - x.sizes.size()), i.end());
  for (size_t a = 0; a < own.size(); ++a)
    if (x.sizes[a] == 1) own[a] = 0;
  return x.at(own).real();
}

using Cost = R (*)(const Call&, R x, R target);
Oracle pair(Cost cost) {
  return [=](const Call& c) {
    return finish(c, build(c.in[0].sizes, [&](const Shape& i) {
                    const R w = c.in.size() > 2 ? at(c.in[2], i) : R(1);
                    return Wide(w * cost(c, at(c.in[0], i), at(c.in[1], i)));
                  }));
  };
}

Host l1_loss(const Call& c) {
  return finish(c, build(c.in[0].sizes, [&](const Shape& i) {
                  const Wide d = c.in[0].at(i) - c.in[1].at(i);
                  return Wide(std::hypot(d.real(), d.imag()));
                }));
}

// ---- classes

// x at element i of the target and class k.
R of_class(const Host& x, const Shape& i, int64_t k) {
  Shape place = i;
  place.insert(i.empty() ? 0 : 1, k);
  return x.at(place).real();
}
int64_t class_count(const Host& x) { return x.sizes[x.sizes.size() > 1 ? 1 : 0]; }

Oracle classes(bool logits) {
  return [=](const Call& c) -> Host {
    const Host &x = c.in[0], &target = c.in[1];
    const int64_t n = class_count(x);
    const R smoothing = logits ? R(c.number("label_smoothing")) : R(0);
    const auto weight = [&](int64_t k) { return c.in.size() > 2 ? c.in[2].at({k}).real() : R(1); };
    R shares = 0;
    const Host losses = build(target.sizes, [&](const Shape& i) {
      const int64_t own = int64_t(target.at(i).real());
      if (own == c.integer("ignore_index")) return Wide(0);
      shares += weight(own);
      R total = 0;
      for (int64_t k = 0; k < n; ++k) total += std::exp(of_class(x, i, k));
      R loss = 0;
      for (int64_t k = 0; k < n; ++k) {
        const R mass = (k == own ? 1 - smoothing : R(0)) + smoothing / R(n);
        loss -= mass * weight(k) * (of_class(x, i, k) - (logits ? std::log(total) : R(0)));
      }
      return Wide(loss);
    });
    if (c.text("reduction") != "mean") return finish(c, losses);
    R sum = 0;
    for (const Wide& v : losses.values) sum += v.real();
    return {{}, {Wide(sum / shares)}};
  };
}

Host multi_margin_loss(const Call& c) {
  const Host& x = c.in[0];
  return finish(c, build(c.in[1].sizes, [&](const Shape& i) {
                  const int64_t own = int64_t(c.in[1].at(i).real()), n = x.sizes.back();
                  R sum = 0;
                  for (int64_t k = 0; k < n; ++k) {
                    Shape a = i, b = i;
                    a.push_back(own);
                    b.push_back(k);
                    const R gap = R(c.number("margin")) - x.at(a).real() + x.at(b).real();
                    if (k != own && gap > 0) sum += c.number("p") == 2 ? gap * gap : gap;
                  }
                  return Wide(sum / R(n) * (c.in.size() > 2 ? c.in[2].at({own}).real() : R(1)));
                }));
}

// ---- likelihoods and margins

Host binary_with_logits(const Call& c) {
  return finish(
      c, build(c.in[0].sizes, [&](const Shape& i) {
        const R x = at(c.in[0], i), t = at(c.in[1], i);
        const R w = c.in.size() > 2 ? at(c.in[2], i) : R(1);
        const R p = c.in.size() > 3 ? at(c.in[3], i) : R(1);
        return Wide(w * (p * t * std::log(1 + std::exp(-x)) + (1 - t) * std::log(1 + std::exp(x))));
      }));
}

R poisson(const Call& c, R x, R t) {
  R loss = c.integer("log_input") ? std::exp(x) - t * x : x - t * std::log(x + c.number("eps"));
  if (c.integer("full") && t > 1) loss += t * std::log(t) - t + std::log(2 * kPi * t) / 2;
  return loss;
}

Host gaussian(const Call& c) {
  Host var = c.in[2];
  if (var.sizes.size() + 1 == c.in[0].sizes.size()) var.sizes.push_back(1);
  return finish(c, build(c.in[0].sizes, [&](const Shape& i) {
                  const R v = std::fmax(at(var, i), R(c.number("eps")));
                  const R d = at(c.in[0], i) - at(c.in[1], i);
                  return Wide((std::log(c.integer("full") ? 2 * kPi * v : v) + d * d / v) / 2);
                }));
}

Host margin_ranking(const Call& c) {
  return finish(c, build(c.in[0].sizes, [&](const Shape& i) {
                  const R d = at(c.in[0], i) - at(c.in[1], i);
                  return Wide(std::fmax(R(c.number("margin")) - at(c.in[2], i) * d, R(0)));
                }));
}

std::vector<R> row_of(const Host& x, const Shape& i) {
  std::vector<R> row;
  for (int64_t k = 0; k < x.sizes.back(); ++k) {
    Shape place = i;
    place.push_back(k);
    row.push_back(x.at(place).real());
  }
  return row;
}
R dot(const std::vector<R>& a, const std::vector<R>& b) {
  R sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

Host cosine_embedding(const Call& c) {
  return finish(c, build(c.in[2].sizes, [&](const Shape& i) {
                  const auto a = row_of(c.in[0], i), b = row_of(c.in[1], i);
                  const R cosine =
                      dot(a, b) / std::sqrt(dot(a, a) + R(1e-12)) / std::sqrt(dot(b, b) + R(1e-12));
                  return Wide(at(c.in[2], i) > 0 ? 1 - cosine
                                                 : std::fmax(cosine - R(c.number("margin")), R(0)));
                }));
}

Host multilabel(const Call& c) {
  Shape samples = c.in[0].sizes;
  samples.pop_back();
  return finish(c, build(samples, [&](const Shape& i) {
                  const auto x = row_of(c.in[0], i), t = row_of(c.in[1], i);
                  R sum = 0;
                  for (size_t k = 0; k < x.size(); ++k) {
                    const R s = 1 / (1 + std::exp(-x[k]));
                    const R w = c.in.size() > 2 ? c.in[2].values[k].real() : R(1);
                    sum -= w * (t[k] * std::log(s) + (1 - t[k]) * std::log(1 - s));
                  }
                  return Wide(sum / R(x.size()));
                }));
}

Host triplet(const Call& c) {
  const R p = c.number("p");
  const auto distance = [&](const std::vector<R>& a, const std::vector<R>& b) {
    R sum = 0;
    for (size_t k = 0; k < a.size(); ++k)
      sum += std::pow(std::fabs(a[k] - b[k] + R(c.number("eps"))), p);
    return std::pow(sum, 1 / p);
  };
  Shape samples = c.in[0].sizes;
  samples.pop_back();
  return finish(c, build(samples, [&](const Shape& i) {
                  const auto a = row_of(c.in[0], i), b = row_of(c.in[1], i), n = row_of(c.in[2], i);
                  R far = distance(a, n);
                  if (c.integer("swap")) far = std::fmin(far, distance(b, n));
                  return Wide(std::fmax(R(c.number("margin")) + distance(a, b) - far, R(0)));
                }));
}

}  // namespace

void add_criterion_oracles(std::map<std::string, Oracle>& to) {
  to["nll_loss"] = classes(false);
  to["cross_entropy"] = classes(true);
  to["multi_margin_loss"] = multi_margin_loss;
  to["mse_loss"] = pair([](const Call&, R x, R t) { return x * x - 2 * x * t + t * t; });
  to["l1_loss"] = l1_loss;
  to["smooth_l1_loss"] = pair([](const Call& c, R x, R t) {
    const R d = std::fabs(x - t), beta = c.number("beta");
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
  });
  to["huber_loss"] = pair([](const Call& c, R x, R t) {
    const R d = std::fabs(x - t), delta = c.number("delta");
    return d < delta ? d * d / 2 : delta * (d - delta / 2);
  });
  to["kl_div"] = pair([](const Call& c, R x, R t) {
    return c.integer("log_target") ? std::exp(t) * (t - x) : t * std::log(t / std::exp(x));
  });
  to["binary_cross_entropy"] = pair([](const Call&, R x, R t) {
    return -std::log(std::pow(x, t)) - std::log(std::pow(1 - x, 1 - t));
  });
  to["binary_cross_entropy_with_logits"] = binary_with_logits;
  to["poisson_nll_loss"] = pair(poisson);
  to["gaussian_nll_loss"] = gaussian;
  to["soft_margin_loss"] =
      pair([](const Call&, R x, R t) { return std::log(1 + std::exp(-t * x)); });
  to["hinge_embedding_loss"] = pair([](const Call& c, R x, R t) {
    return t > 0 ? x : std::fmax(R(0), R(c.number("margin")) - x);
  });
  to["margin_ranking_loss"] = margin_ranking;
  to["cosine_embedding_loss"] = cosine_embedding;
  to["multilabel_soft_margin_loss"] = multilabel;
  to["triplet_margin_loss"] = triplet;
}

void add_criterion_bad_inputs(std::vector<BadInput>& to) {
  using K = ErrorKind;
  constexpr DType f32 = DType::f32, i64 = DType::i64;
  const auto pair_of = [](const char* op, const char* message) {
    return BadInput{op, {{DType::f32, {4}}, {DType::f32, {5}}}, {}, ErrorKind::shape, message};
  };
  const std::vector<BadInput> bad{
      {"triplet_margin_loss",
       {{f32, {2, 3}}, {f32, {2, 3}}, {f32, {2, 3}}},
       {{"margin", -1.0}},
       K::value,
       "triplet_margin_loss: margin is -1, expected above 0"},
      {"nll_loss",
       {{f32, {4, 3}}, {i64, {4}}, {f32, {4}}},
       {},
       K::shape,
       "nll_loss: the weight has shape (4,), expected one per class, (3,)"},
      {"nll_loss",
       {{f32, {2, 3, 4}}, {i64, {2, 3}}},
       {},
       K::shape,
       "nll_loss: the input has shape (2, 3, 4), the target (2, 3); expected (n, classes) and "
       "(n,), or (n, classes, d, ...) and (n, d, ...)"},
      {"nll_loss", {{f32, {1, 1}}, {i64, {1}}}, {}, K::index, "index"},  // there is no class 1
      {"cross_entropy",
       {{f32, {4, 3}}, {i64, {4}}},
       {{"label_smoothing", 1.5}},
       K::value,
       "cross_entropy: label_smoothing is 1.5, expected 0 to 1"},
      {"cross_entropy",
       {{f32, {4, 3}}, {f32, {4, 3}}, {f32, {4}}},
       {},
       K::shape,
       "cross_entropy: the weight has shape (4,), expected one per class, (3,)"},
      {"multi_margin_loss",
       {{f32, {4, 3}}, {i64, {4}}},
       {{"p", 3.0}},
       K::value,
       "multi_margin_loss: p is 3, expected 1 or 2"},
      pair_of("l1_loss", "l1_loss: the input has shape (4,), the target (5,)"),
      pair_of("smooth_l1_loss", "smooth_l1_loss: the input has shape (4,), the target (5,)"),
      pair_of("huber_loss", "huber_loss: the input has shape (4,), the target (5,)"),
      pair_of("kl_div", "kl_div: the input has shape (4,), the target (5,)"),
      pair_of("binary_cross_entropy", "the input has shape (4,), the target (5,)"),
      pair_of("binary_cross_entropy_with_logits", "the input has shape (4,), the target (5,)"),
      pair_of("poisson_nll_loss", "poisson_nll_loss: the input has shape (4,), the target (5,)"),
      pair_of("soft_margin_loss", "soft_margin_loss: the input has shape (4,), the target (5,)"),
      pair_of("hinge_embedding_loss", "the input has shape (4,), the target (5,)"),
      pair_of("multilabel_soft_margin_loss", "the input has shape (4,), the target (5,)"),
      {"smooth_l1_loss",
       {{f32, {4}}, {f32, {4}}},
       {{"beta", -1.0}},
       K::value,
       "smooth_l1_loss: beta is -1, expected at least 0"},
      {"huber_loss",
       {{f32, {4}}, {f32, {4}}},
       {{"delta", 0.0}},
       K::value,
       "huber_loss: delta is 0, expected above 0"},
      {"l1_loss",
       {{f32, {4}}, {f32, {4}}},
       {{"reduction", "batchmean"}},
       K::value,
       "l1_loss: reduction is \"batchmean\"; expected mean, sum or none"},
      {"binary_cross_entropy",
       {{f32, {4}}, {f32, {4}}, {f32, {3}}},
       {},
       K::shape,
       "binary_cross_entropy: the weight has shape (3,), which does not broadcast to (4,)"},
      {"gaussian_nll_loss",
       {{f32, {4, 3}}, {f32, {4, 3}}, {f32, {5}}},
       {},
       K::shape,
       "gaussian_nll_loss: shapes (4, 3) and (5,) do not broadcast"},
      {"margin_ranking_loss",
       {{f32, {4}}, {f32, {4}}, {i64, {3}}},
       {},
       K::shape,
       "margin_ranking_loss: the input has shape (4,), the target (3,)"},
      {"cosine_embedding_loss",
       {{f32, {4, 3}}, {f32, {4, 3}}, {i64, {3}}},
       {},
       K::shape,
       "cosine_embedding_loss: the inputs have shape (4, 3), the target (3,)"},
      {"triplet_margin_loss",
       {{f32, {4, 3}}, {f32, {4, 3}}, {f32, {4, 2}}},
       {},
       K::shape,
       "triplet_margin_loss: the input has shape (4, 3), the target (4, 2)"},
  };
  to.insert(to.end(), bad.begin(), bad.end());
}

}  // namespace gradus::testing
