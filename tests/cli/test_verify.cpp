// Checksums: no flipped bit of a checkpoint goes unnoticed, and `gradus verify` finds what is
// damaged.
#include "cli/runs/run_folder.hpp"
#include "cli/verify.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <random>
#include <zlib.h>

using namespace gradus;
using namespace gradus::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTiny = R"({"experiment": "network", "seed": 5,
  "data": {"name": "digits", "train": 32, "test": 16},
  "model": {"layers": [{"linear": 4}, "relu", {"dropout": 0.2}, {"linear": 10}]},
  "epochs": 3, "batch_size": 16, "log_every": 1, "report": false, "capture": "off"})";
constexpr const char *kOlder = "checkpoint-000000004.safetensors",
                     *kNewest = "checkpoint-000000006.safetensors";

// A run that was killed after its newest checkpoint.
void unfinished(const std::string& folder) {
  for (const char* file : {"summary.json", "model.safetensors"}) fs::remove(folder + "/" + file);
}

std::string flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

struct Verified {
  int code;
  std::string out;
};
Verified verify(const std::string& path, bool json = false) {
  std::ostringstream out, err;
  const int code = cli::run_verify({path, json}, out, err);
  return {code, out.str()};
}

}  // namespace

TEST_CASE("safetensors: the checksum is the CRC-32 of the file with zeros in its place") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  const std::string bytes =
      safetensors_bytes({{"x", x}}, {{"note", "\"gradus.crc32\":\"1\""}}, "m");
  const std::string key = "\"gradus.crc32\":\"";
  const size_t at = bytes.find(key) + key.size();
  std::string zeroed = bytes;
  zeroed.replace(at, 8, "00000000");
  char sum[9];
  snprintf(sum, sizeof sum, "%08lx",
           crc32(0, reinterpret_cast<const Bytef*>(zeroed.data()), uInt(zeroed.size())));
  CHECK(bytes.substr(at, 8) == sum);
  const Safetensors back = parse_safetensors(bytes, "m");
  CHECK(back.checked);
  CHECK(back.metadata == Metadata{{"note", "\"gradus.crc32\":\"1\""}});
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit)
    if (bit / 8 < at - key.size() || bit / 8 >= at)  // without its key it is anybody's file
      CHECK(error_text(ErrorKind::io, [&] { parse_safetensors(flipped(bytes, bit), "m"); }) !=
            "no error");
  // Rewritten by a program that keeps the key: said, with what to do.
  std::string anew = bytes;
  anew.replace(bytes.size() - 4, 4, "\0\0\0\1", 4);
  check_has(error_text(ErrorKind::io, [&] { parse_safetensors(anew, "m"); }),
            "m: damaged: it is no longer as it was written: its CRC-32 is ");
  // Somebody else's file has none.
  const std::string theirs = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string file(8, '\0');
  file[0] = char(theirs.size());
  CHECK_FALSE(parse_safetensors(file + theirs + "a", "m").checked);
}

TEST_CASE("checkpoints: of 500 flipped bits none resumes to another model") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kTiny, "whole");
  train(o);
  const std::string model = read_file(o.out + "/model.safetensors");
  const std::string newest = read_file(o.out + "/" + kNewest);
  unfinished(o.out);
  o.out = folder / "resumed";
  o.resume = true;
  std::mt19937 draw(7);
  std::uniform_int_distribution<size_t> bits(0, 8 * newest.size() - 1);
  for (int i = 0; i < (small_sizes() ? 30 : 500); ++i) {
    const size_t bit = bits(draw);
    CAPTURE(bit);
    fs::remove_all(o.out);
    fs::copy(folder / "whole", o.out);
    folder.write(std::string("resumed/") + kNewest, flipped(newest, bit));
    const Run run = train(o);
    CHECK(run.events.front()["resumed_at"] == 4);
    REQUIRE(has(run.err, "a checkpoint cannot be read, an older one is used: " + o.out));
    REQUIRE(read_file(o.out + "/model.safetensors") == model);
    // And alone it is refused.
    folder.write(std::string("alone/") + kNewest, flipped(newest, bit));
    std::vector<std::string> unreadable;
    REQUIRE(error_text(ErrorKind::io, [&] {
              cli::newest_checkpoint(folder / "alone", default_device(), &unreadable);
            }).starts_with((folder / "alone") + ": no checkpoint can be read: "));
  }
}

TEST_CASE("checkpoints: one of another version, or without a checksum, is refused") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kTiny, "run");
  train(o);
  unfinished(o.out);
  o.resume = true;
  const std::string file = o.out + "/" + kNewest, whole = read_file(file);
  const Safetensors state = parse_safetensors(whole, "c");
  const auto refused = [&](const std::string& bytes) {
    fs::remove(o.out + "/" + kOlder);
    std::ofstream(file, std::ios::binary) << bytes;
    return train_error(ErrorKind::io, o);
  };
  const auto of_format = [&](const char* format) {
    Metadata m = state.metadata;
    m["format"] = format;
    return refused(safetensors_bytes(state.tensors, m, "c"));
  };
  check_has(of_format("gradus.checkpoint/1"),
            kNewest + std::string(": is a \"gradus.checkpoint/1\", expected "
                                  "\"gradus.checkpoint/2\"; that version has no checksum"));
  check_has(of_format("x"), ": is a \"x\", expected \"gradus.checkpoint/2\"");
  check_has(of_format(""), ": is no checkpoint: it names no format, expected ");
  std::string without = whole;
  without.replace(without.find("gradus.crc32"), 12, "someone.else");
  check_has(refused(without), "lacks its checksum, so it can't be told whether it is whole");
  std::ofstream(file, std::ios::binary) << whole;
  CHECK(train(o).events.front()["resumed_at"] == 6);
}

TEST_CASE("verify: a run folder, whole and with each of its files damaged") {
  const TempFolder folder;
  const cli::TrainOptions o = train_options(folder, kTiny, "run");
  train(o);
  const Verified all = verify(o.out);
  CHECK(all.code == 0);
  check_has(all.out, "whole    " + o.out + "/" + kNewest + ": checkpoint of step 6, ");
  check_has(all.out, "finished after 6 steps; its checksum is right");
  check_has(all.out, "7 files, all whole\n");

  const auto damaged = [&](const std::string& file, const std::string& from, const std::string& to,
                           const char* text) {
    const std::string path = o.out + "/" + file, before = read_file(path);
    std::string after = before;
    REQUIRE(has(before, from));
    after.replace(after.find(from), from.size(), to);
    std::ofstream(path, std::ios::binary) << after;
    const Verified v = verify(o.out);
    CHECK(v.code == 3);
    check_has(v.out, "DAMAGED  " + path + ": ");
    check_has(v.out, text);
    check_has(v.out, "1 of 7 files damaged\n");
    std::ofstream(path, std::ios::binary) << before;
  };
  damaged("config.json", "\"seed\": 5", "\"seed\": 4", "seed: is 4, in origins.json it is 5");
  damaged("config.json", "\"seed\"", "\"sead\"", "sead: unknown key");
  damaged("config.json", "\"seed\": 5,", "", "seed: is 1, in origins.json it is 5");
  damaged("metrics.jsonl", "\"step\":3", "\"step\":2", "damaged: the CRC-32 of its first ");
  damaged("data.json", "\"classes\": 10", "\"classes\": 11",
          "damaged: its values give the CRC-32 ");
  damaged("summary.json", "\"steps\": 6", "\"steps\": 7", "damaged: its values give the CRC-32 ");
  damaged("model.safetensors", "gradus.model/2", "gradus.model/1", "damaged: it is no longer as");
  damaged("model.safetensors", "gradus.crc32", "gradus.crc33", "damaged: it lacks its checksum");
  damaged(kOlder, "gradus.crc32", "gradus.crc33", "lacks its checksum, so it can't be told");
  damaged(kOlder, "\"epoch\":\"2\"", "\"epoch\":\"1\"", "damaged: it is no longer as it was");
  fs::resize_file(o.out + "/metrics.jsonl", 100);
  check_has(verify(o.out).out, "/metrics.jsonl: has 100 bytes, the checkpoint of step 6 knows ");
  fs::remove(o.out + "/metrics.jsonl");
  CHECK(verify(o.out).code == 3);
  const std::string model = o.out + "/model.safetensors", kept = read_file(model);
  write_npy(model, Tensor::from(std::vector{1.0f}, {1}));
  check_has(verify(o.out).out, "DAMAGED  " + model + ": ");
  write_safetensors(model, {{"x", Tensor::from(std::vector{1.0f}, {1})}});
  check_has(verify(o.out).out, "DAMAGED  " + model + ": is no model of a run");
  std::string unsummed = kept;
  unsummed.replace(unsummed.find("gradus.crc32"), 12, "gradus.crc33");
  write_file_atomically(model, unsummed);
  check_has(error_text(ErrorKind::io, [&] { cli::read_model(model, open_device("cpu")); }),
            "damaged: it lacks its checksum");
  write_file_atomically(model, kept);
  fs::remove(o.out + "/model.safetensors");
  check_has(verify(o.out).out, "DAMAGED  " + o.out + "/model.safetensors: cannot open");

  // --json says the same, one object a line.
  std::istringstream lines(verify(o.out, true).out);
  std::vector<Json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(Json::parse(line));
  REQUIRE(events.size() == 8);
  CHECK(events[0] == Json{{"event", "file"},
                          {"file", o.out + "/config.json"},
                          {"kind", "config"},
                          {"whole", true},
                          {"text", events[0]["text"]}});
  CHECK(events.back() ==
        Json{{"event", "result"}, {"path", o.out}, {"whole", false}, {"files", 7}, {"damaged", 2}});
}

TEST_CASE("verify: metrics that were damaged stay so when the run has gone on") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kTiny, "run");
  train(o);
  unfinished(o.out);
  fs::remove(o.out + "/" + kNewest);
  const std::string path = o.out + "/metrics.jsonl";
  std::string text = read_file(path);
  text.replace(text.find("\"step\":3"), 8, "\"step\":2");
  std::ofstream(path, std::ios::binary) << text;
  o.resume = true;
  check_has(train(o).err, "metrics.jsonl is not what it was at the checkpoint");
  CHECK(verify(o.out).code == 3);
  check_has(verify(o.out).out, "/metrics.jsonl: damaged before the run went on at step 4\n");
}

TEST_CASE("verify: runs that go on, and files by themselves") {
  const TempFolder folder;
  const cli::TrainOptions o = train_options(folder, kTiny, "run");
  train(o);
  unfinished(o.out);
  std::ofstream(o.out + "/metrics.jsonl", std::ios::app) << "{\"event\":\"step\"}\n{\"event\":\"st";
  const Verified going = verify(o.out);
  CHECK(going.code == 0);
  check_has(going.out, ", and one that a process did not finish");
  std::ofstream(o.out + "/metrics.jsonl", std::ios::app) << "\n";
  check_has(verify(o.out).out, "/metrics.jsonl: line 11: line 1, column ");

  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  write_safetensors(folder / "x.safetensors", {{"x", x}}, {});
  write_npy(folder / "x.npy", x);
  CHECK(verify(folder / "x.safetensors").out ==
        "whole    " + (folder / "x.safetensors") + ": 1 tensor; its checksum is right\n");
  CHECK(verify(folder / "x.npy").out == "whole    " + (folder / "x.npy") +
                                            ": f32 (3,); the format has no checksum, only its "
                                            "structure is known\n");
  fs::resize_file(folder / "x.npy", 130);
  const ProgramRun r = run(folder, "verify x.npy");
  CHECK(r.code == 3);
  CHECK(r.out.starts_with("DAMAGED  x.npy: truncated: shape (3,) of dtype f32 needs 12 bytes"));
  CHECK(run(folder, "verify x.safetensors --json").code == 0);
  folder.write("letter.txt", "dear");
  CHECK(run(folder, "verify letter.txt").err ==
        "gradus: letter.txt: is no .safetensors or .npy file, nor a run folder\n");
  folder.write("none/letter.txt", "dear");
  CHECK(run(folder, "verify none").err ==
        "gradus: none: is no run folder: it holds no config.json\n");
  CHECK(run(folder, "verify gone").err == "gradus: gone: there is no such file\n");
  CHECK(run(folder, "verify").code == 2);
}

TEST_CASE("train: a run that was killed before its report gets it") {
  const TempFolder folder;
  cli::TrainOptions o = train_options(folder, kTiny, "run", {"report=true"});
  train(o);
  const std::string page = o.out + "/report.html", curves = o.out + "/curves.svg";
  const std::string before = read_file(page);
  o.resume = true;
  fs::remove(page);
  const Run again = train(o);
  REQUIRE(again.events.size() == 2);
  CHECK(again.events[0]["event"] == "report");
  CHECK(again.events[1]["event"] == "result");
  CHECK(fs::exists(page));
  check_has(read_file(page), "of the test set right");
  CHECK(train(o).events.size() == 1);  // it is there
  fs::remove(page);
  fs::remove(curves);
  CHECK(run(folder, "report run").code == 0);
  CHECK(fs::exists(page));
  CHECK(fs::exists(curves));
  fs::remove(page);
  o.set = {"report=false"};
  CHECK(train(o).events.size() == 1);
  CHECK_FALSE(fs::exists(page));
}
