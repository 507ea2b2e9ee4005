// benches/gpu: the script that does all that needs a GPU goes through its steps on the emulator,
// and the table joins what was measured.
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

using gradus::test::slurp;
using gradus::test::TempFolder;
using Json = nlohmann::json;

namespace {

const std::string kFolder = GRADUS_SOURCE_DIR "/benches/gpu/";

struct Answer {
  int code;
  std::string out;
};
Answer shell(const TempFolder& folder, const std::string& command) {
  const std::string out = folder / "said";
  const int status = std::system((command + " >'" + out + "' 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out)};
}
bool python(const TempFolder& folder) {
  const bool there = shell(folder, "python3 --version").code == 0;
  if (!there) MESSAGE("skipped: no python3");
  return there;
}

// The verdict of a step in what the script said: "PASS", "FAIL", "SKIPPED" or "".
std::string verdict(const std::string& said, const std::string& step) {
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);)
    if (line.size() > 9 && line.compare(9, step.size(), step) == 0)
      return line.substr(0, line.find(' '));
  return "";
}

// The line of the table that begins so, without what pads it.
std::string line_of(const std::string& table, const std::string& begin) {
  std::istringstream lines(table);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(begin, 0) != 0) continue;
    for (const char c : line)
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    break;
  }
  return out;
}

}  // namespace

TEST_CASE("bench gpu: every step and every row runs on the emulator") {
  const TempFolder folder;
  if (!std::filesystem::exists(GRADUS_BUILD_DIR "/gradus_bench_gpu")) {
    MESSAGE("skipped: the benches are not built");
    return;
  }
  if (!python(folder)) return;
  const auto call = [&](const std::string& name) {
    return shell(folder, "env -u GRADUS_DEVICE -u OUT '" + kFolder + "run' " + name +
                             " --quick --device emu:0 --build '" GRADUS_BUILD_DIR "' --out '" +
                             (folder / "logs") + "'");
  };
  const Answer first = call("check"), a = call("bench");
  CHECK_MESSAGE(first.code == 0, first.out);
  CHECK_MESSAGE(a.code == 0, a.out);
  for (const char* step : {"devices", "op table", "kernel tests"})
    CHECK_MESSAGE(verdict(first.out, step) == "PASS", first.out);
  for (const char* step : {"build", "python", "memcheck", "racecheck"})
    CHECK_MESSAGE(verdict(first.out, step) == "SKIPPED", step);
  for (const char* step : {"devices", "tune", "bench ", "table"})
    CHECK_MESSAGE(verdict(a.out, step) == "PASS", step);
  CHECK(verdict(a.out, "build") == "SKIPPED");
  CHECK(verdict(a.out, "bench of PyTorch") != "FAIL");
  CHECK(a.out.find("no target is asked of it") != std::string::npos);

  std::istringstream lines(slurp(folder / "logs/bench.json"));
  std::set<std::string> timed;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (row.contains("seconds")) {
      CHECK(row["seconds"].get<double>() > 0);
      timed.insert(row["name"]);
    }
    CHECK_MESSAGE(!row.contains("failed"), line);
  }
  for (const char* name : {"copy", "add", "gelu", "add row", "exp of half of each row",
                           "sum of columns", "transpose", "permute 2 0 1", "adam", "gemm f32 20",
                           "gemm bf16 20", "gemm f64 20", "tccg f32 aebd,ce->dcba"})
    CHECK_MESSAGE(timed.contains(name), name);
  if (!timed.contains("softmax")) {
    MESSAGE("the device has no kernel for softmax: no network trains on it");
    return;
  }
  CHECK(verdict(a.out, "training on digits") == "PASS");
  for (const char* name : {"mlp 16-8-4 batch 6, eager", "mlp 16-8-4 batch 6, captured"})
    CHECK_MESSAGE(timed.contains(name), name);
}

TEST_CASE("bench gpu: without a GPU the script says so and does nothing") {
  const TempFolder folder;
  if (std::filesystem::exists("/dev/nvidia0") || std::filesystem::exists("/dev/nvidiactl")) return;
  const auto call = [&](const std::string& name, const std::vector<const char*>& steps) {
    const Answer a = shell(folder, "'" + kFolder + "run' " + name + " --device cuda:0 --out '" +
                                       (folder / "logs") + "'");
    CHECK(a.code == 0);
    for (const char* step : steps) CHECK_MESSAGE(verdict(a.out, step) == "SKIPPED", step);
    CHECK(a.out.find("(no NVIDIA GPU: ") != std::string::npos);
  };
  call("check", {"build", "op table", "kernel tests", "python", "memcheck", "racecheck"});
  call("bench", {"build", "training", "tune", "bench", "table"});
  CHECK(shell(folder, "'" + kFolder + "run' --device cuda:0").code == 2);
}

TEST_CASE("bench gpu: a machine without Lua and libedit configures, and says what it lacks") {
  const TempFolder folder;
  if (shell(folder, "cmake --version").code != 0) {
    MESSAGE("skipped: no cmake");
    return;
  }
  const auto configure = [&](const std::string& options) {
    return shell(folder,
                 "env PKG_CONFIG_LIBDIR=/nowhere PKG_CONFIG_PATH= cmake -S '" GRADUS_SOURCE_DIR
                 "' -B '" +
                     (folder / "build") +
                     "' -DGRADUS_TESTS=OFF -DGRADUS_BENCHES=OFF -DGRADUS_CUDA=OFF "
                     "-DGRADUS_HIP=OFF " +
                     options);
  };
  const Answer a = configure("");
  CHECK_MESSAGE(a.code == 0, a.out);
  CHECK(a.out.find("GRADUS_LUA: no lua5.4-c++ found (package liblua5.4-dev") != std::string::npos);
  CHECK(a.out.find("GRADUS_LIBEDIT: no libedit found (package libedit-dev") != std::string::npos);
  const Answer lua = configure("-DGRADUS_LUA=ON"),
               edit = configure("-DGRADUS_LUA=OFF -DGRADUS_LIBEDIT=ON");
  CHECK(lua.code != 0);
  CHECK(lua.out.find("GRADUS_LUA is ON: no lua5.4-c++ found") != std::string::npos);
  CHECK(edit.code != 0);
  CHECK(edit.out.find("GRADUS_LIBEDIT is ON: no libedit found") != std::string::npos);
}

TEST_CASE("bench gpu: the table joins rows by name and holds them against the targets") {
  const TempFolder folder;
  if (!python(folder)) return;
  const auto write = [&](const std::string& name, const std::vector<Json>& lines) {
    std::ofstream out(folder / name);
    for (const Json& line : lines) out << line.dump() << "\n";
  };
  const auto row = [](const char* name, const char* work, const char* group, double seconds,
                      double bytes, double flops) {
    return Json{{"name", name},       {"work", work},   {"group", group},
                {"seconds", seconds}, {"bytes", bytes}, {"flops", flops}};
  };
  write("ours", {{{"event", "machine"}, {"device", "cuda"}, {"hardware", "H"}},
                 row("copy", "copy", "", 1e-3, 2e9, 0),
                 row("add", "add", "pointwise", 2e-3, 3e9, 0),
                 row("exp", "exp", "pointwise", 1e-3, 1.8e9, 0),
                 row("gemm f32 8", "gemm", "gemm f32", 2e-3, 0, 4e9),
                 row("tccg f32 a", "einsum", "tccg f32", 1e-3, 0, 1e9),
                 row("tccg f32 b", "einsum", "tccg f32", 1e-3, 0, 1e9),
                 row("mlp 784-128-10 batch 64, eager", "mlp eager", "mlp", 1e-4, 0, 0),
                 row("mlp 784-128-10 batch 64, captured", "mlp captured", "mlp", 2e-5, 0, 0),
                 {{"name", "softmax"}, {"work", "softmax"}, {"not_offered", "no kernel"}}});
  const auto theirs = [](const char* name, double seconds) {
    return Json{{"name", name}, {"seconds", seconds}};
  };
  write("peer", {{{"event", "machine"}, {"torch", "2"}, {"hardware", "H"}},
                 theirs("add", 2e-3),
                 theirs("gemm f32 8", 1.9e-3),
                 theirs("tccg f32 a", 4e-3),
                 theirs("tccg f32 b", 0.16e-3),
                 theirs("mlp 784-128-10 batch 64, eager", 2e-4),
                 theirs("mlp 784-128-10 batch 64, captured", 1.8e-5),
                 theirs("softmax", 1)});
  const Answer a =
      shell(folder, "cd '" + folder.path() + "' && python3 '" + kFolder + "table.py' ours peer");
  INFO(a.out);
  CHECK(a.code == 0);
  CHECK(line_of(a.out, "add ") == "add 2.00 ms 1500 GB/s of copy 2000 GB/s 0.75 >= 0.9 MISSED");
  CHECK(line_of(a.out, "exp ") == "exp 1.00 ms 1800 GB/s of copy 2000 GB/s 0.90 >= 0.9 met");
  CHECK(line_of(a.out, "gemm f32 8 ") ==
        "gemm f32 8 2.00 ms 2.00 TFLOP/s PyTorch 1.90 ms 0.95 >= 0.95 met");
  CHECK(line_of(a.out, "geometric mean: tccg f32") ==
        "geometric mean: tccg f32 2 rows PyTorch 0.80 >= 1 MISSED");
  CHECK(line_of(a.out, "mlp 784-128-10 batch 64, captured") ==
        "mlp 784-128-10 batch 64, captured 20.00 us PyTorch's graph 18.00 us 0.90 >= 1 MISSED");
  CHECK(a.out.find("PyTorch eager") != std::string::npos);
  CHECK(a.out.find("10.00  >= 5 met") != std::string::npos);
  CHECK(line_of(a.out, "softmax") == "softmax not offered: no kernel");
  CHECK(a.out.find("targets: 3 met, 3 missed") != std::string::npos);
}
