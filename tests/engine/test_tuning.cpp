// Tuning: classes of contractions and ways as text, the file with several writers, and `gradus
// tune` on the emulator: what it finds is used, kept with a run, and gives a resumed run the same
// bits.
#include "cli/tune.hpp"
#include "engine/config/loader.hpp"
#include "engine/config/tuning.hpp"
#include "ops/ops.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <sys/wait.h>
#include <unistd.h>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::slurp;
using gradus::test::TempFolder;

namespace {

// Sees the classes and the ops of the contractions of a device.
class Spy : public KernelWrapper {
 public:
  explicit Spy(Device& device) : scope_(device, *this) {}
  gd_status call(const gd_call& c, Next next, gd_error& error) override {
    if (c.slot == GD_CONTRACT) {
      classes.push_back(to_text(class_of(c)));
      ops.push_back(c.op);
    }
    return next(error);
  }
  std::vector<std::string> classes;
  std::vector<int32_t> ops;

 private:
  WrapperScope scope_;
};

Device& emulator() {
  load_modules({"emu"});
  return open_device("emu");
}

ContractionClass class_named(const std::string& text) {
  const auto c = parse_class(text);
  REQUIRE_MESSAGE(c.has_value(), text);
  return *c;
}

// A network whose step has a few small contractions.
std::string small_config(const TempFolder& folder) {
  const std::string file = folder / "small.json";
  const int batch = gradus::test::small_sizes() ? 8 : 32;
  std::ofstream(file) << R"({"experiment": "network", "seed": 3,
    "data": {"name": "digits", "train": )"
                      << 3 * batch << R"(, "test": 32},
    "model": {"layers": [{"linear": 9}, "relu", {"linear": 10}]},
    "loss": "cross_entropy", "optimizer": {"name": "adam", "lr": 0.01},
    "epochs": 2, "batch_size": )"
                      << batch << R"(, "log_every": 1})";
  return file;
}

std::string device_with(const std::string& tuning) {
  return R"({"device": "emu", "tuning": )" + tuning + "}";
}

}  // namespace

TEST_CASE("tuning: classes and ways are texts that can be read back") {
  Device& cpu = open_device("cpu");
  Spy spy(cpu);
  const Tensor a = Tensor::zeros({60, 100}, DType::f32, cpu);
  matmul(a, Tensor::zeros({100, 7}, DType::f32, cpu));
  matmul(transpose(a, 0, 1), a);
  matmul(Tensor::zeros({3, 5, 8}, DType::c128, cpu), Tensor::zeros({3, 8, 1}, DType::c128, cpu));
  CHECK(spy.classes == std::vector<std::string>{"f32 m64 n8 k128 b1 a:k b:n out:n",
                                                "f32 m128 n128 k64 b1 a:m b:n out:n",
                                                "c128 m8 n1 k8 b4 a:k b:k out:m"});
  for (const std::string& text : spy.classes) CHECK(to_text(class_named(text)) == text);
  CHECK(to_text(class_named("i64 max-plus m1 n2 k4 b8 a:b b:b out:b")) ==
        "i64 max-plus m1 n2 k4 b8 a:b b:b out:b");
  for (const char* bad :
       {"", "f32", "f33 m1 n2 k4 b8 a:b b:b out:b", "f32 m3 n2 k4 b8 a:b b:b out:b",
        "f32 m1 n2 k4 b8 a:x b:b out:b", "f32 m1 n2 k4 b8 a:b b:b out:b x",
        "f32 m-1 n2 k4 b8 a:b b:b out:b", "f32 m1 n2 k4 b8 a: b:b out:b"})
    CHECK_FALSE(parse_class(bad).has_value());

  for (int32_t way = 0; way < GD_WAY_COUNT; ++way)
    for (const int32_t parts : {0, 1, 7}) {
      const int32_t op = way + 256 * parts;
      CHECK(parse_way(way_text(op)) == op);
    }
  CHECK(way_text(GD_WAY_SQUARE + 256 * 4) == "square/8");
  for (const char* bad : {"", "squares", "square/", "square/3", "square/8/8"})
    CHECK_FALSE(parse_way(bad).has_value());
}

TEST_CASE("tuning: a device takes the way of a known class, unless the call names one") {
  Device& device = emulator();
  const Tensor a = Tensor::full({9, 70}, 1, DType::f32, device),
               b = Tensor::full({70, 5}, 1, DType::f32, device);
  Tuning tuning;
  tuning.ways[class_named("f32 m16 n8 k128 b1 a:k b:n out:n")] = {GD_WAY_DOTS, 1, 2};
  device.set_chooser(&tuning);
  Spy spy(device);
  const Tensor y = matmul(a, b);
  matmul(b, a.alias({5, 3}, {1, 5}, 0));
  device.set_chooser(nullptr);
  matmul(a, b);
  CHECK(spy.ops == std::vector<int32_t>{GD_WAY_DOTS, GD_WAY_OWN, GD_WAY_OWN});
  CHECK(amax(y).item() == 70);
  CHECK(tuning.changes() == 1);
}

TEST_CASE("tuning: several processes write one file, and none loses what another wrote") {
  const TempFolder folder;
  const std::string file = folder / "deep/er/tuning.json";
  constexpr int kWriters = 6, kEach = 5;
  const auto key = [](int writer, int k) {
    ContractionClass c;
    c.log2 = {uint8_t(writer), uint8_t(k), 3, 0};
    return c;
  };
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int k = 0; k < kEach; ++k) {
        Tuning t;
        t.ways[key(w, k)] = {GD_WAY_SMALL + 256 * k, double(k), 9};
        try {
          update_tuning(file, w % 2 ? "odd" : "even", t);
        } catch (...) {
          ::_exit(1);
        }
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  for (int w = 0; w < kWriters; ++w) {
    const Tuning t = read_tuning(file, w % 2 ? "odd" : "even");
    CHECK(t.ways.size() == kWriters / 2 * kEach);
    for (int k = 0; k < kEach; ++k) {
      REQUIRE(t.ways.count(key(w, k)) == 1);
      CHECK(t.ways.at(key(w, k)).op == GD_WAY_SMALL + 256 * k);
    }
  }
  CHECK(read_tuning(file, "another").ways.empty());
}

TEST_CASE(
    "tuning: a file that is missing or of another version says nothing, a damaged one is named") {
  const TempFolder folder;
  const std::string file = folder / "tuning.json";
  CHECK(read_tuning(file, "x").ways.empty());
  const auto written = [&](const std::string& text) { std::ofstream(file) << text; };
  written(R"({"format": "gradus.tuning/2", "devices": 7})");
  CHECK(read_tuning(file, "x").ways.empty());
  const auto refused = [&](const std::string& text) {
    written(text);
    return error_text(ErrorKind::io, [&] { read_tuning(file, "x"); });
  };
  const std::string begin = R"({"format": "gradus.tuning/1", "devices": {"x": )";
  CHECK(refused("[1]").find("is no tuning file; `gradus tune` writes one") != std::string::npos);
  CHECK(refused(begin + R"({"f32": {"way": "small", "us": 1, "own_us": 2}}}})")
            .find("has an entry that is not understood: \"f32\"") != std::string::npos);
  CHECK(refused(begin +
                R"({"f32 m1 n1 k1 b1 a:k b:k out:m": {"way": "best", "us": 1, "own_us": 2}}}})")
            .find("not understood") != std::string::npos);
  CHECK(refused(begin + R"({"f32 m1 n1 k1 b1 a:m b:m out:m": {"way": "small"}}}})")
            .find(" a:m b:m out:m: key \"us\" is missing") != std::string::npos);
  CHECK(refused(R"({"format": "gradus.tuning/1", "devices": [1]})") ==
        file + ": devices: expected an object, got an array");
  CHECK(error_text(ErrorKind::io, [&] { update_tuning(file, "x", {}); }) ==
        file + ": devices: expected an object, got an array");
  CHECK(refused(begin).find(file) != std::string::npos);
}

TEST_CASE("tuning: gradus tune measures a config's contractions and training takes what it found") {
  if (gradus::test::small_sizes()) {
    MESSAGE("skipped: times mean nothing here");
    return;
  }
  const TempFolder folder;
  const std::string config = small_config(folder), file = folder / "cache/tuning.json";
  const auto tune = [&](const std::string& arguments) {
    return gradus::test::run(folder, "tune " + arguments, "GRADUS_TUNING='" + file + "'");
  };
  const gradus::test::ProgramRun found = tune("small.json --device emu --json");
  INFO(found.err);
  REQUIRE(found.code == 0);
  std::vector<Json> events;
  std::istringstream lines(found.out);
  for (std::string line; std::getline(lines, line);) events.push_back(Json::parse(line));
  REQUIRE(events.size() > 3);
  const Json& result = events.back();
  CHECK(result["classes"] == events.size() - 1);
  CHECK(result["file"] == file);
  const Tuning kept = read_tuning(file, result["device"].get<std::string>());
  CHECK(int64_t(kept.ways.size()) == result["classes"].get<int64_t>());
  CHECK(kept.changes() == result["faster"].get<int64_t>());
  for (size_t k = 0; k + 1 < events.size(); ++k) {
    const TunedWay& way = kept.ways.at(class_named(events[k]["class"]));
    CHECK(way_text(way.op) == events[k]["way"].get<std::string>());
    CHECK(way.microseconds <= way.own);
    CHECK(events[k]["ways_us"].is_object());  // none, if no other way came near
  }

  CHECK(tune("small.json --device cpu").out.find("one way of contracting") != std::string::npos);
  const gradus::test::ProgramRun nothing = tune("--device emu");
  CHECK(nothing.code == 2);
  CHECK(tune("none.json --device emu").code == 3);

  std::ofstream(folder / "product.json")
      << R"({"experiment": "contraction", "expression": "ij,jk->ik", "sizes": {"i": 9, "j": 40, "k": 3}})";
  const gradus::test::ProgramRun product = tune("product.json --device emu --file other.json");
  INFO(product.err);
  CHECK(product.code == 0);
  CHECK(product.out.find("f32 m16 n4 k64 b1 a:k b:n out:n") != std::string::npos);
  CHECK(slurp(folder / "other.json").find("f32 m16 n4 k64 b1") != std::string::npos);
}

TEST_CASE("tuning: a run keeps the ways it began with") {
  const TempFolder folder;
  cli::TrainOptions o;
  o.config = small_config(folder);
  o.json = true;
  // Ways that give other bits than the device's own choice.
  Device& device = emulator();
  Tuning tuning;
  {
    Spy spy(device);
    cli::TrainOptions once = o;
    once.set = {"epochs=1", "capture=off"};
    once.device = device_with("false");
    once.out = folder / "classes";
    gradus::test::train(once);
    for (const std::string& text : spy.classes)
      tuning.ways[class_named(text)] = {GD_WAY_SMALL + 256 * 5, 1, 2};
  }
  const std::string file = folder / "ways.json", named = device_with('"' + file + '"');
  write_tuning(file, tuning_name(device), tuning);

  const auto losses = [&](const std::string& name, const std::string& on,
                          std::vector<std::string> set = {}) {
    cli::TrainOptions run = o;
    run.device = on;
    run.out = folder / name;
    run.set = std::move(set);
    gradus::test::train(run);
    return gradus::test::metrics(run.out);
  };
  const auto plain = losses("plain", device_with("false")), tuned = losses("tuned", named);
  CHECK(plain != tuned);
  CHECK(tuned == losses("eager", named, {"capture=off"}));
  CHECK_FALSE(std::ifstream(folder / "plain/tuning.json").good());
  CHECK(std::ifstream(folder / "tuned/tuning.json").good());

  // Begun with them, gone on without, and the other way round.
  cli::TrainOptions again = o;
  losses("first", named, {"epochs=1"});
  again.out = folder / "first";
  again.device = device_with("false");
  again.resume = true;
  gradus::test::train(again);
  CHECK(gradus::test::metrics(again.out) == tuned);
  losses("second", device_with("false"), {"epochs=1"});
  again.out = folder / "second";
  again.device = named;
  gradus::test::train(again);
  CHECK(gradus::test::metrics(again.out) == plain);
}
