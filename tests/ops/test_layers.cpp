// Layers with structure (convolution, normalisation, embeddings, attention, residuals) against
// loops over indices, and their state.
#include "tests/helpers/nn_helpers.hpp"
#include "ops/nn/attention.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/normalization.hpp"

#include "engine/random.hpp"

#include <doctest/doctest.h>

using namespace gradus;
using namespace gradus::testing;

namespace {

std::string names_of(const nn::NamedTensors& tensors) {
  std::string names;
  for (const auto& [name, t] : tensors) names += name + " " + to_text(t.sizes()) + "; ";
  return names;
}

std::string state_names(const nn::Module& layer) {
  nn::NamedTensors out;
  layer.collect("", out);
  return names_of(out);
}

// Fills a parameter with numbers without a pattern.
void set_waves(const Tensor& parameter, int64_t from) {
  const NoGrad no_grad;
  copy_(parameter, reshape(Tensor::from(waves(parameter.numel(), from), {parameter.numel()}),
                           parameter.sizes()));
}

double largest(const Tensor& t) {
  double m = 0;
  for (const double v : values(t)) m = std::max(m, std::abs(v));
  return m;
}

}  // namespace

TEST_CASE("layers: a convolution has PyTorch's parameters, and slides them over its input") {
  manual_seed(2);
  nn::ConvOptions o;
  o.in_channels = 4;
  o.out_channels = 6;
  o.kernel_size = {3, 2};
  o.stride = {2, 1};
  o.padding = {1, 0};
  o.groups = 2;
  nn::Conv conv(o, DType::f64);
  CHECK(conv.kind() == "conv2d");
  CHECK(state_names(conv) == "weight (6, 2, 3, 2); bias (6,); ");
  const double bound = 1 / std::sqrt(2.0 * 3 * 2);  // 1 / sqrt(fan_in)
  CHECK(largest(conv.weight) <= bound);
  CHECK(largest(conv.weight) > 0.9 * bound);
  CHECK(largest(conv.bias) <= bound);

  const Tensor x = Tensor::from(waves(2 * 4 * 5 * 4, 9), {2, 4, 5, 4});
  const auto xs = values(x), w = values(conv.weight), b = values(conv.bias);
  std::vector<double> want;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 6; ++c)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
          double y = b[size_t(c)];
          for (int k = 0; k < 2; ++k)
            for (int p = 0; p < 3; ++p)
              for (int q = 0; q < 2; ++q) {
                const int row = 2 * i + p - 1, col = j + q, channel = c / 3 * 2 + k;
                if (row >= 0 && row < 5)
                  y += w[size_t(((c * 2 + k) * 3 + p) * 2 + q)] *
                       xs[size_t(((n * 4 + channel) * 5 + row) * 4 + col)];
              }
          want.push_back(y);
        }
  CHECK(conv.forward(x).sizes() == Shape{2, 6, 3, 3});
  CHECK(close(values(conv.forward(x)), want));
  CHECK(error_of([&] {
          conv.forward(Tensor::zeros({2, 3, 5, 4}, DType::f64));
        }) == "conv2d: layer takes 4 channels and a batch of 4 axes, its input is (2, 3, 5, 4)");
  o.groups = 4;
  CHECK(error_of([&] { nn::Conv refused(o); }) ==
        "conv2d: channels 4 -> 6 do not divide into 4 groups");
}

TEST_CASE("layers: a transposed convolution is the transpose of the convolution") {
  manual_seed(2);
  for (const int64_t axes : {1, 2}) {
    CAPTURE(axes);
    nn::ConvOptions o;
    o.axes = axes;
    o.in_channels = 3;
    o.out_channels = 2;
    o.kernel_size = {3};
    o.stride = {2};
    o.padding = {1};
    o.bias = false;
    nn::Conv conv(o, DType::f64);
    std::swap(o.in_channels, o.out_channels);
    o.transposed = true;
    nn::Conv back(o, DType::f64);
    CHECK(back.kind() == join("conv_transpose", axes, "d"));
    REQUIRE(back.weight.sizes() == conv.weight.sizes());  // (in, out, kernel) of the transpose
    const NoGrad no_grad;
    copy_(back.weight, conv.weight);
    Shape in{1, 3}, out{1, 2};
    for (int64_t axis = 0; axis < axes; ++axis) {
      in.push_back(7);
      out.push_back(4);
    }
    const Tensor x = reshape(Tensor::from(waves(numel_of(in), 4), {numel_of(in)}), in),
                 y = reshape(Tensor::from(waves(numel_of(out), 40), {numel_of(out)}), out);
    CHECK(sum(mul(conv.forward(x), y)).item() ==
          doctest::Approx(sum(mul(x, back.forward(y))).item()).epsilon(1e-12));
  }
}

TEST_CASE("layers: batch_norm normalises by the batch, then by what it has seen") {
  nn::BatchNorm norm(2, 1e-3, 0.25, true, DType::f64);
  CHECK(state_names(norm) == "weight (2,); bias (2,); running_mean (2,); running_var (2,); ");
  nn::Sequential net;
  net.add(std::make_unique<nn::BatchNorm>(2));
  CHECK(names_of(net.parameters()) == "layers.0.weight (2,); layers.0.bias (2,); ");
  CHECK(names_of(net.state()).find("layers.0.running_var (2,)") != std::string::npos);

  set_waves(norm.weight, 3);
  set_waves(norm.bias, 8);
  const auto w = values(norm.weight), b = values(norm.bias);
  std::vector<double> seen_mean{0, 0}, seen_var{1, 1};
  const int64_t n = 3, c = 2, r = 4;
  for (int64_t step = 0; step < 2; ++step) {
    const Tensor x = Tensor::from(waves(n * c * r, 100 * step), {n, c, r});
    const auto xs = values(x);
    std::vector<double> want(xs.size());
    for (int64_t k = 0; k < c; ++k) {
      double mean = 0, var = 0;
      const auto at = [&](int64_t i, int64_t j) { return size_t((i * c + k) * r + j); };
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < r; ++j) mean += xs[at(i, j)] / double(n * r);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < r; ++j) var += std::pow(xs[at(i, j)] - mean, 2) / double(n * r);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < r; ++j)
          want[at(i, j)] =
              (xs[at(i, j)] - mean) / std::sqrt(var + 1e-3) * w[size_t(k)] + b[size_t(k)];
      seen_mean[size_t(k)] = 0.75 * seen_mean[size_t(k)] + 0.25 * mean;
      seen_var[size_t(k)] = 0.75 * seen_var[size_t(k)] + 0.25 * var * double(n * r) / (n * r - 1);
    }
    CHECK(close(values(norm.forward(x)), want));
    CHECK(close(values(norm.running_mean), seen_mean));
    CHECK(close(values(norm.running_var), seen_var));
  }
  norm.set_training(false);
  const Tensor x = f64({0.3, -0.4}, {1, 2});
  std::vector<double> want;
  for (size_t k = 0; k < 2; ++k)
    want.push_back((values(x)[k] - seen_mean[k]) / std::sqrt(seen_var[k] + 1e-3) * w[k] + b[k]);
  CHECK(close(values(norm.forward(x)), want));
  CHECK(close(values(norm.running_mean), seen_mean));
  CHECK(error_of([&] {
          norm.forward(Tensor::zeros({2, 3}, DType::f64));
        }) == "batch_norm: layer takes 2 channels, its input is (2, 3)");
}

TEST_CASE("layers: layer_norm, rms_norm and group_norm, each over its own axes") {
  nn::LayerNorm layer({2, 3}, 1e-3, true, true, DType::f64);
  nn::RmsNorm rms({3}, 1e-3, true, DType::f64);
  nn::GroupNorm group(2, 4, 1e-3, true, DType::f64);
  CHECK(state_names(layer) == "weight (2, 3); bias (2, 3); ");
  CHECK(state_names(rms) == "weight (3,); ");
  CHECK(state_names(group) == "weight (4,); bias (4,); ");
  CHECK(state_names(nn::LayerNorm({3}, 1e-5, true, false)) == "weight (3,); ");
  CHECK(state_names(nn::LayerNorm({3}, 1e-5, false)) == "");
  for (const Tensor& t : {layer.weight, layer.bias, rms.weight, group.weight, group.bias})
    set_waves(t, 20);

  const Tensor x = Tensor::from(waves(2 * 4 * 2 * 3, 7), {2, 4, 2, 3});
  const auto xs = values(x);
  // Normalises each run of `size` neighbours; row-major, all three take neighbours.
  const auto runs = [&](size_t size, bool centred) {
    std::vector<double> out(xs.size());
    for (size_t begin = 0; begin < xs.size(); begin += size) {
      double mean = 0, square = 0;
      for (size_t i = 0; centred && i < size; ++i) mean += xs[begin + i] / double(size);
      for (size_t i = 0; i < size; ++i) square += std::pow(xs[begin + i] - mean, 2) / double(size);
      for (size_t i = 0; i < size; ++i)
        out[begin + i] = (xs[begin + i] - mean) / std::sqrt(square + 1e-3);
    }
    return out;
  };
  std::vector<double> by_layer = runs(6, true), by_rms = runs(3, false), by_group = runs(12, true);
  for (size_t i = 0; i < xs.size(); ++i) {
    by_layer[i] = by_layer[i] * values(layer.weight)[i % 6] + values(layer.bias)[i % 6];
    by_rms[i] *= values(rms.weight)[i % 3];
    const size_t channel = i / 6 % 4;
    by_group[i] = by_group[i] * values(group.weight)[channel] + values(group.bias)[channel];
  }
  CHECK(close(values(layer.forward(x)), by_layer));
  CHECK(close(values(rms.forward(x)), by_rms));
  CHECK(close(values(group.forward(x)), by_group));
  CHECK(error_of([&] {
          layer.forward(Tensor::zeros({2, 4}, DType::f64));
        }) == "layer_norm: layer takes (2, 3) as last axes, its input is (2, 4)");
  CHECK(error_of([] { nn::GroupNorm(3, 4); }) ==
        "group_norm: 4 channels do not divide into 3 groups");
}

TEST_CASE("layers: embeddings are rows of a table, by token and by place") {
  manual_seed(5);
  nn::Embedding tokens(5, 3, DType::f64);
  nn::PositionalEmbedding places(4, 3, DType::f64);
  const auto t = values(tokens.weight), p = values(places.weight);
  const Tensor x = i64({4, 0, 4, 2, 2, 1}, {2, 3});
  std::vector<double> want;
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 3; ++k)
        want.push_back(t[size_t(x.to_vector<int64_t>()[size_t(n * 3 + i)] * 3 + k)] +
                       p[size_t(i * 3 + k)]);
  CHECK(close(values(places.forward(tokens.forward(x))), want));
  double square = 0;
  for (const double v : values(nn::Embedding(100, 100).weight)) square += v * v / 1e4;
  CHECK(std::abs(square - 1) < 6 * std::sqrt(2 / 1e4));  // standard normal, six sigma
  CHECK(error_of([&] { tokens.forward(f64({1}, {1})); }) ==
        "embedding: layer takes integers, its input is f64 (1,)");
  CHECK(error_of([&] {
          places.forward(Tensor::zeros({2, 5, 3}, DType::f64));
        }) ==
        "positional_embedding: layer takes up to 4 places of 3 features, its input is (2, 5, 3)");
}

TEST_CASE("layers: attention by loops, causal or not") {
  const int n = 2, length = 4, dim = 6, heads = 2, d = dim / heads;
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    manual_seed(8);
    nn::MultiHeadAttention layer(dim, heads, causal, true, DType::f64);
    CHECK(
        state_names(layer) ==
        "in_proj_weight (18, 6); in_proj_bias (18,); out_proj.weight (6, 6); out_proj.bias (6,); ");
    const double bound = std::sqrt(6.0 / (6 + 18));
    CHECK(largest(layer.in_proj_weight) <= bound);
    CHECK(largest(layer.in_proj_weight) > 0.9 * bound);
    CHECK(largest(layer.in_proj_bias) == 0);
    set_waves(layer.in_proj_bias, 70);
    set_waves(layer.out_proj_bias, 90);
    const Tensor x = Tensor::from(waves(n * length * dim, 3), {n, length, dim});
    const auto xs = values(x), w = values(layer.in_proj_weight), b = values(layer.in_proj_bias),
               wo = values(layer.out_proj_weight), bo = values(layer.out_proj_bias);
    const auto projected = [&](int part, int i, int at, int k) {  // feature k of q, k or v
      double s = b[size_t(part * dim + k)];
      for (int m = 0; m < dim; ++m)
        s += w[size_t((part * dim + k) * dim + m)] * xs[size_t((i * length + at) * dim + m)];
      return s;
    };
    std::vector<double> want;
    for (int i = 0; i < n; ++i)
      for (int at = 0; at < length; ++at) {
        double looked[dim] = {};
        for (int h = 0; h < heads; ++h) {
          double weight[length] = {}, total = 0;
          for (int to = 0; to < (causal ? at + 1 : length); ++to) {
            double s = 0;
            for (int k = 0; k < d; ++k)
              s += projected(0, i, at, h * d + k) * projected(1, i, to, h * d + k);
            total += weight[to] = std::exp(s / std::sqrt(double(d)));
          }
          for (int to = 0; to < length; ++to)
            for (int k = 0; k < d; ++k)
              looked[h * d + k] += weight[to] / total * projected(2, i, to, h * d + k);
        }
        for (int k = 0; k < dim; ++k) {
          double y = bo[size_t(k)];
          for (int m = 0; m < dim; ++m) y += wo[size_t(k * dim + m)] * looked[m];
          want.push_back(y);
        }
      }
    CHECK(close(values(layer.forward(x)), want, 1e-11));
  }
  CHECK(error_of([] { nn::MultiHeadAttention(6, 4); }) ==
        "multi_head_attention: 6 features do not divide into 4 heads");
}

TEST_CASE("layers: a residual adds its input, and names its layers") {
  manual_seed(1);
  nn::Sequential inner("layers[1].residual");
  inner.add(std::make_unique<nn::Linear>(3, 3, true, DType::f64));
  inner.add(std::make_unique<nn::OpLayer>("tanh"));
  nn::Linear& linear = dynamic_cast<nn::Linear&>(inner.layer(0));
  const Tensor x = f64({1, 2, 3}, {1, 3});
  const auto f = values(tanh(linear.forward(x)));
  CHECK(linear.place() == "layers[1].residual[0]");
  nn::Sequential net;
  net.add(std::make_unique<nn::Dropout>(0.5));
  net.add(std::make_unique<nn::Residual>(std::move(inner)));
  net.set_training(false);
  CHECK(close(values(net.forward(x)), {1 + f[0], 2 + f[1], 3 + f[2]}));
  CHECK(names_of(net.parameters()) ==
        "layers.1.layers.0.weight (3, 3); layers.1.layers.0.bias (3,); ");

  nn::Sequential narrow;
  narrow.add(std::make_unique<nn::Linear>(3, 1, true, DType::f64));
  nn::Residual refused(std::move(narrow));
  CHECK(error_of([&] { refused.forward(x); }) ==
        "residual: layer adds what goes in, (1, 3), to what its layers give, (1, 1); the shapes "
        "must be the same");
}

TEST_CASE("layers: a checkpoint gives the same gradients from less memory") {
  constexpr int kBlocks = 6, kDepth = 8;
  const Tensor x = Tensor::from(waves(256 * 64, 1), {256, 64});
  // Loss and gradients, as bits; `peak` is what the pool handed out at once, above what was there.
  const auto run = [&](bool checkpointed, size_t& peak) {
    manual_seed(3);
    nn::Sequential net;
    for (int b = 0; b < kBlocks; ++b) {
      nn::Sequential block;
      for (int d = 0; d < kDepth; ++d) {
        block.add(std::make_unique<nn::Linear>(64, 64, true, DType::f64));
        block.add(std::make_unique<nn::OpLayer>("tanh"));
      }
      block.add(std::make_unique<nn::Dropout>(0.1));
      if (checkpointed)
        net.add(std::make_unique<nn::Checkpoint>(std::move(block)));
      else
        net.add(std::make_unique<nn::Sequential>(std::move(block)));
    }
    Tensors leaves;
    for (const auto& named : net.parameters()) leaves.push_back(named.second);
    CHECK(leaves.size() == 2 * kBlocks * kDepth);
    Pool& pool = x.device().pool();
    pool.reset_peak();
    const size_t before = pool.stats().live;
    const Tensor loss = sum(square(net.forward(x)));
    std::vector<double> numbers = values(loss);
    for (const Tensor& g : grad({loss}, leaves))
      for (const double v : values(g)) numbers.push_back(v);
    peak = pool.stats().peak - before;
    return numbers;
  };
  size_t plain = 0, less = 0;
  const auto expected = run(false, plain);
  CHECK(run(true, less) == expected);
  // Of 48 pairs of layers, 8 and the ends of the blocks are kept at once; gradients are the rest.
  CHECK_MESSAGE(less < plain / 2, "peak ", less, " bytes, without checkpoints ", plain);
}

TEST_CASE("layers: a checkpoint sees what was changed since, and outlives its module") {
  manual_seed(1);
  const Tensor x = leaf(f64({1, 2, 3}, {1, 3}));
  const auto make = [] {
    nn::Sequential inner;
    inner.add(std::make_unique<nn::Linear>(3, 3, true, DType::f64));
    inner.add(std::make_unique<nn::OpLayer>("tanh"));
    return inner;
  };
  {
    nn::Checkpoint c(make());
    const Tensor y = c.forward(x);
    nn::NamedTensors state;
    c.collect("", state);
    CHECK(names_of(state) == "layers.0.weight (3, 3); layers.0.bias (3,); ");
    {
      const NoGrad off;
      add_(state[1].second, 1.0);
    }
    CHECK(error_of([&] {
            backward(sum(y));
          }).starts_with("checkpoint: input 2 (3,) was changed by add_ since the first run"));
  }
  manual_seed(1);
  nn::Sequential plain = make();
  const Tensor expected = grad({sum(plain.forward(x))}, {x})[0];
  manual_seed(1);
  auto gone = std::make_unique<nn::Checkpoint>(make());
  const Tensor y = gone->forward(x);
  gone.reset();
  CHECK(values(grad({sum(y)}, {x})[0]) == values(expected));

  nn::Sequential norm;
  norm.add(std::make_unique<nn::BatchNorm>(3));
  CHECK(error_of([&] { nn::Checkpoint refused(std::move(norm)); }) ==
        "checkpoint: its layers run twice for each step, which would move layers.0.running_mean "
        "twice; take the layer that has it out of the checkpoint");
}

TEST_CASE("layers: unflatten undoes flatten") {
  const Tensor x = Tensor::from(waves(24, 1), {2, 3, 4});
  nn::Unflatten back({3, 4});
  CHECK(back.forward(nn::Flatten().forward(x)).sizes() == x.sizes());
  CHECK(values(back.forward(nn::Flatten().forward(x))) == values(x));
  CHECK(nn::Unflatten({2, 6}).forward(Tensor::zeros({0, 12, 5}, DType::f32)).sizes() ==
        Shape{0, 2, 6, 5});
  CHECK(error_of([&] {
          back.forward(Tensor::zeros({2, 10}, DType::f32));
        }) == "unflatten: layer makes (3, 4) of 12 features, its input is (2, 10)");
}
