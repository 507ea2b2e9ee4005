// Mixed precision: layers that compute in 16 bits around f32 parameters, the loss scale, and
// training runs with it: as right as in f32, captured or not, resumed or not, and what is said of
// overflows.
#include "engine/io/safetensors.hpp"
#include "nn_helpers.hpp"
#include "ops/nn/attention.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/loss.hpp"
#include "ops/nn/normalization.hpp"
#include "ops/optim/loss_scale.hpp"
#include "ops/optim/optimizer.hpp"
#include "cli/experiment.hpp"
#include "train_helpers.hpp"

#include "engine/random.hpp"

#include <functional>

using namespace gradus;
using namespace gradus::test;
using namespace gradus::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double rounded(double x, DType dtype) {
  return dtype == DType::f16 ? double(float(Half(float(x)))) : double(float(BFloat16(float(x))));
}
double epsilon(DType dtype) { return dtype == DType::f16 ? 0x1p-11 : 0x1p-8; }

// One leaf "w" with this gradient.
nn::NamedTensors leaf_with_grad(const Tensor& g) {
  const Tensor w = Tensor::zeros(g.sizes(), g.dtype(), g.device()).set_requires_grad();
  w.set_grad(g);
  return {{"w", w}};
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

constexpr const char* kMlp = R"({
  "experiment": "mlp", "seed": 5,
  "data": {"name": "digits", "train": 2000, "test": 500},
  "model": {"layers": [{"linear": 64}, "relu", {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 3e-3}, "epochs": 4, "batch_size": 32
})";
constexpr const char* kConv = R"({
  "experiment": "network", "seed": 5,
  "data": {"name": "digits", "train": 1200, "test": 500},
  "model": {"layers": [
    {"unflatten": [1, 28, 28]}, {"conv2d": {"out_channels": 6, "kernel_size": 5, "stride": 2}},
    "batch_norm", "relu", {"max_pool2d": 2}, "flatten", {"linear": 32}, "batch_norm", "relu",
    {"linear": 10}]},
  "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}, "epochs": 4, "batch_size": 32
})";
// Its features are small until a norm makes them large, and their gradients the other way about: in
// f16 these overflow at first.
constexpr const char* kOverflows = R"({
  "experiment": "mlp", "seed": 5,
  "data": {"name": "digits", "train": 200, "test": 100},
  "model": {"layers": [{"linear": 16}, "square", "square", {"layer_norm": {"eps": 1e-12}},
    {"dropout": 0.1}, {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.01, "schedule": "cosine"}, "clip_norm": 5,
  "precision": {"compute": "f16"},
  "epochs": 3, "batch_size": 16, "log_every": 5
})";

cli::TrainOptions options(const TempFolder& folder, const char* config, const std::string& name,
                          std::vector<std::string> set = {}) {
  cli::TrainOptions o;
  o.config = folder.write("config.json", config);
  o.set = std::move(set);
  o.device = "cpu";
  o.out = folder / name;
  o.json = true;
  return o;
}

std::vector<Json> events(const Run& run, const char* kind) {
  std::vector<Json> out;
  for (const Json& e : run.events)
    if (e["event"] == kind) out.push_back(e);
  return out;
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
  for (const double x : {1.0, kInfinity, kNaN, 0.0, 1e30, 2.0, 3.0, 3.0, 3.0, kInfinity})
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
        nn::NamedTensors p = leaf_with_grad(Tensor::full({3}, 0.25, DType::f32, device));
        p.push_back(leaf_with_grad(cast(Tensor::from(g, {n}, device), DType::f32))[0]);
        p.push_back(leaf_with_grad(Tensor::full({2}, 0.125, DType::f32, device))[0]);
        p[2].first = "v";
        return optim::largest_gradient(p).item();
      };
      CHECK(largest(-3) == 3);
      CHECK(largest(3e38) == doctest::Approx(3e38));
      CHECK(largest(kInfinity) == kInfinity);
      CHECK(largest(-kInfinity) == kInfinity);
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

TEST_CASE("precision: digits in bf16 and f16 are read as well as in f32, from f32 parameters") {
  const TempFolder folder;
  for (const char* config : {kMlp, kConv}) {
    CAPTURE(std::string(config));
    const std::string net = config == kMlp ? "mlp" : "conv";
    const double full = train(options(folder, config, net)).events.back()["accuracy"].get<double>();
    CHECK(full > 0.93);
    for (const char* dtype : {"bf16", "f16"}) {
      CAPTURE(std::string(dtype));
      const auto o =
          options(folder, config, net + dtype, {"precision.compute=" + std::string(dtype)});
      const Run run = train(o);
      CHECK(run.events.back()["accuracy"].get<double>() > full - 0.015);
      CHECK(falls(run));
      for (const Json& e : events(run, "epoch")) {
        CHECK(e["loss_scale"] == (std::string(dtype) == "f16" ? 65536 : 1));
        CHECK(e["skipped"] == 0);
        CHECK(e["train_loss"].is_number());
      }
      CHECK(events(run, "skip").empty());
      CHECK(run.err.find("not captured") == std::string::npos);
      for (const auto& [name, t] : read_safetensors(o.out + "/model.safetensors").tensors)
        CHECK(t.dtype() == DType::f32);
      // Evaluated as it was trained.
      cli::EvalOptions e;
      e.run_dir = o.out;
      e.device = "cpu";
      e.json = true;
      std::ostringstream out, err;
      cli::run_eval(e, out, err);
      CHECK(Json::parse(out.str())["loss"] == run.events.back()["loss"]);
    }
    CHECK(read_file(folder / net + "/model.safetensors") !=
          read_file(folder / net + "bf16/model.safetensors"));
  }
}

TEST_CASE("precision: tokens and attention in bf16") {
  const TempFolder folder;
  const auto o = options(folder, R"({
    "experiment": "network", "seed": 3,
    "data": {"name": "copy", "train": 400, "test": 60, "symbols": 4, "length": 3},
    "model": {"layers": [{"embedding": {"num_embeddings": 5, "embedding_dim": 24}},
      "positional_embedding",
      {"residual": ["layer_norm", {"multi_head_attention": {"num_heads": 2, "causal": true}}]},
      {"residual": ["layer_norm", {"linear": 32}, "gelu", {"linear": 24}]},
      "layer_norm", {"linear": 5}]},
    "optimizer": {"name": "adamw", "lr": 1e-2}, "clip_norm": 1, "epochs": 12, "batch_size": 32,
    "precision": {"compute": "bf16", "loss_scale": 8}})",
                         "run");
  const Run run = train(o);
  CHECK(run.events.back()["accuracy"].get<double>() > 0.9);
  CHECK(falls(run));
}

TEST_CASE("precision: a scaled step in f32 is the very step without a scale") {
  const TempFolder folder;
  const auto model = [&](const std::string& name, std::vector<std::string> set) {
    set.insert(set.end(), {"data.train=100", "data.test=50", "epochs=2"});
    const auto o = options(folder, kMlp, name, std::move(set));
    const Run run = train(o);
    CHECK(events(run, "epoch")[0].contains("skipped") == (name != "plain"));
    return read_file(o.out + "/model.safetensors");
  };
  const std::string plain = model("plain", {});
  CHECK(model("scaled", {"precision.loss_scale=4096"}) == plain);
  CHECK(model("eager", {"precision.loss_scale=\"dynamic\"", "capture=off"}) == plain);
}

TEST_CASE("precision: an overflow skips the step, halves the scale, and is said") {
  const TempFolder folder;
  const auto o = options(folder, kOverflows, "run");
  const Run run = train(o);
  const auto skips = events(run, "skip"), epochs = events(run, "epoch");
  REQUIRE(skips.size() >= 2);
  double scale = 65536;
  for (const Json& e : skips) {
    CHECK(e["loss_scale"] == scale);
    scale /= 2;
  }
  CHECK(skips[0]["step"] == 1);
  CHECK(epochs.back()["loss_scale"] == scale);
  size_t counted = 0;
  for (const Json& e : epochs) counted += e["skipped"].get<size_t>();
  CHECK(counted == skips.size());
  CHECK(epochs.back()["skipped"] == 0);
  CHECK(falls(run));
  // Once for people, then in the lines of the epochs; every time for programs, in the file too.
  const std::string said =
      "gradus: step 1 is skipped: a gradient is not finite at loss scale 65536, "
      "which is now 32768; an epoch's line counts the others\n";
  CHECK(run.err.find(said) != std::string::npos);
  CHECK(run.err.find(" is skipped", run.err.find(said) + said.size()) == std::string::npos);
  CHECK(run.err.find(join("  ", epochs[0]["skipped"].get<int>(), " skipped\n")) !=
        std::string::npos);
  size_t kept = 0;
  for (const std::string& line : metrics(o.out)) kept += Json::parse(line)["event"] == "skip";
  CHECK(kept == skips.size());
  // Steps without an update are none for the optimiser's bias corrections.
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(o.out))
    newest = std::max(newest, entry.path().string().find("checkpoint-") == std::string::npos
                                  ? std::string()
                                  : entry.path().string());
  const Metadata m = read_safetensors(newest).metadata;
  CHECK(std::stoul(m.at("optimizer_steps")) == 39 - skips.size());
  CHECK(m.at("step") == "39");
}

TEST_CASE("precision: captured and eager steps give the same bytes, overflows or not") {
  const TempFolder folder;
  int n = 0;
  const auto run = [&](const char* config, const char* device, std::vector<std::string> set) {
    auto o = options(folder, config, join("run", n++), std::move(set));
    o.device = device;
    train(o);
    std::vector<std::string> all = metrics(o.out);
    all.push_back(read_file(o.out + "/model.safetensors"));
    return all;
  };
  const std::string few = "data.train=200", fewer = "data.test=50", twice = "epochs=2";
  CHECK(run(kOverflows, "cpu", {"capture=on"}) == run(kOverflows, "cpu", {"capture=off"}));
  CHECK(run(kOverflows, "reference", {"capture=on", "data.train=56", twice}) ==
        run(kOverflows, "reference", {"capture=off", "data.train=56", twice}));
  for (const char* dtype : {"bf16", "f16"}) {
    const std::string compute = "precision.compute=" + std::string(dtype);
    CHECK(run(kConv, "cpu", {"capture=on", compute, few, fewer, twice}) ==
          run(kConv, "cpu", {"capture=off", compute, few, fewer, twice}));
  }
  // What can't be captured runs as it is, the update too.
  const std::string drops =
      R"(model.layers=[{"checkpoint": [{"linear": 8}, {"dropout": 0.1}]}, {"linear": 10}])";
  CHECK(run(kOverflows, "cpu", {drops}) == run(kOverflows, "cpu", {drops, "capture=off"}));
}

TEST_CASE("precision: --resume goes on bit for bit, with the scale and what was counted") {
  const TempFolder folder;
  const auto whole = options(folder, kOverflows, "whole");
  const auto skips = events(train(whole), "skip");
  REQUIRE(skips.size() >= 2);
  auto parts = options(folder, kOverflows, "parts");
  // Right after an overflow, within the epoch that counts it, and later.
  for (const std::string& place :
       {join("\"step\":", skips[1]["step"].get<int>(), ","), std::string("\"step\":25,")}) {
    InterruptAt buffer(place);
    std::ostream out(&buffer);
    std::ostringstream err;
    CHECK(error_text(ErrorKind::interrupted, [&] {
            cli::run_train(parts, out, err);
          }).starts_with("train: interrupted after step "));
    parts.resume = true;
  }
  train(parts);
  CHECK(read_file(whole.out + "/model.safetensors") == read_file(parts.out + "/model.safetensors"));
  CHECK(metrics(whole.out) == metrics(parts.out));
  parts.set = {"precision.compute=bf16", "epochs=4"};
  CHECK(train_error(ErrorKind::config, parts)
            .find("precision.compute: the run was started with "
                  "\"f16\", now it is \"bf16\"") != std::string::npos);
}

TEST_CASE("precision: a scale that is always too large ends the run with a word") {
  const TempFolder folder;
  for (const char* dtype : {"bf16", "f16"}) {
    CAPTURE(std::string(dtype));
    const auto o = options(
        folder, kMlp, dtype,
        {"precision.compute=" + std::string(dtype), "precision.loss_scale=1e300", "log_every=0"});
    const std::string text = train_error(ErrorKind::numeric, o);
    CHECK(
        text.starts_with("train: the last 100 steps up to 100 were skipped: a gradient is not "
                         "finite, and the loss scale is 1e+300; \"dynamic\", a smaller "
                         "precision.loss_scale or a smaller optimizer.lr may help"));
    CHECK_FALSE(std::filesystem::exists(o.out + "/model.safetensors"));
  }
  // The loss itself overflows in f16: no scale helps, and an epoch of 7 steps has no mean.
  const auto o = options(folder, kMlp, "steep",
                         {"precision.compute=f16", "data.train=200",
                          "model.layers[1]={\"leaky_relu\": {\"negative_slope\": 1e9}}"});
  CHECK(train_error(ErrorKind::numeric, o)
            .starts_with("train: no step of epoch 1 had a finite loss"));
}

TEST_CASE("precision: configs") {
  const TempFolder folder;
  const auto text = [&](const std::string& set) {
    return train_error(ErrorKind::config, options(folder, kMlp, "run", {set}));
  };
  CHECK(text("precision.compute=f8")
            .find("precision.compute: expected one of \"f32\", \"bf16\", "
                  "\"f16\", got \"f8\"") != std::string::npos);
  CHECK(text("precision.compute=bf61").find("did you mean \"bf16\"?") != std::string::npos);
  CHECK(text("precision.loss_scale=0")
            .find("precision.loss_scale: expected a number above 0, "
                  "got 0") != std::string::npos);
  CHECK(text("precision.loss_scale=dynamik").find("did you mean \"dynamic\"?") !=
        std::string::npos);
  CHECK(text("precision.scale=2")
            .find("precision.scale: unknown key; known are compute, "
                  "loss_scale") != std::string::npos);
  CHECK(text("precision=bf16").find("precision: expected") != std::string::npos);
  const std::string file = folder.write("config.json", kMlp);
  const auto read = [&](std::vector<std::string> set) {
    return cli::read_experiment(cli::layered_network(file, set).resolve(), file).precision;
  };
  CHECK_FALSE(read({}).compute);
  CHECK_FALSE(read({}).loss_scale);
  CHECK_FALSE(read({"precision.compute=f32"}).loss_scale);
  CHECK(read({"precision.compute=f16"}).compute == DType::f16);
  CHECK(read({"precision.compute=f16"}).loss_scale->dynamic);
  CHECK_FALSE(read({"precision.compute=bf16"}).loss_scale->dynamic);
  CHECK(read({"precision.compute=bf16"}).loss_scale->scale == 1);
  CHECK(read({"precision.compute=f16", "precision.loss_scale=64"}).loss_scale->scale == 64);
  CHECK(read({"precision.compute=bf16", "precision.loss_scale=dynamic"}).loss_scale->dynamic);
}
