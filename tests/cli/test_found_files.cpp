// Files that come from anywhere: a trace, a run folder or a config that was found runs no code, is
// not read beyond what it can be, says where it is wrong, and moves no cursor.
#include "engine/config/device_config.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/base/text.hpp"
#include "ops/audit/step/trace.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"
#include "tests/helpers/train_helpers.hpp"
#include "ops/train/data/idx.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <thread>
#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTiny = R"({"experiment": "network", "seed": 5,
  "data": {"name": "digits", "train": 32, "test": 16},
  "model": {"layers": [{"linear": 4}, "relu", {"linear": 10}]},
  "epochs": 2, "batch_size": 16, "log_every": 1})";

// The bytes of a trace of sum(w * w) whose "step" was changed.
std::string trace_with(const std::function<void(Json&)>& change) {
  const audit::Watch watch;
  const Tensor w = testing::leaf(testing::f64({1, 2}, {2}));
  const audit::RecordedStep step = audit::record(watch, {sum(w * w)}, {{"w", w}});
  Safetensors parts = parse_safetensors(audit::trace_bytes(step, "t"), "t");
  Json j = Json::parse(parts.metadata.at("step"));
  change(j);
  parts.metadata["step"] = j.dump();
  return safetensors_bytes(parts.tensors, parts.metadata, "t");
}

// Bytes that this process has read so far.
int64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string key;
  int64_t n = -1;
  in >> key >> n;
  REQUIRE(key == "rchar:");
  return n;
}

// A file of `head` and then zeros, which takes no room on a disk.
std::string sparse(const TempFolder& folder, const std::string& name, const std::string& head) {
  const std::string path = folder.write(name, head);
  fs::resize_file(path, uint64_t(3) << 30);
  return path;
}

}  // namespace

TEST_CASE("found files: a device in a trace or a run folder is a name, and opens nothing") {
  const TempFolder folder;
  const std::string witness = folder / "witness";
  const std::string library = std::string(GRADUS_BUILD_DIR) + "/bad_modules/writes_file.so";
  const std::string object = R"({"device": "cpu", "modules": [")" + library + R"("]})";
  folder.write("evil.json", object);
  const auto go = [&](const std::string& command) {
    return run(folder, command, "GRADUS_WITNESS='" + witness + "'");
  };
  // Named by the user, it is opened: what follows could fail.
  go("op exp --in [1] --device evil.json");
  REQUIRE(fs::exists(witness));
  fs::remove(witness);

  for (const std::string& device : {object, std::string("evil.json"), folder / "evil.json",
                                    std::string("./evil.json"), std::string(" {}")}) {
    folder.write("t.safetensors", trace_with([&](Json& j) { j["device"] = device; }));
    for (const char* command :
         {"replay t.safetensors", "replay t.safetensors --device cpu", "graph t.safetensors",
          "audit t.safetensors", "audit t.safetensors --device cpu",
          "diff t.safetensors t.safetensors --device-a cpu", "step t.safetensors </dev/null"}) {
      CAPTURE(command);
      const ProgramRun r = go(command);
      CHECK(r.code == 3);
      check_has(r.err, "t.safetensors: step: device: expected a name such as cpu or cuda:1");
    }
    go("diff t.safetensors t.safetensors");  // reads, and runs nothing
    go("verify t.safetensors");
    CHECK_FALSE(fs::exists(witness));
  }

  train(train_options(folder, kTiny));
  const std::string config = folder / "run/config.json";
  Json j = Json::parse(read_file(config));
  for (const Json& device : {Json::parse(object), Json("evil.json"), Json(folder / "evil.json")}) {
    j["device"] = device;
    folder.write("run/config.json", j.dump());
    for (const char* command :
         {"eval run", "eval run --device cpu", "report run", "report run --device cpu",
          "train config.json --out run --resume --device cpu", "verify run"}) {
      CAPTURE(command);
      const ProgramRun r = go(command);
      CHECK(r.code == 3);
      check_has(r.err + r.out, "run/config.json: device: expected a name such as cpu or cuda:1");
    }
  }
  CHECK_FALSE(fs::exists(witness));
  j["device"] = "cpu";
  folder.write("run/config.json", j.dump());
  CHECK(go("eval run").code == 0);
}

TEST_CASE("found files: what a damaged JSON file says wrong is told with file and place") {
  const TempFolder folder;
  train(train_options(folder, kTiny));
  const auto refused = [&](const char* command, const std::string& file,
                           const std::function<void(Json&)>& change) {
    const std::string path = folder / ("run/" + file), before = read_file(path);
    Json j = Json::parse(before);
    change(j);
    folder.write("run/" + file, j.dump());
    const ProgramRun r = run(folder, command);
    folder.write("run/" + file, before);
    CAPTURE(command);
    CAPTURE(r.err);
    CHECK(r.code == 3);
    CHECK(r.err.find("defect") == std::string::npos);
    CHECK(r.err.find("json.exception") == std::string::npos);
    return r.err;
  };
  for (const char* command : {"report run", "train config.json --out run --resume --device cpu"}) {
    check_has(refused(command, "summary.json", [](Json& j) { j["result"]["loss"] = "low"; }),
              "run/summary.json: result.loss: expected a number, got \"low\"");
    check_has(refused(command, "summary.json", [](Json& j) { j["result"] = 7; }),
              "run/summary.json: result: expected {\"event\": \"result\", ...}, got 7");
    check_has(refused(command, "summary.json", [](Json& j) { j.erase("epochs"); }),
              "run/summary.json: key \"epochs\" is missing");
    check_has(refused(command, "summary.json", [](Json& j) { j = Json::array(); }),
              "run/summary.json: expected {\"epochs\": ..., ...}, got an empty array");
    check_has(refused(command, "summary.json", [](Json& j) { j["result"]["steps"] = 5; }),
              "run/summary.json: damaged: its values give the CRC-32 ");
  }
  check_has(refused("report run", "origins.json", [](Json& j) { j[3]["path"] = nullptr; }),
            "run/origins.json: [3].path: expected a string, got null");
  check_has(refused("report run", "origins.json", [](Json& j) { j = "none"; }),
            "run/origins.json: expected an array");
  for (const char* command :
       {"eval run", "report run", "train config.json --out run --resume --device cpu"}) {
    check_has(refused(command, "config.json", [](Json& j) { j["epochs"] = {1}; }),
              "run/config.json: epochs: expected a whole number");
    check_has(refused(command, "config.json", [](Json& j) { j["a~b"] = 1; }),
              "run/config.json: a~b: unknown key");
    refused(command, "config.json", [](Json& j) { j = nullptr; });
  }
  folder.write("run/summary.json", "{\"epochs\": ");
  const ProgramRun cut = run(folder, "report run");
  CHECK(cut.code == 3);
  check_has(cut.err, "run/summary.json: line 1, column ");
  CHECK(cut.err.find("json.exception") == std::string::npos);
  check_has(run(folder, "script -e 'gradus.experiment{config = \"config.json\", set = {1}}'").err,
            "experiment: there is no option \"set\" of that kind");
}

TEST_CASE("found files: three gigabytes of zeros are not read for their magic") {
  const TempFolder folder;
  struct Case {
    std::string path, text;
    std::function<void(const std::string&)> read;
  };
  const auto npy = [](const std::string& p) { read_npy(p); };
  const auto tensors = [](const std::string& p) { read_safetensors(p); };
  const auto config = [](const std::string& p) { read_config(p); };
  const auto images = [](const std::string& p) { cli::read_idx(p, 3); };
  const std::string whole = npy_bytes(Tensor::zeros({4}, DType::f32)),
                    model = safetensors_bytes({{"w", Tensor::zeros({4}, DType::f32)}}, {}, "m");
  std::vector<Case> cases{
      {sparse(folder, "a.npy", ""), "not a .npy file", npy},
      {sparse(folder, "b.npy", whole), "too long: shape (4,) of dtype f32 needs 16 bytes", npy},
      {sparse(folder, "a.safetensors", ""), "the header does not begin with '{'", tensors},
      {sparse(folder, "b.safetensors", model), "too long: the tensors need 16 bytes", tensors},
      {sparse(folder, "a.json", ""), "has 3221225472 bytes, at most 16777216 expected", config},
      {sparse(folder, "a.idx", ""), "has 3221225472 bytes, at most ", images},
      {"/dev/zero", "is no text: byte 0 is 0", config},
      {"/dev/zero", "not a .npy file", npy},
      {"/dev/zero", "the header does not begin with '{'", tensors},
      {"/dev/zero", "dtype: expected 8 (unsigned byte), got 0", images}};
  const std::string shorter = sparse(folder, "b.idx", "");
  fs::resize_file(shorter, 900 << 20);
  cases.push_back({shorter, "dtype: expected 8 (unsigned byte), got 0", images});
  for (const Case& c : cases) {
    const int64_t before = bytes_read();
    const std::string error = error_text(ErrorKind::io, [&] { c.read(c.path); });
    CHECK_MESSAGE(has(error, c.path + ": " + c.text), error);
    CHECK_MESSAGE(bytes_read() - before < 1 << 20, c.path);
  }
  // A pipe has no size, and is read all the same.
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << whole; });
  CHECK(read_npy(pipe).sizes() == Shape{4});
  writer.join();
}

TEST_CASE("found files: every reader of text has an end") {
  const TempFolder folder;
  folder.write("a.lua", "gradus.experiment{config = '/dev/zero'}");
  for (const char* command :
       {"train /dev/zero", "train /dev/zero --out run", "config show /dev/zero", "graph /dev/zero",
        "audit /dev/zero", "contract /dev/zero", "tune /dev/zero", "config validate /dev/zero"}) {
    CAPTURE(command);
    const ProgramRun r = run(folder, command);
    CHECK(r.code == 3);
    check_has(r.err, "/dev/zero: is no text: byte 0 is 0");
  }
  sparse(folder, "huge.json", "{");
  sparse(folder, "huge.lua", "x = 1");
  for (const char* command : {"train huge.json", "op exp --in [1] --device huge.json",
                              "step config.json --commands huge.json", "script huge.lua"}) {
    CAPTURE(command);
    folder.write("config.json", kTiny);
    const ProgramRun r = run(folder, command);
    CHECK(r.code == 3);
    check_has(r.err, "has 3221225472 bytes, at most 16777216 expected");
  }
  check_has(run(folder, "script --unsafe a.lua").err, "/dev/zero: is no text: byte 0 is 0");
}

TEST_CASE("found files: text is printable when it is shown") {
  CHECK(printable("plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\n\t.") ==
        "plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\n\t.");
  CHECK(printable("a\x1b[2Jb\rc\x7f", "") == "a\\x1b[2Jb\\x0dc\\x7f");
  CHECK(printable("a\nb", "") == "a\\x0ab");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // U+009B begins a sequence, too
  CHECK(printable("\xff\xc3(\xe2\x82") == "\\xff\\xc3(\\xe2\\x82");  // no UTF-8
  CHECK(printable("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80") ==
        "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");

  // Nothing of what files say reaches the terminal as it is.
  const TempFolder folder;
  const std::string bell = "\x1b]0;pwned\x07\x1b[2J";
  const auto quiet = [&](const std::string& command, int code, bool named = true) {
    const ProgramRun r = run(folder, command);
    const std::string said = r.out + r.err;
    CAPTURE(command);
    if (code >= 0) CHECK(r.code == code);
    CHECK(said.find('\x1b') == std::string::npos);
    CHECK(said.find('\x07') == std::string::npos);
    if (named) check_has(said, "pwned");
  };
  const auto renamed = [&](Json& j) {
    j["title"] = j["arch"] = j["build"] = bell;
    j["nodes"][0]["where"] = bell;
  };
  folder.write("t.safetensors", trace_with(renamed));
  quiet("graph t.safetensors", 0);
  quiet("audit t.safetensors --explain w", 0, false);
  quiet("diff t.safetensors t.safetensors --device-b reference", -1, false);
  {
    Safetensors parts = parse_safetensors(trace_with(renamed), "t");
    Json j = Json::parse(parts.metadata["step"]);
    j["leaves"][0]["name"] = bell;
    parts.metadata["step"] = j.dump();
    for (auto& [name, t] : parts.tensors) {
      if (name == "leaf.w") name = "leaf." + bell;
      if (name == "gradient.w") name = "gradient." + bell;
    }
    write_safetensors(folder / "leaf.safetensors", parts.tensors, parts.metadata);
    quiet("graph leaf.safetensors", 0);
    quiet("audit leaf.safetensors", 0);
    j["nodes"][0]["op"] = bell;
    parts.metadata["step"] = j.dump();
    write_safetensors(folder / "op.safetensors", parts.tensors, parts.metadata);
    quiet("graph op.safetensors", 3);
    parts.tensors.emplace_back(bell, Tensor::zeros({1}, DType::f32));
    write_safetensors(folder / "more.safetensors", parts.tensors, parts.metadata);
    quiet("verify more.safetensors", 3);
  }
  Json config = Json::parse(kTiny);
  config[bell] = 1;
  folder.write("key.json", config.dump());
  quiet("train key.json", 2);
  folder.write("text.json", "{\"" + bell + "\": ");
  quiet("train text.json", 2, false);
  std::string npy = npy_bytes(Tensor::zeros({64}, DType::f32));
  npy.replace(npy.find("<f4"), 3, "pwned\x1b[2J");
  folder.write("a.npy", npy);
  quiet("op exp --in a.npy", 3);
  quiet("train '" + bell + ".json'", 3);
  quiet("train --" + std::string("pwned\x1b[2J") + " x", 2);
}
