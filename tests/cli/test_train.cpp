// Training runs on small generated digits: what is printed and left on disk, and that a run which
// was interrupted, killed or damaged goes on to the very bytes of one that was not.
#include "gradus_paths.hpp"
#include "ops/train/batches.hpp"
#include "cli/teach/demo.hpp"
#include "cli/frame/progress.hpp"
#include "engine/files/safetensors.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <algorithm>
#include <map>
#include <sys/wait.h>

using namespace gradus;
using namespace gradus::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSmall = R"({
  // 13 steps an epoch, the last one short
  "experiment": "mlp", "seed": 5,
  "data": {"name": "digits", "train": 200, "test": 100},
  "model": {"layers": [{"linear": 12}, "relu", {"dropout": 0.2}, {"linear": 10}]},
  "optimizer": {"name": "adam", "lr": 0.02, "schedule": "cosine"}, "clip_norm": 5,
  "epochs": 3, "batch_size": 16, "log_every": 5, "checkpoint_every": 7
})";

std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(run))
    if (entry.path().filename().string().starts_with("checkpoint-"))
      out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

// A folder of IDX files with 4 x 4 images: n of them, image i showing label i % 3.
std::string write_idx(const TempFolder& folder, uint8_t wrong_label = 0) {
  const auto part = [&](const std::string& stem, int n, bool wrong) {
    std::string images = {0, 0, 8, 3, 0, 0, 0, char(n), 0, 0, 0, 4, 0, 0, 0, 4};
    std::string labels = {0, 0, 8, 1, 0, 0, 0, char(n)};
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < 16; ++k) images += char(k % 3 == i % 3 ? 255 : 0);
      labels += char(wrong && i == 2 ? wrong_label : i % 3);
    }
    folder.write("idx/" + stem + "-images-idx3-ubyte", images);
    folder.write("idx/" + stem + "-labels-idx1-ubyte", labels);
  };
  part("train", 60, wrong_label != 0);
  part("t10k", 30, false);
  return folder / "idx";
}

}  // namespace

TEST_CASE("train: the order of an epoch is a permutation that seed and epoch fix") {
  auto order = cli::epoch_order(1000, 7, 0);
  CHECK(order == cli::epoch_order(1000, 7, 0));
  CHECK(order != cli::epoch_order(1000, 7, 1));
  CHECK(order != cli::epoch_order(1000, 8, 0));
  int64_t fixed = 0;
  for (size_t i = 0; i < order.size(); ++i) fixed += order[i] == int64_t(i);
  CHECK(fixed < 10);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == int64_t(i));
  CHECK(cli::epoch_order(1, 7, 0) == std::vector<int64_t>{0});
  // Every permutation of three comes about as often as any other: 6 sigma of 1000.
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[cli::epoch_order(3, 1, epoch)];
  CHECK(counts.size() == 6);
  for (const auto& [permutation, count] : counts) CHECK(std::abs(count - 1000) < 180);
}

TEST_CASE("train: what a run prints and leaves") {
  const TempFolder folder;
  const Run run = train(train_options(folder, kSmall, "run"));
  CHECK(run.events.front()["event"] == "start");
  CHECK(run.events.front()["parameters"] == 784 * 12 + 12 + 120 + 10);
  CHECK(run.events.front()["steps_per_epoch"] == 13);
  const std::string last = run.out.substr(run.out.rfind('\n', run.out.size() - 2) + 1);
  CHECK(last.starts_with("{\"event\":\"result\",\"loss\":"));
  size_t at = 0;
  for (const char* key : {"event", "loss", "accuracy", "steps", "seconds", "samples_per_second",
                          "device", "run_dir"}) {
    const size_t found = last.find("\"" + std::string(key) + "\":");
    CHECK(found != std::string::npos);
    CHECK(found >= at);
    at = found;
  }
  const Json& result = run.events.back();
  CHECK(result["steps"] == 39);
  CHECK(result["device"] == "cpu");
  CHECK(result["run_dir"] == folder / "run");
  CHECK(result["accuracy"].get<double>() > 0.5);
  CHECK(run.err.find("epoch 3/3  train loss ") != std::string::npos);

  CHECK(checkpoints(folder / "run") ==
        std::vector<std::string>{"checkpoint-000000035.safetensors",
                                 "checkpoint-000000039.safetensors"});
  const std::vector<std::string> lines = metrics(folder / "run");
  CHECK(lines.size() == 7 + 3);
  CHECK(Json::parse(lines[0])["step"] == 5);
  CHECK(Json::parse(lines[2])["event"] == "epoch");
  CHECK(Json::parse(lines.back())["loss"] == result["loss"]);
  const Json config = Json::parse(read_file(folder / "run/config.json"));
  CHECK(config["optimizer"]["betas"] == Json({0.9, 0.999}));
  CHECK(config["device"] == "cpu");
  const Safetensors model = read_safetensors(folder / "run/model.safetensors");
  CHECK(model.tensors.size() == 4);
}

TEST_CASE("train: the same seed gives the same bytes, another one does not") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "a");
  train(o);
  o.out = folder / "b";
  train(o);
  CHECK(read_file(folder / "a/model.safetensors") == read_file(folder / "b/model.safetensors"));
  o.out = folder / "c";
  o.set = {"seed=6"};
  train(o);
  CHECK(read_file(folder / "a/model.safetensors") != read_file(folder / "c/model.safetensors"));
}

TEST_CASE("train: Ctrl-C saves after the step, --resume goes on bit for bit") {
  const TempFolder folder;
  train(train_options(folder, kSmall, "whole"));
  cli::TrainOptions o = train_options(folder, kSmall, "parts");
  // In the middle of an epoch, twice, at steps that no checkpoint was due at.
  for (const char* place : {"\"step\":10,", "\"step\":30,"}) {
    InterruptAt buffer(place);
    std::ostream out(&buffer);
    std::ostringstream err;
    const std::string step = std::string(place).substr(7, 2);
    CHECK(error_text(ErrorKind::interrupted, [&] { cli::run_train(o, out, err); }) ==
          "train: interrupted after step " + step + "; saved, go on with --resume --out " + o.out);
    CHECK(checkpoints(o.out).back() == "checkpoint-0000000" + step + ".safetensors");
    CHECK_FALSE(fs::exists(o.out + "/model.safetensors"));
    o.resume = true;
  }
  const Run rest = train(o);
  CHECK(rest.events.front()["resumed_at"] == 30);
  CHECK(read_file(folder / "whole/model.safetensors") ==
        read_file(folder / "parts/model.safetensors"));
  CHECK(metrics(folder / "whole") == metrics(folder / "parts"));
}

TEST_CASE("train: killed at any moment, --resume goes on bit for bit") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "killed");
  o.set = {"epochs=12", "log_every=1"};
  int lines[2];
  REQUIRE(::pipe(lines) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(lines[1], STDOUT_FILENO);
    ::close(lines[0]);
    (void)!::freopen("/dev/null", "w", stderr);
    ::execl(GRADUS_PROGRAM, "gradus", "train", o.config.c_str(), "--device", "cpu", "--out",
            o.out.c_str(), "--set", "epochs=12", "--set", "log_every=1", "--json", nullptr);
    ::_exit(99);
  }
  ::close(lines[1]);
  std::string seen;
  char c;
  while (seen.find("\"step\":17,") == std::string::npos && ::read(lines[0], &c, 1) == 1) seen += c;
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(lines[0]);
  CHECK(seen.find("\"step\":17,") != std::string::npos);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) != 0));

  o.resume = true;
  train(o);
  o.resume = false;
  o.out = folder / "whole";
  train(o);
  CHECK(read_file(folder / "whole/model.safetensors") ==
        read_file(folder / "killed/model.safetensors"));
  CHECK(metrics(folder / "whole") == metrics(folder / "killed"));
}

TEST_CASE("train: a damaged checkpoint is said, and the one before it used") {
  const TempFolder folder;
  train(train_options(folder, kSmall, "whole"));
  cli::TrainOptions o = train_options(folder, kSmall, "damaged");
  train(o);
  fs::remove(o.out + "/summary.json");
  const std::string newest = o.out + "/checkpoint-000000039.safetensors";
  fs::resize_file(newest, fs::file_size(newest) - 100);
  o.resume = true;
  const Run run = train(o);
  CHECK(run.err.find("a checkpoint cannot be read, an older one is used: " + newest) !=
        std::string::npos);
  CHECK(run.events.front()["resumed_at"] == 35);
  CHECK(read_file(folder / "whole/model.safetensors") ==
        read_file(folder / "damaged/model.safetensors"));
  CHECK(metrics(folder / "whole") == metrics(folder / "damaged"));

  fs::remove(o.out + "/summary.json");
  for (const std::string& name : checkpoints(o.out)) fs::resize_file(o.out + "/" + name, 20);
  CHECK(train_error(ErrorKind::io, o).find("no checkpoint can be read") != std::string::npos);
}

TEST_CASE("train: --resume where nothing was saved, where all is done, and with more epochs") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "run");
  o.resume = true;
  const Run first = train(o);
  CHECK_FALSE(first.events.front().contains("resumed_at"));
  const std::string model = read_file(folder / "run/model.safetensors");
  const Run again = train(o);
  CHECK(again.events.size() == 1);
  CHECK(again.events[0] == first.events.back());
  CHECK(read_file(folder / "run/model.safetensors") == model);
  o.set = {"epochs=4"};
  const Run more = train(o);
  CHECK(more.events.front()["resumed_at"] == 39);
  CHECK(more.events.back()["steps"] == 52);
  o.set = {"epochs=2"};
  CHECK(train_error(ErrorKind::config, o) ==
        "epochs: the run has trained for 4 epochs already, 2 were asked for");
  o.set = {"model.layers[0].linear=13"};
  CHECK(train_error(ErrorKind::config, o) ==
        "--set: model.layers[0].linear: the run was started with 12, now it is 13; only device, "
        "epochs, capture, health, log_every, provenance and report may change on --resume");
  o.set = {"optimizer=sgd"};
  CHECK(train_error(ErrorKind::config, o).find("optimizer.") != std::string::npos);
  o.set.clear();
  o.device = "reference";
  o.set = {"epochs=5"};
  CHECK(train(o).err.find("the last bits may differ") != std::string::npos);
}

TEST_CASE("train: folders that are refused") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "full");
  folder.write("full/letter.txt", "dear");
  CHECK(train_error(ErrorKind::config, o) ==
        o.out +
            ": the run folder is not empty; go on with --resume, or name another one with --out");
  o.out = folder / "config.json/run";
  CHECK(train_error(ErrorKind::io, o).starts_with(o.out + ": cannot make the folder: "));
  o.out = "/proc/self/run";
  CHECK(train_error(ErrorKind::io, o).starts_with("/proc/self/run: cannot make the folder: "));
  if (::geteuid() != 0) {
    fs::create_directory(folder / "locked");
    fs::permissions(folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
    o.out = folder / "locked";
    CHECK(train_error(ErrorKind::io, o).find("Permission denied") != std::string::npos);
  }
}

TEST_CASE("train: without --out runs are numbered") {
  const TempFolder folder;
  const fs::path before = fs::current_path();
  cli::TrainOptions o = train_options(folder, kSmall, "");
  o.out.clear();
  o.set = {"epochs=1"};
  fs::current_path(folder.path());
  CHECK(train(o).events.back()["run_dir"] == "runs/config-1");
  CHECK(train(o).events.back()["run_dir"] == "runs/config-2");
  o.resume = true;
  CHECK(train(o).events.back()["run_dir"] == "runs/config-2");
  fs::current_path(before);
}

TEST_CASE("train: configs that are refused") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "run");
  const auto text = [&](const std::string& set) {
    o.set = {set};
    return train_error(ErrorKind::config, o);
  };
  CHECK(text("epoch=3") == "--set: epoch: unknown key; did you mean \"epochs\"?");
  CHECK(text("epochs=0") == "--set: epochs: expected a whole number from 1 up, got 0");
  CHECK(text("optimizer.lr=abc").find("optimizer.lr: expected a number") != std::string::npos);
  CHECK(text("optimizer.name=adan").find("did you mean \"adam\"?") != std::string::npos);
  CHECK(text("model.layers[1]=rellu").find("did you mean \"relu\"?") != std::string::npos);
  CHECK(text("model.layers[3].linear=5") ==
        "model.layers: the network gives (1, 5) for one sample, the data set digits needs at least "
        "10 classes: end with {\"linear\": 10}");
  CHECK(text("experiment=contraction").find("gradus contract") != std::string::npos);
  o.set = {"model.layers[3].linear={\"in\": 64, \"out\": 10}"};
  CHECK(
      train_error(ErrorKind::shape, o) ==
      "linear: layers[3] takes 64 features, its input has 12; the data set digits gives 784 pixels "
      "(28 x 28) for a sample");
  o.set = {};
  o.config = folder / "nowhere.json";
  CHECK(train_error(ErrorKind::io, o).starts_with(o.config + ": cannot open: "));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("train: IDX files") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "run");
  const std::string idx = write_idx(folder);
  o.set = {"data.idx=" + idx, "model.layers[3].linear=3", "epochs=15"};
  const Run run = train(o);
  CHECK(run.events.front()["train"] == 60);
  CHECK(run.events.back()["accuracy"] == 1.0);
  o.out = folder / "limited";
  o.set.push_back("data.train=40");
  o.set.push_back("data.test=20");
  CHECK(train(o).events.front()["train"] == 40);

  o.out = folder / "wrong";
  write_idx(folder, 9);
  CHECK(train_error(ErrorKind::config, o) ==
        "model.layers: the network gives (1, 3) for one sample, the data set " + idx +
            " needs at least 10 classes: end with {\"linear\": 10}");
  o.set[0] = "data.idx=" + (folder / "none");
  CHECK(train_error(ErrorKind::io, o).starts_with(folder / "none: no such folder"));
  CHECK_FALSE(fs::exists(o.out));
}

TEST_CASE("train: a loss that is not a number stops the run and keeps the checkpoint") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "run");
  o.set = {"optimizer={\"name\": \"sgd\", \"lr\": 1e-3}", "epochs=1"};
  train(o);
  const std::string kept = read_file(o.out + "/checkpoint-000000013.safetensors");
  o.out = folder / "bad";
  o.set = {"optimizer={\"name\": \"sgd\", \"lr\": 1e38}"};
  const std::string text = train_error(ErrorKind::numeric, o);
  CHECK(text.starts_with("train: the loss is "));
  CHECK(text.find(" at step ") != std::string::npos);
  CHECK(text.find("no checkpoint had been saved in " + o.out) != std::string::npos);
  CHECK_FALSE(fs::exists(o.out + "/model.safetensors"));
}

TEST_CASE("eval: the numbers of the run") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kSmall, "run");
  const Run run = train(o);
  const auto evaluate = [&](const cli::EvalOptions& options) {
    std::ostringstream out, err;
    const int code = cli::run_eval(options, out, err);
    CHECK(code == 0);
    return Json::parse(out.str());
  };
  cli::EvalOptions e;
  e.run_dir = o.out;
  e.json = true;
  e.device = "cpu";
  const Json result = evaluate(e);
  CHECK(result["event"] == "result");
  CHECK(result["loss"] == run.events.back()["loss"]);
  CHECK(result["accuracy"] == run.events.back()["accuracy"]);
  CHECK(result["samples"] == 100);
  fs::remove(o.out + "/summary.json");
  CHECK(evaluate(e)["loss"] == result["loss"]);  // from the newest checkpoint
  e.data = folder / "none";
  CHECK(error_text(ErrorKind::io, [&] { evaluate(e); }).starts_with(e.data + ": no such folder"));
  e = {};
  e.run_dir = folder / "nowhere";
  CHECK(
      error_text(ErrorKind::io, [&] { evaluate(e); }).starts_with(e.run_dir + ": no such folder"));
}

TEST_CASE("progress: numbers as people read them") {
  CHECK(cli::percent(0.97314) == "97.31 %");
  CHECK(cli::duration(4.24) == "4.2 s");
  CHECK(cli::duration(187) == "3:07 min");
  CHECK(cli::duration(3723) == "1:02:03 h");
  CHECK(cli::short_number(41234) == "41.2k");
  CHECK(cli::short_number(3.1e6) == "3.1M");
  CHECK(cli::short_number(0.12345) == "0.1235");
}
