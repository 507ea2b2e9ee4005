// Training runs in mixed precision: as right as in f32, captured or not, resumed or not, and what
// is said of overflows.
#include "ops/train/experiment.hpp"
#include "engine/files/safetensors.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/train_helpers.hpp"

using namespace gradus;
using namespace gradus::test;

namespace {

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

}  // namespace

TEST_CASE("precision: digits in bf16 and f16 are read as well as in f32, from f32 parameters") {
  const TempFolder folder;
  for (const char* config : {kMlp, kConv}) {
    if (config == kConv && gradus::test::small_sizes()) continue;
    CAPTURE(std::string(config));
    const std::string net = config == kMlp ? "mlp" : "conv";
    const double full =
        train(train_options(folder, config, net)).events.back()["accuracy"].get<double>();
    CHECK(full > 0.93);
    for (const char* dtype : {"bf16", "f16"}) {
      CAPTURE(std::string(dtype));
      const auto o =
          train_options(folder, config, net + dtype, {"precision.compute=" + std::string(dtype)});
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
      CHECK(evaluate(o.out)["loss"] == run.events.back()["loss"]);
    }
    CHECK(read_file(folder / net + "/model.safetensors") !=
          read_file(folder / net + "bf16/model.safetensors"));
  }
}

TEST_CASE("precision: tokens and attention in bf16") {
  const TempFolder folder;
  const auto o = train_options(folder, R"({
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
    const auto o = train_options(folder, kMlp, name, std::move(set));
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
  const auto o = train_options(folder, kOverflows, "run");
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
    auto o = train_options(folder, config, join("run", n++), std::move(set));
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
  const auto whole = train_options(folder, kOverflows, "whole");
  const auto skips = events(train(whole), "skip");
  REQUIRE(skips.size() >= 2);
  auto parts = train_options(folder, kOverflows, "parts");
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
    const auto o = train_options(
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
  const auto o = train_options(folder, kMlp, "steep",
                               {"precision.compute=f16", "data.train=200",
                                "model.layers[1]={\"leaky_relu\": {\"negative_slope\": 1e9}}"});
  CHECK(train_error(ErrorKind::numeric, o)
            .starts_with("train: no step of epoch 1 had a finite loss"));
}

TEST_CASE("precision: configs") {
  const TempFolder folder;
  const auto text = [&](const std::string& set) {
    return train_error(ErrorKind::config, train_options(folder, kMlp, "run", {set}));
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
