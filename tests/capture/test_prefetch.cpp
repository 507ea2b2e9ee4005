// Batches that are sent while the device works: uploads on a stream of their own, and training with
// them, which must give the bits of training without.
#include "ops/train/trainer.hpp"
#include "engine/capture/upload.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/train_helpers.hpp"

#include "engine/config/loader.hpp"

#include <atomic>

using namespace gradus;
using gpu_test::emulated_device;
using gpu_test::emulator;

namespace {

constexpr int kAtOnce = 0, kLate = 2;  // devices, by how their streams work

const gd_table& table_without_streams() {
  static const gd_table table = [] {
    gd_table t = emulator();
    t.stream_new = nullptr;
    return t;
  }();
  return table;
}

// A table whose copies from the host on a stream that is not the default one are counted, and fail
// from `breaks_at` on.
std::atomic<int> sent{0}, breaks_at{INT_MAX};
const gd_table& table_that_breaks() {
  static const gd_table table = [] {
    gd_table t = emulator();
    t.copy = [](gd_device* d, gd_stream* s, void* to, const void* from, size_t bytes, int32_t way,
                gd_error* e) -> gd_status {
      if (s && way == GD_HOST_TO_DEVICE && ++sent >= breaks_at) {
        std::strcpy(e->text, "the cable is out");
        return e->code = GD_INTERNAL;
      }
      return emulator().copy(d, s, to, from, bytes, way, e);
    };
    return t;
  }();
  return table;
}

std::vector<double> counted(int64_t n, double first) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(first + double(i));
  return x;
}
void put(Upload& upload, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> p = a, q = b;  // which may go as soon as put() returns
  const std::array<Upload::Piece, 2> pieces{{{p.data(), 8 * p.size()}, {q.data(), 8 * q.size()}}};
  upload.put(pieces);
  std::fill(p.begin(), p.end(), -1);
  std::fill(q.begin(), q.end(), -1);
}

// What two tensors hold after two rounds of put and take; the second put is told before anybody has
// waited for the first take.
std::vector<std::vector<double>> two_rounds(Device& device, int64_t n) {
  Upload upload(device);
  const std::array<Tensor, 2> x{Tensor::zeros({n}, DType::f64, device),
                                Tensor::zeros({3}, DType::f64, device)},
      y{Tensor::zeros({n}, DType::f64, device), Tensor::zeros({3}, DType::f64, device)};
  device.synchronize();
  upload.reserve(Upload::room(size_t(n) * 8) + Upload::room(24));
  put(upload, counted(n, 1), counted(3, 2));
  upload.take(x);
  put(upload, counted(n, 100), counted(3, 200));
  upload.take(y);
  return {x[0].to_vector<double>(), x[1].to_vector<double>(), y[0].to_vector<double>(),
          y[1].to_vector<double>()};
}
std::vector<std::vector<double>> wanted(int64_t n) {
  return {counted(n, 1), counted(3, 2), counted(n, 100), counted(3, 200)};
}

cli::Experiment experiment(const char* text, const std::vector<std::string>& set = {}) {
  const test::TempFolder folder;
  const std::string file = folder.write("config.json", text);
  return cli::read_experiment(cli::layered_network(file, set).resolve(), file);
}
// 16, 16 and 8 samples a step; enough epochs for steps to be recorded, replayed and made a graph.
constexpr const char* kMlp = R"({"experiment": "mlp", "seed": 5,
  "data": {"name": "digits", "train": 40, "test": 12},
  "model": {"layers": [{"linear": 6}, "relu", {"dropout": 0.2}, {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.02}, "clip_norm": 5, "epochs": 5, "batch_size": 16})";
constexpr const char* kTokens = R"({"experiment": "network",
  "data": {"name": "copy", "train": 20, "test": 6, "symbols": 5, "length": 4},
  "model": {"layers": [{"embedding": {"num_embeddings": 6, "embedding_dim": 4}}, {"linear": 6}]},
  "optimizer": {"name": "sgd", "lr": 0.1}, "epochs": 4, "batch_size": 8})";

std::vector<std::vector<char>> bytes_of(const NamedTensors& tensors) {
  std::vector<std::vector<char>> out;
  for (const auto& [name, t] : tensors) {
    out.emplace_back(t.bytes());
    t.copy_to_host(out.back().data());
  }
  return out;
}
struct Outcome {
  std::vector<double> losses{};
  std::vector<std::vector<char>> state{};
  bool operator==(const Outcome&) const = default;
};
// To the last epoch, the losses of every step included.
void go_on(cli::Trainer& trainer, const cli::Experiment& e, Outcome& out) {
  while (trainer.epoch() < e.epochs) {
    while (!trainer.epoch_done()) {
      trainer.step();
      if (trainer.batch() != 2) trainer.read_losses();  // two steps may be on their way
      out.losses.push_back(trainer.last_loss());
    }
    out.losses.push_back(trainer.finish_epoch());
    out.losses.push_back(trainer.test().loss);
  }
  out.state = bytes_of(trainer.tensors());
}
Outcome trained(Device& device, const cli::Experiment& e) {
  const cli::Dataset data = cli::load_data(e.data);
  cli::Trainer trainer(e, data, device);
  Outcome out;
  go_on(trainer, e, out);
  CHECK((trainer.replays() > 0) == (e.capture != cli::Capture::off));
  return out;
}

}  // namespace

TEST_CASE("prefetch: uploads arrive in the order they are taken in, on streams that work late") {
  for (const int index : {kAtOnce, kLate, 3}) {
    CAPTURE(index);
    Device& device = emulated_device(index);
    CHECK(two_rounds(device, 5) == wanted(5));
    // Larger than both pinned buffers, so each is filled and waited for several times.
    const int64_t large = test::small_sizes() ? 5 : (int64_t(13) << 20) / 8 + 1;
    CHECK(two_rounds(device, large) == wanted(large));
  }
}

TEST_CASE("prefetch: the emulator shows a missing wait for an event") {
  static gd_table deaf = emulator();
  deaf.event_wait = [](gd_device*, gd_stream*, gd_event*, gd_error*) { return gd_status(GD_OK); };
  CHECK(two_rounds(emulated_device(kAtOnce, deaf), 5) == wanted(5));
  CHECK(two_rounds(emulated_device(kLate, deaf), 5) != wanted(5));
}

TEST_CASE("prefetch: where nothing is to be won, and where a step cannot be repeated") {
  CHECK_FALSE(Upload::offered(open_device("cpu")));
  CHECK_FALSE(Upload::offered(emulated_device(0, table_without_streams())));
  Device& device = emulated_device(0);
  CHECK(Upload::offered(device));
  Upload upload(device);
  const std::array<Tensor, 1> x{Tensor::zeros({3}, DType::f64, device)};
  upload.reserve(24);
  const double numbers[] = {1, 2, 3};
  upload.put(std::array<Upload::Piece, 1>{{{numbers, 24}}});
  const Captured step = capture(device, [&] {
    upload.take(x);
    return Tensors{x[0] * 2.0};
  });
  CHECK(step.why_not().find("numbers are copied from the host") != std::string::npos);
  CHECK(testing::values(step.outputs()[0]) == std::vector<double>{2, 4, 6});
}

TEST_CASE("prefetch: training gives the bits of training without it") {
  for (const char* config : {kMlp, kTokens})
    for (const char* capture : {"capture=on", "capture=off"}) {
      if (gradus::test::small_sizes() && (config == kMlp) == (capture[9] == 'n')) continue;
      CAPTURE(std::string(config));
      CAPTURE(std::string(capture));
      const cli::Experiment e = experiment(config, {capture});
      for (const int index : {kAtOnce, kLate}) {
        CAPTURE(index);
        const Outcome plain = trained(emulated_device(index, table_without_streams()), e);
        sent = 0;
        CHECK(trained(emulated_device(index, table_that_breaks()), e) == plain);
        // Inputs and labels of all but the first batch of each epoch.
        CHECK(sent == 2 * 2 * e.epochs);
      }
    }
}

TEST_CASE("prefetch: a scaled loss") {
  const cli::Experiment e = experiment(kMlp, {"precision.compute=f16"});
  CHECK(trained(emulated_device(kLate), e) ==
        trained(emulated_device(kLate, table_without_streams()), e));
}

TEST_CASE("prefetch: taken up in another trainer, and in one that has another batch on its way") {
  const cli::Experiment e = experiment(kMlp);
  const cli::Dataset data = cli::load_data(e.data);
  for (const int index : {kAtOnce, kLate}) {
    CAPTURE(index);
    Device& device = emulated_device(index);
    cli::Trainer whole(e, data, device);
    for (int k = 0; k < 3; ++k) whole.step();
    whole.finish_epoch();
    whole.step();
    Safetensors state;
    for (const auto& [name, t] : whole.tensors()) state.tensors.emplace_back(name, clone(t));
    state.metadata = whole.numbers();
    Outcome wanted;
    go_on(whole, e, wanted);

    Outcome other, again;
    cli::Trainer second(e, data, device);
    second.restore(state, "state");
    go_on(second, e, other);
    CHECK(other == wanted);
    cli::Trainer third(e, data, device);
    third.step();
    third.restore(state, "state");
    go_on(third, e, again);
    CHECK(again == wanted);
  }
}

TEST_CASE("prefetch: what fails in the thread is the error of a step, and the next one works") {
  const cli::Experiment e = experiment(kMlp);
  const cli::Dataset data = cli::load_data(e.data);
  const Outcome wanted = trained(emulated_device(0, table_without_streams()), e);
  Device& device = emulated_device(0, table_that_breaks());
  cli::Trainer trainer(e, data, device);
  sent = 0;
  breaks_at = 3;  // the last batch of the first epoch
  Outcome out;
  trainer.step();
  trainer.read_losses();
  out.losses.push_back(trainer.last_loss());
  trainer.step();
  out.losses.push_back(trainer.last_loss());
  CHECK(test::error_text(ErrorKind::device, [&] { trainer.step(); }) ==
        "copy: to emu: the cable is out");
  CHECK(trainer.steps() == 2);
  breaks_at = INT_MAX;
  go_on(trainer, e, out);
  CHECK(out == wanted);
  breaks_at = sent + 1;  // nobody asks for what the thread has thrown
  cli::Trainer left(e, data, device);
  left.step();
  breaks_at = INT_MAX;
}

TEST_CASE("prefetch: Ctrl-C and --resume on a device with streams, bit for bit") {
  const test::TempFolder folder;
  cli::TrainOptions o;
  o.config = folder.write("config.json", kMlp);
  o.set = {"log_every=1"};
  o.device = "emu:2";
  o.json = true;
  o.out = folder / "whole";
  test::train(o);
  o.out = folder / "parts";
  test::InterruptAt buffer("\"step\":7,");
  std::ostream out(&buffer);
  std::ostringstream err;
  CHECK(test::error_text(ErrorKind::interrupted, [&] {
          cli::run_train(o, out, err);
        }).find("interrupted after step 7") != std::string::npos);
  o.resume = true;
  test::train(o);
  CHECK(read_file(folder / "whole/model.safetensors") ==
        read_file(folder / "parts/model.safetensors"));
  CHECK(test::metrics(folder / "whole") == test::metrics(folder / "parts"));
}
