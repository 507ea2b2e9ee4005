// What a network's config can say, beyond the small perceptron of test_train.cpp: layers by name,
// optimisers, schedules, losses, sequences; batch statistics that are kept like parameters.
#include "ops/train/data/copy.hpp"
#include "ops/train/experiment.hpp"
#include "engine/files/safetensors.hpp"
#include "gradus_paths.hpp"
#include "ops/nn/layers.hpp"
#include "tests/helpers/train_helpers.hpp"

using namespace gradus;
using namespace gradus::test;

namespace {

constexpr const char* kDigits = R"({
  "experiment": "network", "seed": 5,
  "data": {"name": "digits", "train": 200, "test": 100},
  "model": {"layers": [{"linear": 12}, "relu", {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.02}, "epochs": 4, "batch_size": 16, "log_every": 1
})";

constexpr const char* kCopy = R"({
  "experiment": "network", "seed": 1,
  "data": {"name": "copy", "train": 1000, "test": 50, "symbols": 4, "length": 3},
  "model": {"layers": [
    {"embedding": {"num_embeddings": 5, "embedding_dim": 16}}, "positional_embedding",
    {"residual": ["layer_norm", {"multi_head_attention": {"num_heads": 2, "causal": true}}]},
    {"residual": ["rms_norm", {"linear": 32}, "gelu", {"linear": 16}]},
    "layer_norm", {"linear": 5}]},
  "optimizer": {"name": "adamw", "lr": 0.01}, "epochs": 3, "batch_size": 32
})";

// configs/lenet/digits.json on few digits: 13 steps an epoch.
cli::TrainOptions lenet(const TempFolder& folder, const std::string& out) {
  cli::TrainOptions o = train_options(folder, kDigits, out);
  o.config = std::string(GRADUS_SOURCE_DIR) + "/configs/lenet/digits.json";
  o.set = {"data.train=200", "data.test=60", "epochs=3", "batch_size=16", "log_every=1"};
  return o;
}

// The learning rate of every step, from the events.
std::vector<double> rates(const Run& run) {
  std::vector<double> out;
  for (const Json& e : run.events)
    if (e["event"] == "step") out.push_back(e["lr"].get<double>());
  return out;
}

}  // namespace

TEST_CASE("networks: a convolutional network learns, and its statistics are kept with it") {
  const TempFolder folder;
  cli::TrainOptions o = lenet(folder, "run");
  const Run run = train(o);
  CHECK(falls(run));
  CHECK(run.events.front()["experiment"] == "network");
  CHECK(run.events.back()["accuracy"].get<double>() > 0.5);
  const Safetensors model = read_safetensors(o.out + "/model.safetensors");
  std::string names;
  for (const auto& [name, t] : model.tensors) names += name + " ";
  CHECK(names.find("layers.2.running_mean ") != std::string::npos);
  CHECK(names.find("layers.7.running_var ") != std::string::npos);
  // Evaluated by the running statistics of the file, so the same number again.
  const Json result = evaluate(o.out);
  CHECK(result["loss"] == run.events.back()["loss"]);
  CHECK(result["accuracy"] == run.events.back()["accuracy"]);
}

TEST_CASE("networks: with batch_norm and any schedule, --resume goes on bit for bit") {
  const TempFolder folder;
  for (const char* schedule :
       {R"({"name": "step", "gamma": 0.5})",
        R"({"name": "multistep", "milestones": [9, 20], "gamma": 0.3, "unit": "step"})",
        R"({"name": "cosine", "warmup_steps": 5})"}) {
    CAPTURE(std::string(schedule));
    cli::TrainOptions whole = lenet(folder, "whole");
    whole.set.push_back(std::string("optimizer.schedule=") + schedule);
    cli::TrainOptions parts = whole;
    parts.out = folder / "parts";
    train(whole);
    InterruptAt buffer("\"step\":18,");
    std::ostream out(&buffer);
    std::ostringstream err;
    CHECK(error_text(ErrorKind::interrupted, [&] {
            cli::run_train(parts, out, err);
          }).starts_with("train: interrupted after step 18"));
    parts.resume = true;
    CHECK(train(parts).events.front()["resumed_at"] == 18);
    CHECK(read_file(whole.out + "/model.safetensors") ==
          read_file(parts.out + "/model.safetensors"));
    CHECK(metrics(whole.out) == metrics(parts.out));
    std::filesystem::remove_all(whole.out);
    std::filesystem::remove_all(parts.out);
  }
}

TEST_CASE("networks: a transformer learns to copy, and is scored by the tokens that count") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kCopy, "run");
  const Run run = train(o);
  CHECK(falls(run));
  CHECK(run.events.back()["accuracy"].get<double>() > 0.9);
  CHECK(evaluate(o.out)["loss"] == run.events.back()["loss"]);
  o.set = {"loss=mse"};
  CHECK(train_error(ErrorKind::config, o) ==
        o.config +
            ": loss: mse takes one label for each sample; for sequences there are cross_entropy "
            "and nll");
  o.set = {"model.layers[5].linear=4"};
  CHECK(train_error(ErrorKind::config, o) ==
        "model.layers: the network gives (1, 6, 4) for one sample, the data set copy needs 6 x at "
        "least 5 classes: end with {\"linear\": 5}");
}

TEST_CASE("networks: schedules move the learning rate by epochs or by steps") {
  const TempFolder folder;
  int n = 0;
  const auto rate = [&](const std::string& schedule) {
    cli::TrainOptions o = train_options(folder, kDigits, join("run", n++));
    o.set = {"optimizer.schedule=" + schedule, "optimizer.lr=0.01"};
    const std::vector<double> out = rates(train(o));
    REQUIRE(out.size() == 4 * 13);
    return out;
  };
  const std::vector<double> step = rate(R"({"name": "step", "step_size": 2, "gamma": 0.5})"),
                            multi = rate(R"({"name": "multistep", "milestones": [10, 40],
                                             "unit": "step"})"),
                            exponential = rate("exponential"), linear = rate("linear"),
                            cosine = rate(R"({"name": "cosine", "warmup_steps": 10})");
  for (size_t s = 0; s < 52; ++s) {
    CAPTURE(s);
    CHECK(step[s] == doctest::Approx(s < 26 ? 0.01 : 0.005));
    CHECK(multi[s] == doctest::Approx(s < 10 ? 0.01 : s < 40 ? 1e-3 : 1e-4));
    CHECK(exponential[s] == doctest::Approx(0.01 * std::pow(0.9, s / 13)));
    CHECK(linear[s] == doctest::Approx(0.01 * (1 - double(s) / 52)));
    CHECK(cosine[s] == doctest::Approx(s < 10
                                           ? 0.001 * double(s + 1)
                                           : 0.005 * (1 + std::cos(M_PI * double(s - 10) / 42))));
  }
}

TEST_CASE("networks: every optimiser, loss and option of the table learns") {
  const TempFolder folder;
  int n = 0;
  const auto learns = [&](std::vector<std::string> set) {
    CAPTURE(set[0]);
    cli::TrainOptions o = train_options(folder, kDigits, join("run", n++));
    o.set = std::move(set);
    CHECK(falls(train(o)));
  };
  learns({R"(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": true})"});
  learns({R"(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9, "dampening": 0.5,
                        "weight_decay": 1e-4})"});
  learns({R"(optimizer={"name": "adamw", "lr": 0.01})", "clip_norm=0.5"});
  learns({"shuffle=false"});
  for (const char* loss :
       {"mse", "l1", "smooth_l1", "huber", "multi_margin", "binary_cross_entropy_with_logits"})
    learns({std::string("loss=") + loss});
  learns({R"(loss={"name": "cross_entropy", "label_smoothing": 0.1})"});
  learns({R"(loss={"name": "huber", "delta": 0.5})"});
  learns({"loss=nll", R"(model.layers=[{"linear": 12}, "tanh", {"linear": 10}, "log_softmax"])"});
}

TEST_CASE("networks: layers in every form that a config may give them") {
  const TempFolder folder;
  int n = 0;
  const auto trains = [&](const std::string& layers) {
    CAPTURE(layers);
    cli::TrainOptions o = train_options(folder, kDigits, join("run", n++));
    o.set = {"model.layers=" + layers, "epochs=2"};
    CHECK(falls(train(o)));
  };
  trains(R"(["flatten", {"linear": {"out": 12, "bias": false}}, {"leaky_relu": 0.1},
             {"linear": 10}])");
  trains(R"([{"linear": 12}, {"gelu": {"approximate": "tanh"}}, {"dropout": {"p": 0.1}},
             {"linear": 10}])");
  trains(R"([{"linear": 12}, {"layer_norm": {"eps": 1e-3}}, "silu",
             {"repeat": {"times": 2, "layers": [{"residual": [{"linear": 12}, "tanh"]}]}},
             {"group_norm": 3}, {"linear": 10}])");
  trains(
      R"([{"linear": 12}, {"cast": "float64"}, {"cast": {"dtype": "float32"}}, {"linear": 10}])");
  trains(
      R"([{"unflatten": [1, 784]}, {"conv1d": {"out_channels": 2, "kernel_size": 8, "stride": 8}},
             "relu", {"conv_transpose1d": {"out_channels": 1, "kernel_size": 2}}, "flatten",
             {"linear": 10}])");
  trains(R"([{"unflatten": [1, 28, 28]}, {"avg_pool2d": {"kernel_size": [2, 2]}},
             {"conv2d": {"out_channels": 4, "kernel_size": [3, 3], "padding": 1}}, "relu",
             {"adaptive_avg_pool2d": 4}, "flatten", {"linear": 10}])");
}

TEST_CASE("networks: checkpoints change no number of a run") {
  const TempFolder folder;
  const auto losses = [&](const std::string& layers, const std::string& out) {
    cli::TrainOptions o = train_options(folder, kDigits, out);
    o.set = {"model.layers=" + layers};
    CHECK(falls(train(o)));
    return metrics(folder / out);
  };
  const auto plain = losses(R"([{"linear": 12}, "tanh", {"dropout": 0.3}, {"residual":
      [{"linear": 12}, "gelu", {"dropout": 0.2}]}, {"linear": 10}])",
                            "plain");
  const auto again = losses(R"([{"checkpoint": [{"linear": 12}, "tanh", {"dropout": 0.3}]},
      {"checkpoint": [{"residual": [{"checkpoint": [{"linear": 12}, "gelu", {"dropout": 0.2}]}]},
      {"linear": 10}]}])",
                            "again");
  CHECK(plain.size() > 4);
  CHECK(plain == again);
}

TEST_CASE("networks: layers that are refused say where") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kDigits, "run");
  const auto text = [&](ErrorKind kind, const std::string& layers) {
    o.set = {"model.layers=" + layers};
    return train_error(kind, o);
  };
  CHECK(text(ErrorKind::config, R"([{"linaer": 10}])") ==
        "--set: model.layers[0].linaer: unknown key; did you mean \"linear\"?");
  CHECK(text(ErrorKind::config, R"([{"residual": [{"residual": ["rellu"]}]}, {"linear": 10}])")
            .find("model.layers[0].residual[0].residual[0]") != std::string::npos);
  CHECK(text(ErrorKind::config, R"([{"linear": 10}, {"residual": []}])")
            .find("model.layers[1].residual: expected an array of at least 1 elements") !=
        std::string::npos);
  CHECK(text(ErrorKind::config, R"([{"conv2d": {"out_channels": 4}}])")
            .find("model.layers[0].conv2d: key \"kernel_size\" is missing") != std::string::npos);
  CHECK(text(ErrorKind::shape, R"([{"residual": ["relu", {"linear": 3}]}, {"linear": 10}])")
            .starts_with("residual: layers[0] adds what goes in, (1, 784), to what its layers"));
  CHECK(text(ErrorKind::shape, R"([{"residual": ["relu", {"linear": {"in": 5, "out": 3}}]}])") ==
        "linear: layers[0].residual[1] takes 5 features, its input has 784; the data set digits "
        "gives "
        "784 pixels (28 x 28) for a sample");
  CHECK(text(ErrorKind::shape, R"(["flatten", {"conv2d": {"out_channels": 4, "kernel_size": 3}}])")
            .find("conv2d: layers[1] takes 784 channels") != std::string::npos);
  CHECK(text(ErrorKind::value, R"([{"multi_head_attention": 3}])").find("; in layers[0]") !=
        std::string::npos);
  CHECK(text(ErrorKind::value, R"([{"checkpoint": [{"linear": 3}, {"residual": ["batch_norm"]}]}])")
            .find("checkpoint: its layers run twice for each step, which would move "
                  "layers.1.layers.0.running_mean twice") != std::string::npos);
  CHECK(text(ErrorKind::value, R"(["relu"])") == "adam: there are no parameters to optimise");
}

TEST_CASE("networks: every op that needs one operand is a layer") {
  const Spec spec = cli::network_spec();
  int count = 0;
  for (const OpInfo& op : all_ops()) {
    if (!nn::OpLayer::accepts(op)) continue;
    bool bare = true;
    for (const AttrSpec& a : op.attrs) bare = bare && !(a.default_value.is_none() && !a.optional);
    if (!bare) continue;
    CAPTURE(op.name);
    const Json config{{"experiment", "network"}, {"model", {{"layers", {op.name}}}}};
    CHECK(check(spec, config, "c.json")["model"]["layers"][0] == op.name);
    ++count;
  }
  CHECK(count > 20);
}

TEST_CASE("networks: the schema describes a layer once, however deep layers stand") {
  const Json schema = json_schema(cli::network_spec(), "network");
  CHECK(schema["definitions"].size() == 1);
  const Json& layer = schema["definitions"]["layer"];
  CHECK(schema["properties"]["model"]["properties"]["layers"]["items"]["$ref"] ==
        "#/definitions/layer");
  for (const Json& form : layer["anyOf"])
    if (form.contains("properties") && form["properties"].contains("residual"))
      CHECK(form["properties"]["residual"]["anyOf"][0]["items"]["$ref"] == "#/definitions/layer");
  CHECK(schema.dump().find("milestones") != std::string::npos);
}

TEST_CASE("networks: the configs that come with gradus are valid") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(GRADUS_SOURCE_DIR) + "/configs")) {
    if (!entry.is_regular_file() || entry.path().extension() != ".json") continue;
    if (entry.path().parent_path().filename() == "contraction") continue;
    CAPTURE(entry.path().string());
    const Json config = cli::layered_network(entry.path().string(), {}).resolve();
    cli::Experiment e = cli::read_experiment(config, entry.path().string());
    e.data.train = e.data.test = 1;
    if (e.data.idx.empty())
      CHECK(nn::count(
                cli::build_network(e, cli::load_data(e.data), default_device()).parameters()) > 0);
    ++count;
  }
  CHECK(count >= 5);
}

TEST_CASE("copy: sequences as they are written down") {
  const auto tokens = [](const cli::Samples& s) -> const cli::Tokens& {
    return std::get<cli::Tokens>(s.inputs);
  };
  const cli::Dataset a = cli::make_copy(30, 20, 5, 3, 7), b = cli::make_copy(10, 20, 5, 3, 7),
                     c = cli::make_copy(10, 10, 5, 3, 8);
  CHECK(a.cols() == 6);
  CHECK(a.classes == 6);
  CHECK(tokens(a.train).size() == 30 * 6);
  std::vector<int> seen(5);
  for (size_t i = 0; i < 30; ++i) {
    const int32_t* x = tokens(a.train).data() + i * 6;
    const int32_t* y = a.train.labels().data() + i * 6;
    for (size_t k = 0; k < 3; ++k) {
      CHECK(x[k] < 5);
      ++seen[size_t(x[k])];
      CHECK(y[k] == cli::kNoLabel);
      CHECK(y[3 + k] == x[k]);
    }
    CHECK(x[3] == 5);
    CHECK(x[4] == x[0]);
    CHECK(x[5] == x[1]);
  }
  for (const int n : seen) CHECK(std::abs(n - 18) < 18);  // of 90 draws
  CHECK(std::equal(tokens(b.train).begin(), tokens(b.train).end(), tokens(a.train).begin()));
  CHECK(tokens(b.train) != tokens(c.train));
  CHECK(std::vector(tokens(a.train).begin(), tokens(a.train).begin() + 60) !=
        std::vector(tokens(a.test).begin(), tokens(a.test).begin() + 60));
  CHECK(error_text(ErrorKind::config, [] {
          cli::make_copy(1, 1, 256, 3, 0);
        }).starts_with("copy: train 1, test 1, symbols 256"));
}
