// Optimisers and schedules against plain loops in double, and the losses of a small network's first
// steps against a second implementation that shares nothing with the engine.
#include "tests/helpers/nn_helpers.hpp"
#include "ops/nn/loss.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/optim/schedule.hpp"

#include "engine/random.hpp"

#include <doctest/doctest.h>

#include <numbers>

using namespace gradus;
using namespace gradus::testing;

namespace {

// One number through the textbook formulas.
struct SgdByHand {
  optim::Sgd rule;
  double v = 0;
  void step(double& p, double g, int t, double lr) {
    if (rule.weight_decay != 0) g = g + rule.weight_decay * p;
    if (rule.momentum != 0) {
      if (t == 1)
        v = g;
      else
        v = rule.momentum * v + (1 - rule.dampening) * g;
      if (rule.nesterov)
        g = g + rule.momentum * v;
      else
        g = v;
    }
    p = p - lr * g;
  }
};
struct AdamByHand {
  optim::Adam rule;
  double m = 0, v = 0;
  void step(double& p, double g, int t, double lr) {
    if (rule.decoupled)
      p = p - lr * rule.weight_decay * p;
    else
      g = g + rule.weight_decay * p;
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(rule.beta1, t)),
                 v_hat = v / (1 - std::pow(rule.beta2, t));
    p = p - lr * m_hat / (std::sqrt(v_hat) + rule.eps);
  }
};

// Seven steps of a rule on two parameters, on one device, against the hand-written one.
template <class ByHand, class Rule>
void compare(const Rule& rule, Device& device, DType dtype, double tolerance) {
  const int64_t n = 19;
  nn::NamedTensors parameters{
      {"a", cast(Tensor::from(waves(n, 0), {n}, device), dtype).set_requires_grad()},
      {"b", cast(Tensor::from(waves(6, 50), {2, 3}, device), dtype).set_requires_grad()}};
  std::vector<double> p = values(parameters[0].second);
  for (double x : values(parameters[1].second)) p.push_back(x);
  std::vector<ByHand> hands(p.size(), ByHand{rule});
  optim::Optimizer optimizer(parameters, rule);
  for (int t = 1; t <= 7; ++t) {
    const double lr = 0.1 / t, gain = t % 2 ? 1.0 : 0.5;
    std::vector<double> g = waves(int64_t(p.size()), 1000 * t);
    parameters[0].second.set_grad(
        cast(Tensor::from(std::vector<double>(g.begin(), g.begin() + n), {n}, device), dtype));
    parameters[1].second.set_grad(
        cast(Tensor::from(std::vector<double>(g.begin() + n, g.end()), {2, 3}, device), dtype));
    optimizer.step(lr, gain == 1 ? Tensor() : Tensor::full({}, gain, DType::f64, device));
    for (size_t i = 0; i < p.size(); ++i) hands[i].step(p[i], gain * g[i], t, lr);
  }
  std::vector<double> got = values(parameters[0].second);
  for (double x : values(parameters[1].second)) got.push_back(x);
  CHECK(close(got, p, tolerance));
  CHECK(optimizer.steps() == 7);
}

template <class ByHand, class Rule>
void compare_everywhere(const Rule& rule) {
  for (const char* name : {"cpu", "reference"}) {
    CAPTURE(name);
    compare<ByHand>(rule, open_device(name), DType::f64, 1e-12);
    compare<ByHand>(rule, open_device(name), DType::f32, 2e-5);
  }
}

}  // namespace

TEST_CASE("optim: sgd in every variant") {
  for (const optim::Sgd& rule : {optim::Sgd{}, optim::Sgd{0, 0, 0.1, false},
                                 optim::Sgd{0.9, 0, 0, false}, optim::Sgd{0.9, 0.3, 0, false},
                                 optim::Sgd{0.9, 0, 0.1, true}, optim::Sgd{0.5, 0.5, 0.2, false}}) {
    CAPTURE(rule.momentum);
    CAPTURE(rule.dampening);
    compare_everywhere<SgdByHand>(rule);
  }
}

TEST_CASE("optim: adam and adamw") {
  for (const optim::Adam& rule :
       {optim::Adam{}, optim::Adam{0.8, 0.95, 1e-4, 0, false},
        optim::Adam{0.9, 0.999, 1e-8, 0.1, false}, optim::Adam{0.9, 0.999, 1e-8, 0.1, true},
        optim::Adam{0, 0, 1e-3, 0, true}}) {
    CAPTURE(rule.weight_decay);
    CAPTURE(rule.decoupled);
    compare_everywhere<AdamByHand>(rule);
  }
}

TEST_CASE("optim: a state that was saved goes on as if never stopped") {
  const auto run = [](bool stop) {
    nn::NamedTensors p{{"w", Tensor::from(waves(9, 3), {9}).set_requires_grad()}};
    auto optimizer = std::make_unique<optim::Optimizer>(p, optim::Adam{});
    for (int t = 1; t <= 6; ++t) {
      if (stop && t == 4) {
        nn::NamedTensors saved;
        for (const auto& [name, s] : optimizer->state()) saved.emplace_back(name, s.clone_data());
        CHECK(saved[0].first == "w.m");
        CHECK(saved[1].first == "w.v");
        optimizer = std::make_unique<optim::Optimizer>(p, optim::Adam{});
        optimizer->load(saved, 3, "checkpoint");
      }
      p[0].second.set_grad(Tensor::from(waves(9, 100 * t), {9}));
      optimizer->step(0.05);
    }
    return values(p[0].second);
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("optim: rules and parameters that make no sense") {
  const nn::NamedTensors p{{"w", f32({1, 2}, {2}).set_requires_grad()}};
  const auto text = [&](const optim::Rule& rule) {
    return error_of([&] { optim::Optimizer(p, rule); });
  };
  CHECK(text(optim::Sgd{0, 0, 0, true}) ==
        "sgd: nesterov needs a momentum above 0 and no dampening, got momentum 0 and dampening 0");
  CHECK(text(optim::Sgd{-1}) == "sgd: momentum is -1, expected 0 or more");
  CHECK(text(optim::Adam{1.0}) == "adam: beta1 is 1, expected a number from 0 to below 1");
  CHECK(text(optim::Adam{0.9, -0.5, 1e-8, 0, true}) ==
        "adamw: beta2 is -0.5, expected a number from 0 to below 1");
  CHECK(error_of([] { optim::Optimizer({}, optim::Adam{}); }) ==
        "adam: there are no parameters to optimise");
  CHECK(error_of([&] {
          optim::Optimizer({p[0], p[0]}, optim::Adam{});
        }) == "adam: two parameters are called \"w\"");
  CHECK(error_of([] {
          optim::Optimizer({{"x", f32({1}, {1})}}, optim::Sgd{});
        }) == "sgd: the parameter \"x\" is no leaf that requires a gradient");
}

TEST_CASE("optim: an update bumps the version, so a graph that saw the old value refuses") {
  const nn::NamedTensors p{{"w", f64({1, 2}, {2}).set_requires_grad()}};
  optim::Optimizer optimizer(p, optim::Sgd{});
  const Tensor y = sum(square(p[0].second));
  p[0].second.set_grad(f64({1, 1}, {2}));
  optimizer.step(0.1);
  CHECK(error_of([&] { backward(y); }) != "");
  optimizer.zero_grad();
  CHECK_FALSE(p[0].second.grad().defined());
  const auto before = values(p[0].second);
  optimizer.step(0.1);  // no gradient: nothing moves
  CHECK(values(p[0].second) == before);
}

TEST_CASE("optim: clipping by the global norm") {
  const nn::NamedTensors p{{"a", f64({0, 0}, {2}).set_requires_grad()},
                           {"b", f64({0}, {1}).set_requires_grad()}};
  CHECK_FALSE(optim::clip_gain(p, 1).defined());
  p[0].second.set_grad(f64({3, 0}, {2}));
  p[1].second.set_grad(f64({-4}, {1}));
  CHECK(optim::clip_gain(p, 1).item() == doctest::Approx(1 / (5 + 1e-6)).epsilon(1e-12));
  CHECK(optim::clip_gain(p, 6).item() == 1.0);
  p[1].second.set_grad(f64({NAN}, {1}));
  CHECK(std::isnan(optim::clip_gain(p, 6).item()));
}

TEST_CASE("optim: schedules") {
  using Kind = optim::Schedule::Kind;
  CHECK(optim::Schedule{Kind::constant, 0.5}.at(0) == 0.5);
  CHECK(optim::Schedule{Kind::constant, 0.5}.at(1000000) == 0.5);
  const optim::Schedule warm{Kind::constant, 0.4, 4};
  CHECK(warm.at(0) == doctest::Approx(0.1));
  CHECK(warm.at(3) == doctest::Approx(0.4));
  CHECK(warm.at(4) == 0.4);
  const optim::Schedule cosine{Kind::cosine, 1.0, 10, 110, 0.2};
  CHECK(cosine.at(9) == doctest::Approx(1.0));
  CHECK(cosine.at(10) == doctest::Approx(1.0));
  CHECK(cosine.at(60) == doctest::Approx(0.6));
  CHECK(cosine.at(35) == doctest::Approx(0.2 + 0.8 * 0.5 * (1 + std::numbers::sqrt2 / 2)));
  CHECK(cosine.at(110) == doctest::Approx(0.2));
  CHECK(cosine.at(500) == doctest::Approx(0.2));
}

TEST_CASE("optim: schedules in steps and in epochs, against a rate that is carried along") {
  using Kind = optim::Schedule::Kind;
  for (const int64_t unit : {1, 7}) {
    CAPTURE(unit);
    optim::Schedule step{Kind::step, 0.5}, multi{Kind::multistep, 0.5},
        exponential{Kind::exponential, 0.5};
    step.unit = multi.unit = exponential.unit = unit;
    step.gamma = 0.3;
    step.step_size = 3;
    multi.gamma = 0.2;
    multi.milestones = {2, 5, 6};
    exponential.gamma = 0.9;
    double a = 0.5, b = 0.5, c = 0.5;
    for (int64_t s = 0; s < 10 * unit; ++s) {
      if (s > 0 && s % unit == 0) {  // as PyTorch's: one scheduler.step() for each unit
        const int64_t n = s / unit;
        if (n % 3 == 0) a *= 0.3;
        if (n == 2 || n == 5 || n == 6) b *= 0.2;
        c *= 0.9;
      }
      CHECK(step.at(s) == doctest::Approx(a).epsilon(1e-12));
      CHECK(multi.at(s) == doctest::Approx(b).epsilon(1e-12));
      CHECK(exponential.at(s) == doctest::Approx(c).epsilon(1e-12));
    }
  }
  const optim::Schedule linear{Kind::linear, 2.0, 4, 24, 0.1};
  CHECK(linear.at(1) == doctest::Approx(1.0));
  for (int64_t s = 4; s <= 24; ++s)
    CHECK(linear.at(s) == doctest::Approx(2.0 - 1.8 * double(s - 4) / 20));
  CHECK(linear.at(100) == doctest::Approx(0.2));
}

// ---- golden losses: the first ten steps of a seeded network, computed a second time in double by
// loops over arrays, from the same initial weights.

namespace {

class MlpByHand {
 public:
  MlpByHand(const nn::NamedTensors& parameters) {
    for (const auto& [name, p] : parameters) p_.push_back(values(p));
    for (const auto& p : p_) hands_.emplace_back(p.size(), AdamByHand{optim::Adam{}});
  }
  // One step on a batch of n images of 6 numbers; the loss before it.
  double step(const std::vector<double>& x, const std::vector<int64_t>& labels, int t, double lr) {
    std::vector<std::vector<double>> g;
    for (const auto& p : p_) g.emplace_back(p.size(), 0.0);
    double loss = 0;
    const size_t n = labels.size();
    for (size_t k = 0; k < n; ++k) {
      double z[5], h[5], o[3], total = 0, dh[5] = {};
      for (size_t j = 0; j < 5; ++j) {
        z[j] = p_[1][j];
        for (size_t i = 0; i < 6; ++i) z[j] += p_[0][j * 6 + i] * x[k * 6 + i];
        h[j] = z[j] > 0 ? z[j] : 0;
      }
      for (size_t c = 0; c < 3; ++c) {
        o[c] = p_[3][c];
        for (size_t j = 0; j < 5; ++j) o[c] += p_[2][c * 5 + j] * h[j];
        total += std::exp(o[c]);
      }
      loss += (std::log(total) - o[size_t(labels[k])]) / double(n);
      for (size_t c = 0; c < 3; ++c) {
        const double d = (std::exp(o[c]) / total - (int64_t(c) == labels[k])) / double(n);
        g[3][c] += d;
        for (size_t j = 0; j < 5; ++j) {
          g[2][c * 5 + j] += d * h[j];
          dh[j] += d * p_[2][c * 5 + j];
        }
      }
      for (size_t j = 0; j < 5; ++j) {
        if (z[j] <= 0) continue;
        g[1][j] += dh[j];
        for (size_t i = 0; i < 6; ++i) g[0][j * 6 + i] += dh[j] * x[k * 6 + i];
      }
    }
    for (size_t q = 0; q < p_.size(); ++q)
      for (size_t i = 0; i < p_[q].size(); ++i) hands_[q][i].step(p_[q][i], g[q][i], t, lr);
    return loss;
  }

 private:
  std::vector<std::vector<double>> p_;
  std::vector<std::vector<AdamByHand>> hands_;
};

}  // namespace

TEST_CASE("nn: the first ten losses of a seeded network") {
  for (const char* name : {"cpu", "reference"}) {
    CAPTURE(name);
    Device& device = open_device(name);
    manual_seed(11);
    nn::Sequential net = small_network(DType::f32, device);
    optim::Optimizer optimizer(net.parameters(), optim::Adam{});
    MlpByHand by_hand(net.parameters());
    double first = 0, last = 0;
    for (int t = 1; t <= 10; ++t) {
      const std::vector<double> x = waves(8 * 6, 13 * (t % 3));
      std::vector<int64_t> labels;
      for (size_t k = 0; k < 8; ++k)
        labels.push_back(x[k * 6] > 0.3 ? 2 : x[k * 6 + 1] > 0 ? 1 : 0);
      const Tensor images = cast(Tensor::from(x, {8, 6}, device), DType::f32);
      optimizer.zero_grad();
      const Tensor loss =
          nn::loss_of(nn::Loss{}, net.forward(images), Tensor::from(labels, {8}, device));
      backward(loss);
      optimizer.step(0.05);
      const double want = by_hand.step(x, labels, t, 0.05);
      CHECK(std::abs(loss.item() - want) < 1e-5);
      if (t == 1) first = loss.item();
      last = loss.item();
    }
    CHECK(last < first);
  }
}
