// `train` with and without captured steps: the same bytes, or one line that says why not.
#include "tests/helpers/train_helpers.hpp"

using namespace gradus;

namespace {

struct Result {
  std::string model, notice;
  std::vector<std::string> metrics;
  Json result;
};
Result train_with(const char* config, const char* capture, const char* device = "cpu") {
  const test::TempFolder folder;
  cli::TrainOptions o;
  o.config = folder.write("config.json", config);
  o.set = {std::string("capture=\"") + capture + "\""};
  o.device = device;
  o.out = folder / "run";
  o.json = true;
  const test::Run run = test::train(o);
  return {read_file(o.out + "/model.safetensors"), run.err, test::metrics(o.out),
          run.events.back()};
}
void same_as_eager(const char* config, const char* device = "cpu") {
  const Result eager = train_with(config, "off", device),
               captured = train_with(config, "on", device);
  CHECK(captured.model == eager.model);
  CHECK(captured.metrics == eager.metrics);
  CHECK(captured.result["loss"] == eager.result["loss"]);
  CHECK(captured.notice.find("not captured") == std::string::npos);
}

}  // namespace

TEST_CASE("capture: train gives the same bytes with and without it") {
  SUBCASE("dropout, clipping, a schedule, a short last batch") {
    same_as_eager(R"({"experiment": "mlp", "seed": 5,
      "data": {"name": "digits", "train": 200, "test": 50},
      "model": {"layers": [{"linear": 12}, "batch_norm", "relu", {"dropout": 0.2}, {"linear": 10}]},
      "optimizer": {"name": "adam", "lr": 0.02, "schedule": "cosine"}, "clip_norm": 5,
      "epochs": 3, "batch_size": 16, "log_every": 5})");
  }
  SUBCASE("sgd with dampening, on the reference") {
    same_as_eager(R"({"experiment": "mlp",
      "data": {"name": "digits", "train": 96, "test": 20},
      "model": {"layers": [{"linear": 8}, "tanh", {"linear": 10}]},
      "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "dampening": 0.3},
      "epochs": 2, "batch_size": 32})",
                  "reference");
  }
  SUBCASE("a small LeNet") {
    same_as_eager(R"({"experiment": "network",
      "data": {"name": "digits", "train": 80, "test": 20},
      "model": {"layers": [{"unflatten": [1, 28, 28]}, {"conv2d": {"out_channels": 3, "kernel_size": 5}},
        "relu", {"max_pool2d": 2}, {"avg_pool2d": 2}, "flatten", {"linear": 10}]},
      "optimizer": {"name": "adamw"}, "epochs": 2, "batch_size": 16})");
  }
  SUBCASE("a small transformer, a part of it run again") {
    same_as_eager(R"({"experiment": "network",
      "data": {"name": "copy", "train": 60, "test": 20, "symbols": 5, "length": 4},
      "model": {"layers": [{"embedding": {"num_embeddings": 6, "embedding_dim": 8}},
        "positional_embedding",
        {"checkpoint": [{"residual": ["layer_norm", {"multi_head_attention":
          {"num_heads": 2, "causal": true}}]}]},
        {"residual": ["layer_norm", {"linear": 12}, "gelu", {"linear": 8}, {"dropout": 0.1}]},
        {"linear": 6}]},
      "optimizer": {"name": "adamw"}, "clip_norm": 1, "epochs": 3, "batch_size": 16})");
  }
  SUBCASE("what can't be captured says so, and runs") {
    const char* config = R"({"experiment": "mlp",
      "data": {"name": "digits", "train": 64, "test": 20},
      "model": {"layers": [{"checkpoint": [{"linear": 8}, {"dropout": 0.1}]}, {"linear": 10}]},
      "epochs": 2, "batch_size": 16})";
    const Result eager = train_with(config, "off"), fallen = train_with(config, "auto");
    CHECK(fallen.model == eager.model);
    CHECK(fallen.notice.find("not captured") != std::string::npos);
    CHECK(eager.notice.find("not captured") == std::string::npos);
    const test::TempFolder folder;
    cli::TrainOptions o;
    o.config = folder.write("config.json", config);
    o.set = {"capture=\"on\""};
    o.out = folder / "run";
    CHECK(test::train_error(ErrorKind::config, o).find("the step cannot be captured") !=
          std::string::npos);
  }
}
