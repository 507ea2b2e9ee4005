// Mixed precision: layers that compute in 16 bits around f32 parameters, and the loss scale.
#include "engine/random.hpp"
#include "tests/helpers/nn_helpers.hpp"
#include "ops/nn/attention.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/loss.hpp"
#include "ops/nn/normalization.hpp"
#include "ops/optim/loss_scale.hpp"
#include "ops/optim/optimizer.hpp"
#include "tests/helpers/not_finite.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

using namespace gradus;
using namespace gradus::testing;

namespace {

double rounded(double x, DType dtype) {
  return dtype == DType::f16 ? double(float(Half(float(x)))) : double(float(BFloat16(float(x))));
}
double epsilon(DType dtype) { return dtype == DType::f16 ? 0x1p-11 : 0x1p-8; }

// A leaf with this gradient.
Tensor leaf_with_grad(const Tensor& g) {
  const Tensor w = Tensor::zeros(g.sizes(), g.dtype(), g.device()).set_requires_grad();
  w.set_grad(g);
  return w;
}

// The largest difference, over the largest of b.
double distance(const Tensor& a, const Tensor& b) {
  const auto x = values(a), y = values(b);
  double most = 0, scale = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
    scale = std::max(scale, std::abs(y[i]));
  }
  return most / scale;
}

}  // namespace

TEST_CASE("precision: a linear layer in 16 bits is the sum of rounded products, rounded once") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CAPTURE(dtype_name(dtype));
    manual_seed(4);
    nn::Linear layer(37, 5);
    layer.set_compute(dtype);
    const Tensor x = cast(Tensor::from(waves(3 * 37, 9), {3, 37}), dtype);
    const Tensor y = layer.forward(x);
    CHECK(y.dtype() == dtype);
    const auto xs = values(x), w = values(layer.weight), b = values(layer.bias), got = values(y);
    for (size_t n = 0; n < 3; ++n)
      for (size_t o = 0; o < 5; ++o) {
        double s = rounded(b[o], dtype), size = std::abs(s);
        for (size_t i = 0; i < 37; ++i) {
          const double term = xs[n * 37 + i] * rounded(w[o * 37 + i], dtype);
          s += term;
          size += std::abs(term);
        }
        CHECK(std::abs(got[n * 5 + o] - s) <= epsilon(dtype) * std::abs(s) + 1e-6 * size);
      }
    // d(sum of y)/dw is the sum over samples of x, in f32 at the parameter.
    backward(sum(y));
    CHECK(layer.weight.dtype() == DType::f32);
    CHECK(layer.weight.grad().dtype() == DType::f32);
    CHECK(layer.bias.grad().dtype() == DType::f32);
    const auto g = values(layer.weight.grad());
    for (size_t i = 0; i < 37; ++i) {
      const double s = xs[i] + xs[37 + i] + xs[74 + i];
      CHECK(g[37 + i] == doctest::Approx(s).epsilon(2 * epsilon(dtype)));
    }
    CHECK(values(layer.bias.grad()) == std::vector<double>(5, 3));
  }
}

TEST_CASE("precision: every layer keeps f32 state, computes in 16 bits, and is near the f32 one") {
  using Made = std::unique_ptr<nn::Module>;
  struct Kind {
    const char* name;
    std::function<Made()> make;
    Tensor x;
  };
  const Tensor rows = cast(Tensor::from(waves(24 * 8, 2), {24, 8}), DType::f32),
               image = reshape(rows, {4, 3, 4, 4}), steps = reshape(rows, {4, 6, 8});
  nn::ConvOptions conv, transposed;
  conv.in_channels = transposed.in_channels = 3;
  conv.out_channels = transposed.out_channels = 2;
  conv.kernel_size = transposed.kernel_size = {2};
  transposed.transposed = true;
  const std::vector<Kind> kinds{
      {"linear", [] { return Made(new nn::Linear(8, 5)); }, rows},
      {"conv2d", [&] { return Made(new nn::Conv(conv)); }, image},
      {"conv_transpose2d", [&] { return Made(new nn::Conv(transposed)); }, image},
      {"batch_norm", [] { return Made(new nn::BatchNorm(3)); }, image},
      {"layer_norm", [] { return Made(new nn::LayerNorm({8})); }, rows},
      {"rms_norm", [] { return Made(new nn::RmsNorm({8})); }, rows},
      {"group_norm", [] { return Made(new nn::GroupNorm(1, 3)); }, image},
      {"attention", [] { return Made(new nn::MultiHeadAttention(8, 2, true)); }, steps},
      {"positions", [] { return Made(new nn::PositionalEmbedding(6, 8)); }, steps},
      {"embedding", [] { return Made(new nn::Embedding(4, 8)); }, i64({0, 3, 1, 3}, {2, 2})}};
  const auto network = [](const Kind& kind, bool residual) {
    manual_seed(11);
    nn::Sequential net, inner("inner");
    (residual ? inner : net).add(kind.make());
    if (residual) net.add(std::make_unique<nn::Checkpoint>(std::move(inner)));
    return net;
  };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Kind& kind : kinds) {
      CAPTURE(dtype_name(dtype));
      CAPTURE(kind.name);
      const bool contained = std::string(kind.name) != "batch_norm";
      nn::Sequential narrow = network(kind, contained), wide = network(kind, false);
      narrow.set_compute(dtype);
      const Tensor in = is_floating(kind.x.dtype()) ? cast(kind.x, dtype) : kind.x;
      CHECK(narrow.forward(in).dtype() == dtype);
      const Tensor a = nn::outputs_of(narrow, kind.x), b = nn::outputs_of(wide, kind.x);
      CHECK(a.dtype() == DType::f32);
      CHECK(distance(a, b) < 8 * epsilon(dtype));
      CHECK(distance(a, b) > 0);
      const Tensor g = cast(Tensor::from(waves(a.numel(), 5), a.sizes()), DType::f32);
      backward({a}, {g});
      backward({b}, {g});
      const auto p = narrow.parameters(), q = wide.parameters();
      CHECK(p.size() == q.size());
      for (size_t i = 0; i < p.size(); ++i) {
        CAPTURE(p[i].first);
        CHECK(p[i].second.dtype() == DType::f32);
        CHECK(p[i].second.grad().dtype() == DType::f32);
        CHECK(distance(p[i].second.grad(), q[i].second.grad()) < 16 * epsilon(dtype));
      }
      for (const auto& [name, t] : narrow.state()) CHECK(t.dtype() == DType::f32);
    }
}

TEST_CASE("precision: a layer that joins a network later computes as the network does") {
  nn::Sequential net, inner("inner");
  net.set_compute(DType::f16);
  inner.add(std::make_unique<nn::Linear>(3, 3));
  net.add(std::make_unique<nn::Residual>(std::move(inner)));
  net.add(std::make_unique<nn::Linear>(3, 2));
  const Tensor x = Tensor::full({4, 3}, 0.5, DType::f32);
  CHECK(net.forward(cast(x, DType::f16)).dtype() == DType::f16);
  CHECK(net.layer(0).compute() == DType::f16);
  CHECK(nn::outputs_of(net, x).dtype() == DType::f32);
  // Without it f32 parameters make f32 of 16-bit inputs, as promotion has it.
  CHECK(nn::Linear(3, 2).forward(cast(x, DType::f16)).dtype() == DType::f32);
}

TEST_CASE("precision: a dynamic loss scale halves at an overflow and doubles after good steps") {
  optim::LossScale::Rule rule;
  rule.growth_interval = 3;
  optim::LossScale scale(rule, default_device());
  const auto after = [&](double largest) {
    const bool taken = scale.update(Tensor::full({}, largest, DType::f32));
    CHECK(taken == std::isfinite(largest));
    CHECK(scale.gain().item() == 1 / scale.state().scale);
    CHECK(scale.seed(Tensor::zeros({}, DType::f32)).item() == scale.state().scale);
    return scale.state().scale;
  };
  std::vector<double> got;
  for (const double x : {1.0, kInf, kNaN, 0.0, 1e30, 2.0, 3.0, 3.0, 3.0, kInf})
    got.push_back(after(x));
  CHECK(got ==
        std::vector<double>{65536, 32768, 16384, 16384, 16384, 32768, 32768, 32768, 65536, 32768});
  scale.set({8, 2, 0});
  CHECK(after(1) == 16);
  for (int i = 0; i < 3; ++i) after(kNaN);
  CHECK(scale.state().skipped == 3);
  CHECK(scale.state().good == 0);

  optim::LossScale fixed({.scale = 128, .dynamic = false}, default_device());
  CHECK_FALSE(fixed.update(Tensor::full({}, kNaN, DType::f32)));
  for (int i = 0; i < 2001; ++i) fixed.update(Tensor::full({}, 1, DType::f32));
  CHECK(fixed.state().scale == 128);
  CHECK(error_of([] { optim::LossScale({.scale = 0}, default_device()); }) ==
        "loss_scale: is 0, expected a finite number above 0");
}

TEST_CASE("precision: one gradient that is not finite is found on every device") {
  for (const char* name : {"cpu", "reference"}) {
    CAPTURE(name);
    Device& device = open_device(name);
    for (const int64_t n : {1, 7, 1000}) {
      const auto largest = [&](double x) {
        std::vector<double> g(size_t(n), -0.5);
        g[size_t(n / 2)] = x;
        const nn::NamedTensors p{
            {"u", leaf_with_grad(Tensor::full({3}, 0.25, DType::f32, device))},
            {"v", leaf_with_grad(cast(Tensor::from(g, {n}, device), DType::f32))},
            {"w", leaf_with_grad(Tensor::full({2}, 0.125, DType::f32, device))}};
        return optim::largest_gradient(p).item();
      };
      CHECK(largest(-3) == 3);
      CHECK(largest(3e38) == doctest::Approx(3e38));
      CHECK(largest(kInf) == kInf);
      CHECK(largest(-kInf) == kInf);
      CHECK(std::isnan(largest(kNaN)));
    }
  }
  const nn::NamedTensors none{{"w", Tensor::zeros({2}, DType::f32).set_requires_grad()}};
  CHECK(optim::largest_gradient(none).item() == 0);
}

TEST_CASE("precision: what the scale does to the gradients, the gain undoes, clipped or not") {
  for (const double max_norm : {0.0, 0.5, 100.0}) {
    CAPTURE(max_norm);
    const auto steps = [&](double factor) {
      manual_seed(8);
      nn::Sequential net = small_network(DType::f32);
      const nn::NamedTensors p = net.parameters();
      optim::Optimizer optimizer(p, optim::Adam{});
      optim::LossScale scale({.scale = factor, .dynamic = false}, default_device());
      const Tensor x = cast(Tensor::from(waves(24, 1), {4, 6}), DType::f32);
      for (int t = 0; t < 5; ++t) {
        optimizer.zero_grad();
        const Tensor loss = nn::loss_of({}, net.forward(x), i64({0, 2, 1, 1}, {4}));
        backward({loss}, {scale.seed(loss)});
        CHECK(scale.update(optim::largest_gradient(p)));
        optimizer.step(0.01,
                       max_norm > 0 ? optim::clip_gain(p, max_norm, scale.gain()) : scale.gain());
      }
      std::vector<double> all;
      for (const auto& [name, t] : p)
        for (const double v : values(t)) all.push_back(v);
      return all;
    };
    CHECK(steps(1024) == steps(1));
    CHECK(steps(0x1p100) == steps(1));  // squares of the gradients would overflow
    CHECK(close(steps(1000), steps(1), 1e-5));
  }
}
