// Layers without structure, and losses, against plain loops in double.
#include "tests/helpers/nn_helpers.hpp"
#include "ops/nn/loss.hpp"

#include "engine/random.hpp"

#include <doctest/doctest.h>

using namespace gradus;
using namespace gradus::testing;

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
  CHECK(error_of([] { nn::OpLayer("matmul"); }) ==
        "matmul: is no layer: a differentiable op that needs one operand is expected");
  CHECK(error_of([] { nn::OpLayer("add"); }) ==
        "add: is no layer: a differentiable op that needs one operand is expected");
  CHECK(error_of([] { nn::OpLayer("rellu"); }).find("did you mean \"relu\"?") != std::string::npos);
}

TEST_CASE("nn: an op is a layer, with its attributes or its defaults") {
  const Tensor x = f64({-2, 3}, {2});
  CHECK(close(values(nn::OpLayer("leaky_relu").forward(x)), {-0.02, 3}));
  CHECK(close(values(nn::OpLayer("leaky_relu", {0.5}).forward(x)), {-1, 3}));
  CHECK(values(nn::OpLayer("gelu", {"tanh"}).forward(x)) == values(gelu(x, "tanh")));
  CHECK(values(nn::OpLayer("gelu").forward(x)) == values(gelu(x)));
  CHECK(close(values(nn::OpLayer("log_softmax", {int64_t(-1)}).forward(f64({0, 0}, {1, 2}))),
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

namespace {

// A loss of two samples by loops: each kind's formula for one output o whose target is t (1 for the
// class, 0 elsewhere), as its page in PyTorch's documentation says it.
double by_hand(const nn::Loss& loss, const std::vector<double>& o,
               const std::vector<size_t>& labels) {
  using Kind = nn::Loss::Kind;
  const size_t n = labels.size(), classes = o.size() / n;
  double total = 0;
  for (size_t k = 0; k < n; ++k) {
    double z = 0;
    for (size_t c = 0; c < classes; ++c) z += std::exp(o[k * classes + c]);
    const double at_label = o[k * classes + labels[k]];
    for (size_t c = 0; c < classes; ++c) {
      const double y = o[k * classes + c], t = c == labels[k], d = std::abs(y - t);
      const double s = loss.label_smoothing, share = (1 - s) * t + s / double(classes);
      switch (loss.kind) {
        case Kind::cross_entropy:
          total += share * (std::log(z) - y) * double(classes);
          break;
        case Kind::nll:
          total -= t * y * double(classes);
          break;
        case Kind::mse:
          total += d * d;
          break;
        case Kind::l1:
          total += d;
          break;
        case Kind::smooth_l1:
          total += d < loss.beta ? d * d / 2 / loss.beta : d - loss.beta / 2;
          break;
        case Kind::huber:
          total += d < loss.delta ? d * d / 2 : loss.delta * (d - loss.delta / 2);
          break;
        case Kind::binary_cross_entropy_with_logits:
          total -= std::log(t == 1 ? 1 / (1 + std::exp(-y)) : 1 - 1 / (1 + std::exp(-y)));
          break;
        case Kind::multi_margin:
          if (t == 0) total += std::max(0.0, 1 - at_label + y);
          break;
      }
    }
  }
  return total / double(n * classes);
}

}  // namespace

TEST_CASE("nn: losses against their definitions") {
  const Tensor outputs = f64({0.5, -1, 2, 0.1, 0.2, -0.3}, {2, 3});
  const Tensor labels = i64({2, 0}, {2});
  for (size_t k = 0; k < nn::loss_names().size(); ++k) {
    CAPTURE(nn::loss_names()[k]);
    nn::Loss loss;
    loss.kind = nn::loss_named(nn::loss_names()[k]);
    CHECK(size_t(loss.kind) == k);
    const auto both = [&] {
      CHECK(nn::loss_of(loss, outputs, labels).item() ==
            doctest::Approx(by_hand(loss, values(outputs), {2, 0})).epsilon(1e-12));
    };
    both();
    loss.label_smoothing = 0.2;
    loss.beta = 0.7;
    loss.delta = 0.4;
    both();
  }
  CHECK(nn::correct(outputs, labels).item_integer() == 1);
  CHECK(error_of([] { nn::loss_named("cross_entropi"); }) ==
        "loss: there is no loss \"cross_entropi\"; did you mean \"cross_entropy\"?");
}

TEST_CASE("nn: the loss of a sequence is the mean over the tokens that count") {
  const Tensor outputs = Tensor::from(waves(2 * 3 * 4, 5), {2, 3, 4});
  const Tensor labels = i64({-100, 1, 3, -100, -100, 0}, {2, 3});
  std::vector<double> counted;
  for (const size_t row : {1, 2, 5})
    for (size_t c = 0; c < 4; ++c) counted.push_back(values(outputs)[row * 4 + c]);
  for (const double smoothing : {0.0, 0.1}) {
    nn::Loss loss;
    loss.label_smoothing = smoothing;
    CHECK(nn::loss_of(loss, outputs, labels).item() ==
          doctest::Approx(by_hand(loss, counted, {1, 3, 0})).epsilon(1e-12));
  }
  const auto best = [&](size_t row) {
    size_t at = 0;
    for (size_t c = 1; c < 4; ++c)
      if (values(outputs)[row * 4 + c] > values(outputs)[row * 4 + at]) at = c;
    return at;
  };
  CHECK(nn::correct(outputs, labels).item_integer() ==
        int64_t(best(1) == 1) + int64_t(best(2) == 3) + int64_t(best(5) == 0));
  CHECK(error_of([&] { nn::loss_of({nn::Loss::Kind::mse}, outputs, labels); }) ==
        "mse: takes one label for each sample, got labels (2, 3); for sequences there are "
        "cross_entropy and nll");
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

TEST_CASE("linear: an empty batch of the wrong width is refused like any other") {
  gradus::nn::Linear layer(3, 2);
  CHECK_THROWS_WITH(layer.forward(gradus::Tensor::zeros({0, 5}, gradus::DType::f32)),
                    "linear: layer takes 3 features, its input has 5");
}
