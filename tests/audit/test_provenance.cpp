// A NaN in training is traced to its step, node and element; the step's file shows it again, and
// shrinks.
#include "engine/files/safetensors.hpp"
#include "ops/audit/step/diff.hpp"
#include "ops/audit/step/trace.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <cmath>
#include <sys/stat.h>

using namespace gradus;
using gradus::test::TempFolder;

namespace {

struct Failed {
  std::string notices, error;
  Json provenance;  // null: there was none
};

// A run that ends with an Error(numeric).
Failed fails(const cli::TrainOptions& options) {
  std::ostringstream out, err;
  Failed f;
  f.error = test::error_text(ErrorKind::numeric, [&] { cli::run_train(options, out, err); });
  f.notices = err.str();
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);)
    if (const Json e = Json::parse(line); e["event"] == "provenance") f.provenance = e;
  return f;
}

const char* const kLenet = R"({"experiment": "network",
  "data": {"name": "digits", "train": 96, "test": 16},
  "model": {"layers": [
    {"unflatten": [1, 28, 28]},
    {"conv2d": {"out_channels": 8, "kernel_size": 5, "stride": 2}}, "batch_norm", "relu",
    {"max_pool2d": 2}, "flatten", {"linear": 32}, "batch_norm", "relu", {"linear": 10}]},
  "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
  "epochs": 3, "batch_size": 32, "checkpoint_every": 4})";

// Writes `value` into one element of a parameter in the newest checkpoint of the run.
void plant(const TempFolder& folder, const std::string& parameter, size_t element, float value) {
  const std::string file = folder / "run/checkpoint-000000004.safetensors";
  Safetensors state = read_safetensors(file);
  for (auto& [name, t] : state.tensors) {
    if (name != parameter) continue;
    std::vector<float> v = t.to_vector<float>();
    v[element] = value;
    t = Tensor::from(v, t.sizes());
  }
  write_safetensors(file, state.tensors, state.metadata);
}

// Trains to step 6, so that the checkpoint of step 4 is there.
cli::TrainOptions stopped_lenet(const TempFolder& folder) {
  cli::TrainOptions o = train_options(folder, kLenet);
  test::InterruptAt interrupt("\"step\":6");
  o.set = {"log_every=1"};
  std::ostream out(&interrupt);
  std::ostringstream err;
  CHECK_THROWS_AS(cli::run_train(o, out, err), Error);
  for (const char* step : {"6", "7"})
    ::unlink((folder / "run/checkpoint-00000000").append(step).append(".safetensors").c_str());
  o.resume = true;
  return o;
}

}  // namespace

TEST_CASE("provenance: a NaN planted in LeNet is traced to node and element, and shrinks") {
  const TempFolder folder;
  const cli::TrainOptions o = stopped_lenet(folder);
  // The largest float in channel 5 overflows in the convolution, and batch_norm makes inf - inf.
  plant(folder, "model.layers.1.weight", 5 * 25 + 12, 3e38f);
  plant(folder, "model.layers.1.weight", 5 * 25 + 13, 3e38f);
  const Failed f = fails(o);
  REQUIRE(f.provenance.is_object());
  CHECK(f.provenance["step"] == 5);
  CHECK(f.provenance["where"].get<std::string>().find("layers[1] conv2d") != std::string::npos);
  CHECK(f.provenance["element"][1] == 5);  // (sample, channel, row, column)
  CHECK(f.provenance["text"].get<std::string>().find("from finite operands") != std::string::npos);
  CHECK(f.provenance["sample"].get<int>() < 96);
  CHECK(f.notices.find("gradus: step 5 is repeated to find out why") != std::string::npos);
  CHECK(f.error.find("the loss is ") != std::string::npos);

  const std::string trace = f.provenance["file"];
  CHECK(trace == folder / "run" + "/nan-step-5.safetensors");
  const test::ProgramRun again = test::run(folder, "replay run/nan-step-5.safetensors");
  CHECK(again.code == 0);
  CHECK(again.out.find("NaN: " + f.provenance["text"].get<std::string>()) == 0);
  CHECK(again.out.find("the same bits") != std::string::npos);
  const test::ProgramRun small =
      test::run(folder, "replay run/nan-step-5.safetensors --shrink small.safetensors --until nan");
  CHECK(small.code == 0);
  const audit::RecordedStep shrunk =
      audit::read_trace(folder / "small.safetensors", default_device());
  CHECK(shrunk.nodes.size() <= 3);
  CHECK(test::run(folder, "replay small.safetensors").code == 0);
}

TEST_CASE("provenance: a step that can't be kept is told of all the same") {
  const TempFolder folder;
  const cli::TrainOptions o = stopped_lenet(folder);
  plant(folder, "model.layers.6.bias", 3, NAN);
  REQUIRE(::mkdir((folder / "run/nan-step-5.safetensors").c_str(), 0700) == 0);
  const Failed f = fails(o);
  REQUIRE(f.provenance.is_object());
  CHECK(f.provenance["element"] == Json::array({3}));
  CHECK(!f.provenance.contains("file"));
  CHECK(f.provenance["not_kept"].get<std::string>().find("nan-step-5") != std::string::npos);
  CHECK(f.notices.find("gradus: the step could not be kept: ") != std::string::npos);
}

TEST_CASE("provenance: a parameter that is not finite is named") {
  const TempFolder folder;
  const cli::TrainOptions o = stopped_lenet(folder);
  plant(folder, "model.layers.6.bias", 3, NAN);
  const Failed f = fails(o);
  REQUIRE(f.provenance.is_object());
  CHECK(f.provenance["element"] == Json::array({3}));
  CHECK(f.provenance["text"].get<std::string>().find(": layers.6.bias") != std::string::npos);
}

TEST_CASE("provenance: born in backward, a step before a loss shows it") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, R"({"experiment": "network", "seed": 3,
    "data": {"name": "digits", "train": 64, "test": 16},
    "model": {"layers": [{"linear": 12}, "relu", "sqrt", {"linear": 10}]},
    "epochs": 4, "batch_size": 16})");
  const Failed f = fails(o);
  REQUIRE(f.provenance.is_object());
  CHECK(f.provenance["step"] == 1);
  CHECK(f.provenance["op"] == "sqrt");
  CHECK(f.provenance["text"].get<std::string>().find("operand 0 is 0 there") != std::string::npos);
  CHECK(f.error.find("at step 2 ") != std::string::npos);
  // The element is the first zero that sqrt had.
  const audit::RecordedStep step =
      audit::read_trace(f.provenance["file"].get<std::string>(), default_device());
  for (const audit::RecordedNode& n : step.nodes) {
    if (n.op->name != "sqrt") continue;
    const std::vector<float> y = n.outputs[0].value.to_vector<float>();
    const auto zero = std::find(y.begin(), y.end(), 0.0f) - y.begin();
    CHECK(f.provenance["element"] == Json::array({zero / 12, zero % 12}));
  }

  // Switched off, nothing is repeated.
  cli::TrainOptions off = o;
  off.out = folder / "off";
  off.set = {"provenance=false"};
  const Failed quiet = fails(off);
  CHECK(quiet.provenance.is_null());
  CHECK(quiet.notices.find("repeated") == std::string::npos);
  CHECK(quiet.error.substr(0, 40) == f.error.substr(0, 40));

  // Interrupted, it says so, and the run's error stays.
  cli::TrainOptions stopped = o;
  stopped.out = folder / "stopped";
  test::InterruptAt interrupt("repeated to find out why");
  std::ostream err(&interrupt);
  std::ostringstream out;
  const std::string error =
      test::error_text(ErrorKind::numeric, [&] { cli::run_train(stopped, out, err); });
  CHECK(error.find("train: the loss is nan at step 2") == 0);
  CHECK(interrupt.str().find("interrupted; where it comes from was not found") !=
        std::string::npos);
}

TEST_CASE("provenance: an update that overflows") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, R"({"experiment": "network",
    "data": {"name": "digits", "train": 32, "test": 16},
    "model": {"layers": [{"linear": 12}, "tanh", {"linear": 10}]},
    "optimizer": {"name": "sgd", "lr": 1e39}, "epochs": 4, "batch_size": 16})");
  const Failed f = fails(o);
  CHECK(f.provenance.is_null());
  CHECK(f.notices.find("loss and gradients of step 1 are finite: its update made a parameter "
                       "infinite") != std::string::npos);
}
