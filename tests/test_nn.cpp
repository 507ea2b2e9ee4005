// Layers, losses, optimisers and schedules against plain loops in double, and the losses of a small
// network's first steps against a second implementation that shares nothing with the engine.
#include "helpers.hpp"
#include "ops/nn/layers.hpp"
#include "ops/nn/loss.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/optim/schedule.hpp"

#include "engine/random.hpp"

#include <doctest/doctest.h>

#include <numbers>

using namespace gradus;
using namespace gradus::testing;

namespace {

nn::Sequential small_network(DType dtype, Device& device = default_device()) {
  nn::Sequential net;
  net.add(std::make_unique<nn::Linear>(6, 5, true, dtype, device));
  net.add(std::make_unique<nn::Activation>("relu"));
  net.add(std::make_unique<nn::Linear>(5, 3, true, dtype, device));
  return net;
}

// Fixed numbers without a pattern, in [-1, 1).
double wave(int64_t i) {
  return std::fmod(double(i * i % 97) * 0.37 + double(i) * 0.11, 2.0) - 1.0;
}

std::vector<double> waves(int64_t n, int64_t from) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(wave(from + i));
  return v;
}

}  // namespace

TEST_CASE("nn: a linear layer is x W^T + b") {
  manual_seed(3);
  nn::Linear layer(3, 2, true, DType::f64);
  const auto w = values(layer.weight), b = values(layer.bias);
  const Tensor x = f64({1, 2, 3, -1, 0.5, 4}, {2, 3});
  std::vector<double> want;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 2; ++o) {
      double s = b[size_t(o)];
      for (int i = 0; i < 3; ++i) s += values(x)[size_t(n * 3 + i)] * w[size_t(o * 3 + i)];
      want.push_back(s);
    }
  CHECK(close(values(layer.forward(x)), want));
  CHECK(layer.forward(reshape(x, {2, 1, 3})).sizes() == Shape{2, 1, 2});
  CHECK(layer.forward(Tensor::zeros({0, 3}, DType::f64)).sizes() == Shape{0, 2});
}

TEST_CASE("nn: initial parameters are uniform within 1/sqrt(in), and fixed by the seed") {
  manual_seed(7);
  nn::Linear layer(100, 50);
  const double bound = 0.1;
  double lowest = 0, highest = 0, sum = 0;
  for (double v : values(layer.weight)) {
    lowest = std::min(lowest, v);
    highest = std::max(highest, v);
    sum += v;
  }
  CHECK(lowest >= -bound);
  CHECK(highest <= bound);
  CHECK(lowest < -0.99 * bound);
  CHECK(highest > 0.99 * bound);
  CHECK(std::abs(sum / 5000) < 4 * bound / std::sqrt(3.0 * 5000));
  manual_seed(7);
  CHECK(values(nn::Linear(100, 50).weight) == values(layer.weight));
  CHECK(values(nn::Linear(100, 50).weight) != values(layer.weight));
}

TEST_CASE("nn: names of parameters count every layer") {
  nn::Sequential net = small_network(DType::f32);
  std::string names;
  for (const auto& [name, p] : net.parameters()) names += name + " " + to_text(p.sizes()) + "; ";
  CHECK(names ==
        "layers.0.weight (5, 6); layers.0.bias (5,); layers.2.weight (3, 5); layers.2.bias (3,); ");
  CHECK(nn::count(net.parameters()) == 30 + 5 + 15 + 3);
}

TEST_CASE("nn: layers that do not fit say where") {
  nn::Sequential net;
  net.add(std::make_unique<nn::Linear>(8, 128));
  net.add(std::make_unique<nn::Linear>(64, 10));
  CHECK(error_of([&] {
          net.forward(Tensor::zeros({2, 8}, DType::f32));
        }) == "linear: layers[1] takes 64 features, its input has 128");
  CHECK(error_of([&] {
          net.forward(Tensor::zeros({2, 2, 4}, DType::f32));
        }) == "linear: layers[0] takes 8 features, its input has 4; put a flatten before it");
  CHECK(error_of([&] { net.forward(Tensor::zeros({}, DType::f32)); }) ==
        "linear: layers[0] takes 8 features, its input is one number");
  CHECK(error_of([] { nn::Linear(0, 3); }) ==
        "linear: needs at least one feature on each side, got 0 -> 3");
  CHECK(error_of([] { nn::Dropout(1.0); }) ==
        "dropout: p is 1, expected a number from 0 to below 1");
  CHECK(error_of([] { nn::Activation("matmul"); }) ==
        "matmul: is no activation: a pointwise op of one operand is expected");
  CHECK(error_of([] { nn::Activation("add"); }) ==
        "add: is no activation: a pointwise op of one operand is expected");
  CHECK(error_of([] { nn::Activation("rellu"); }).find("did you mean \"relu\"?") !=
        std::string::npos);
}

TEST_CASE("nn: activations take the op's attributes, or its defaults") {
  const Tensor x = f64({-2, 3}, {2});
  CHECK(close(values(nn::Activation("leaky_relu").forward(x)), {-0.02, 3}));
  CHECK(close(values(nn::Activation("leaky_relu", {0.5}).forward(x)), {-1, 3}));
  CHECK(values(nn::Activation("gelu", {"tanh"}).forward(x)) == values(gelu(x, "tanh")));
  CHECK(values(nn::Activation("gelu").forward(x)) == values(gelu(x)));
  CHECK(close(values(nn::Softmax(true).forward(f64({0, 0}, {1, 2}))),
              {-std::log(2.0), -std::log(2.0)}));
  CHECK(nn::Flatten().forward(Tensor::zeros({4, 2, 3}, DType::f32)).sizes() == Shape{4, 6});
}

TEST_CASE("nn: dropout zeroes while training, and is nothing after") {
  manual_seed(1);
  nn::Sequential net;
  net.add(std::make_unique<nn::Dropout>(0.25));
  const Tensor x = Tensor::full({10000}, 3.0, DType::f32);
  int zeros = 0;
  for (double v : values(net.forward(x))) {
    CHECK((v == 0 || v == 4));
    zeros += v == 0;
  }
  CHECK(std::abs(zeros - 2500) < 4 * 43.3);  // four standard deviations
  net.set_training(false);
  CHECK(values(net.forward(x)) == values(x));
}

TEST_CASE("nn: losses against their definitions") {
  const Tensor outputs = f64({0.5, -1, 2, 0.1, 0.2, -0.3}, {2, 3});
  const Tensor labels = i64({2, 0}, {2});
  const auto o = values(outputs);
  double ce = 0, mse = 0;
  for (size_t n = 0; n < 2; ++n) {
    const size_t label = n == 0 ? 2 : 0;
    double z = 0;
    for (size_t c = 0; c < 3; ++c) {
      z += std::exp(o[n * 3 + c]);
      const double d = o[n * 3 + c] - (c == label);
      mse += d * d / 6;
    }
    ce += (std::log(z) - o[n * 3 + label]) / 2;
  }
  CHECK(nn::loss_of(nn::Loss::cross_entropy, outputs, labels).item() ==
        doctest::Approx(ce).epsilon(1e-12));
  CHECK(nn::loss_of(nn::Loss::nll, log_softmax(outputs, 1), labels).item() ==
        doctest::Approx(ce).epsilon(1e-12));
  CHECK(nn::loss_of(nn::Loss::mse, outputs, labels).item() == doctest::Approx(mse).epsilon(1e-12));
  CHECK(nn::correct(outputs, labels).item_integer() == 1);
  CHECK(error_of([] { nn::loss_named("cross_entropi"); }) ==
        "loss: there is no loss \"cross_entropi\"; did you mean \"cross_entropy\"?; known are "
        "cross_entropy, nll and mse");
}

TEST_CASE("nn: loading is all or nothing, by name") {
  manual_seed(1);
  nn::Sequential a = small_network(DType::f32), b = small_network(DType::f32);
  const auto before = values(b.parameters()[0].second);
  nn::NamedTensors some = a.parameters();
  some.pop_back();
  CHECK(error_of([&] { b.load(some, "m.safetensors"); }) ==
        "m.safetensors: the parameter \"layers.2.bias\" is missing");
  some.emplace_back("layers.2.bia", f32({1, 2, 3}, {3}));
  CHECK(error_of([&] { b.load(some, "m.safetensors"); }) ==
        "m.safetensors: the parameter \"layers.2.bia\" is in the file but not in the network; did "
        "you "
        "mean \"layers.2.bias\"?");
  some.back() = {"layers.2.bias", f32({1, 2}, {2})};
  CHECK(error_of([&] { b.load(some, "m.safetensors"); }) ==
        "m.safetensors: the parameter \"layers.2.bias\" is f32 (2,) in the file, the network has "
        "f32 (3,)");
  CHECK(values(b.parameters()[0].second) == before);
  b.load(a.parameters(), "m.safetensors");
  for (size_t i = 0; i < 4; ++i)
    CHECK(values(b.parameters()[i].second) == values(a.parameters()[i].second));
}

// ---- optimisers

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
      const Tensor loss = nn::loss_of(nn::Loss::cross_entropy, net.forward(images),
                                      Tensor::from(labels, {8}, device));
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

TEST_CASE("linear: an empty batch of the wrong width is refused like any other") {
  gradus::nn::Linear layer(3, 2);
  CHECK_THROWS_WITH(layer.forward(gradus::Tensor::zeros({0, 5}, gradus::DType::f32)),
                    "linear: layer takes 3 features, its input has 5");
}
