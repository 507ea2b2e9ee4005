// Modules: what is refused and with which words; device configs: every way to write one, the order
// of the sources, and the fallback to the CPU.
#include "gradus_paths.hpp"
#include "engine/device/device.hpp"
#include "engine/config/device_config.hpp"
#include "engine/files/file.hpp"
#include "engine/config/loader.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::has;
using gradus::test::TempFolder;
using gradus::test::Variable;

namespace {

const std::string kBad = std::string(GRADUS_BUILD_DIR) + "/bad_modules/";
const std::string kLib = std::string(GRADUS_LIB_DIR) + "/";

std::string refusal(const std::string& path) {
  return error_text(ErrorKind::device, [&] { load_module(path); });
}
std::string config_error(const std::string& text) {
  return error_text(ErrorKind::config, [&] { parse_device_config(text); });
}

}  // namespace

TEST_CASE("loader: each kind of bad module is refused with its reason") {
  CHECK(refusal("/no/such.so") == "/no/such.so: no such module file: No such file or directory");
  CHECK(refusal(kBad + "not_a_module.so") ==
        kBad + "not_a_module.so: is not a gradus module: it has no symbol gradus_device_module");
  CHECK(refusal(kBad + "wrong_major.so") == join(kBad, "wrong_major.so: speaks device interface ",
                                                 GD_MAJOR + 6,
                                                 ".2, this program "
                                                 "speaks ",
                                                 GD_MAJOR, ".", GD_MINOR, "; rebuild the module"));
  const std::string short_text = refusal(kBad + "short_struct.so");
  CHECK(has(short_text, "its table has 64 bytes, this program needs "));
  CHECK(has(short_text, "test build 1"));
  const std::string other_text = refusal(kBad + "other_hash.so");
  CHECK(has(other_text, "was built from other statements"));
  CHECK(has(other_text, "sigmoid(1; ): 42; 0"));
  CHECK(has(other_text, "test build 2"));
  const TempFolder folder;
  CHECK(has(refusal(folder.write("gradus_text.so", "no ELF")), "cannot be opened: "));
}

TEST_CASE("loader: a table that lacks a required entry is refused by the entry's name") {
  const std::string file = kBad + "missing_entries.so";
  const Variable text("GRADUS_TEST_ENTRY", "text of a statement");
  CHECK(has(refusal(file), "\" here and \"\" in the module (built by test build 3)"));
  const std::string hash = std::to_string(open_device("reference").table().statements);
  const Variable same("GRADUS_TEST_STATEMENTS", hash.c_str());
  for (const char* entry :
       {"kind", "build", "statement_text", "probe", "open", "alloc", "free", "copy"}) {
    const Variable missing("GRADUS_TEST_ENTRY", entry);
    CHECK(refusal(file) == join(file, ": its table has no ", entry,
                                ", which every device must offer; rebuild the module"));
  }
  const Variable pair("GRADUS_TEST_ENTRY", "unprepare");
  CHECK(refusal(file) == file + ": its table has prepare and no unprepare; rebuild the module");
}

TEST_CASE("loader: file names and kinds") {
  CHECK(module_file("cuda") == "gradus_cuda.so");
  CHECK(module_file("refmod") == "gradus_reference.so");
  CHECK(module_kind("/a/b/gradus_cuda.so") == "cuda");
  CHECK(module_kind("gradus_reference.so") == "refmod");
  CHECK(module_kind("libgradus.so") == "");
  CHECK(module_kind("gradus_.so") == "");
}

TEST_CASE("loader: the working folder is never searched") {
  const TempFolder folder;
  const Variable path("GRADUS_MODULE_PATH",
                      (folder.path() + "::.:lib:/opt/gradus modules").c_str());
  const auto folders = module_folders();
  REQUIRE(folders.size() >= 2);
  CHECK(folders[0] == folder.path());
  CHECK(folders[1] == "/opt/gradus modules");
  for (const std::string& f : folders) CHECK(f[0] == '/');
}

TEST_CASE("loader: the first file found counts, and a missing one lists every place in order") {
  const TempFolder first, second;
  const Variable path("GRADUS_MODULE_PATH", (first.path() + ":" + second.path()).c_str());
  second.write("gradus_fake.so", "no ELF");
  const auto kinds = module_kinds();
  CHECK(std::count(kinds.begin(), kinds.end(), "fake") == 1);
  auto reports = load_modules({"fake"});
  REQUIRE(reports.size() == 1);
  CHECK_FALSE(reports[0].loaded);
  CHECK(reports[0].path == second / "gradus_fake.so");
  reports = load_modules({"nowhere"}, {"/x/gradus_nowhere.so"});
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].message ==
        "/x/gradus_nowhere.so: no such module file: No such file or directory");
  CHECK(
      has(reports[1].message, "no module gradus_nowhere.so found (searched /x/gradus_nowhere.so, " +
                                  first.path() + ", " + second.path() + ", "));
}

TEST_CASE("loader: the reference module loads, twice, and opens") {
  const std::string file = kLib + "gradus_reference.so";
  if (!std::filesystem::exists(file)) {
    MESSAGE("skipped: " << file << " was not built");
    return;
  }
  const gd_table* table = load_module(file);
  CHECK(std::string(table->kind) == "refmod");
  CHECK(load_module(file) == table);
  const OpenedDevice opened = open_configured(parse_device_config("refmod"));
  CHECK(opened.device->kind() == "refmod");
  CHECK(opened.notice == "");
}

TEST_CASE("device config: every way to write one") {
  CHECK(parse_device_config("cuda:1").device == "cuda:1");
  CHECK(parse_device_config("-1").device == "-1");
  CHECK(parse_device_config(Json(2), "c.json").device == "2");
  CHECK(parse_device_config(Json("auto"), "c.json").device == "auto");
  const DeviceConfig c = parse_device_config(
      R"({"device": "hip", "fallback": "error", "threads": 3, "memory_limit": "8GiB",)"
      R"( "modules": ["/a/gradus_hip.so"], "precision": {"tf32": true}, "graph": false})");
  CHECK(c.device == "hip");
  CHECK(c.fallback == DeviceConfig::Fallback::error);
  CHECK(c.threads == 3);
  CHECK(c.memory_limit == size_t(8) << 30);
  CHECK(c.modules == std::vector<std::string>{"/a/gradus_hip.so"});
  CHECK(c.tf32);
  CHECK(c.graph == DeviceConfig::Graph::off);
  CHECK(parse_device_config("{}").device == "auto");
  CHECK(parse_device_config("{}").isa.empty());
  CHECK(parse_device_config(R"({"device": "cpu", "isa": "sse2"})").isa == "sse2");
}

TEST_CASE("device config: files, files that name files, and paths relative to them") {
  const TempFolder folder;
  folder.write("gpu/d.json",
               R"({"device": "emu:1", "modules": ["lib/gradus_emu.so"], "threads": 2})");
  const std::string outer = folder.write("o.json", R"({"device": "gpu/d.json", "threads": 5})");
  const DeviceConfig c = parse_device_config(outer);
  CHECK(c.device == "emu:1");
  CHECK(c.threads == 5);
  CHECK(c.modules == std::vector<std::string>{folder / "gpu/lib/gradus_emu.so"});
  CHECK(parse_device_config(Json("gpu/d.json"), folder / "exp.json").device == "emu:1");
  const std::string loop = folder.write("loop.json", R"({"device": "loop.json"})");
  CHECK(has(config_error(loop), "device files name one another in a circle"));
  CHECK(error_text(ErrorKind::io, [&] { parse_device_config(folder / "not_there.json"); }) ==
        folder / "not_there.json" + ": cannot open: No such file or directory");
}

TEST_CASE("device config: malformed names") {
  CHECK(config_error("gpuu") == "--device: device: unknown device \"gpuu\"; did you mean \"cpu\"?");
  CHECK(
      config_error("cuda:x") ==
      "--device: device: \"x\" in \"cuda:x\" is not a device number; write \"cuda\" or \"cuda:0\"");
  CHECK(has(config_error("cuda:"), "is not a device number"));
  CHECK(has(config_error("cuda:-1"), "is not a device number"));
  CHECK(has(config_error("tensor-thing"), "write auto, cpu, reference, cuda:N"));
  CHECK(config_error(R"({"divice": "cpu"})") ==
        "--device: divice: unknown key; did you mean \"device\"?");
  CHECK(config_error(R"({"threads": 0})") ==
        "--device: threads: expected a whole number from 1 to 4096, got 0");
  CHECK(config_error(R"({"device": "reference", "isa": "avx2"})") ==
        "--device: isa: the device reference has no instruction sets; \"device\": \"cpu\" has");
  CHECK(config_error(R"({"isa": 2})") == "--device: isa: expected a string, got 2");
  CHECK(config_error("[1]") ==
        "--device: device: unknown device \"[1]\"; write auto, cpu, reference, "
        "cuda:N, hip:N, emu:N, a number, or a .json file");
  CHECK(error_text(ErrorKind::config, [] { parse_device_config(Json(true), "c.json"); }) ==
        "c.json: expected a string, a whole number or an object, got true");
  CHECK(has(config_error("{\"threads\": 1"), "--device: line 1, column "));
}

TEST_CASE("device config: sources win key by key, and a found gradus.json loads no code") {
  const TempFolder folder;
  folder.write("gradus.json", R"({"device": "emu", "threads": 1, "memory_limit": "1MiB",)"
                              R"( "fallback": "error", "modules": ["evil.so"]})");
  const Json experiment = {{"device", "hip"}, {"threads", 2}, {"modules", {"m/gradus_hip.so"}}};
  std::vector<std::string> warnings;
  DeviceConfig c = resolve_device_config({"cuda:1", R"({"device": "reference", "memory_limit": 7})",
                                          &experiment, "/e/x.json", folder.path()},
                                         &warnings);
  CHECK(c.device == "cuda:1");
  CHECK(c.origin == "--device");
  CHECK(c.memory_limit == 7);
  CHECK(c.threads == 2);
  CHECK(c.fallback == DeviceConfig::Fallback::error);
  CHECK(c.modules == std::vector<std::string>{"/e/m/gradus_hip.so"});
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0], "gradus.json: \"modules\" is ignored"));
  c = resolve_device_config({"", "", nullptr, "", folder.path()}, &warnings);
  CHECK(c.device == "emu");
  CHECK(c.modules.empty());
  // Nor through a file that it names.
  folder.write("inner.json", R"({"device": "emu", "modules": ["evil.so"]})");
  folder.write("gradus.json", R"({"device": "inner.json"})");
  CHECK(resolve_device_config({"", "", nullptr, "", folder.path()}).modules.empty());
  // But the same file does where the user names it.
  const std::string named = folder.write("gradus.json", R"({"modules": ["good.so"]})");
  CHECK(resolve_device_config({named, "", nullptr, "", "/nonexistent"}).modules ==
        std::vector<std::string>{folder / "good.so"});
}

TEST_CASE("device config: a GPU vendor's libraries") {
  const TempFolder folder;
  const std::string file =
      folder.write("d.json", R"({"libraries": {"gemm": "lib/blas.so.3", "tensor": "off"}})");
  DeviceConfig c = parse_device_config(file);
  CHECK(c.gemm_library == folder / "lib/blas.so.3");
  CHECK(c.tensor_library == "off");
  c = resolve_device_config({R"({"libraries": {"tensor": "/t.so"}})", file, nullptr, "", "/none"});
  CHECK(c.gemm_library == folder / "lib/blas.so.3");
  CHECK(c.tensor_library == "/t.so");
  c = parse_device_config("cuda");
  CHECK(c.gemm_library == "auto");
  CHECK(c.tensor_library == "auto");
  CHECK(c.solver_library == "auto");
  c = parse_device_config(folder.write("s.json", R"({"libraries": {"solver": "lib/solver.so"}})"));
  CHECK(c.solver_library == folder / "lib/solver.so");
  CHECK(c.gemm_library == "auto");
  CHECK(parse_device_config(R"({"libraries": {"solver": "off"}})").solver_library == "off");
  CHECK(config_error(R"({"libraries": {"solver": "no"}})") ==
        "--device: libraries.solver: \"no\" is no path; write \"auto\", \"off\" or the path of a "
        "shared library");

  CHECK(config_error(R"({"libraries": {"gemm": "of"}})") ==
        "--device: libraries.gemm: \"of\" is no path; write \"auto\", \"off\" or the path of a "
        "shared library");
  CHECK(has(config_error(R"({"libraries": {"gem": "off"}})"), "did you mean \"gemm\"?"));

  // A file that was merely found may switch them off, but loads no code.
  folder.write("gradus.json", R"({"libraries": {"gemm": "./evil.so", "tensor": "off"}})");
  std::vector<std::string> warnings;
  c = resolve_device_config({"", "", nullptr, "", folder.path()}, &warnings);
  CHECK(c.gemm_library == "auto");
  CHECK(c.tensor_library == "off");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "gradus: " + folder / "gradus.json" +
                           ": \"libraries.gemm\" is ignored in a file that was merely found; name "
                           "the file with --device to load code from it");
}

TEST_CASE("device config: a LAPACK and a BLAS for the CPU") {
  const TempFolder folder;
  for (const auto& [key, standard, member] :
       {std::tuple(std::string("lapack"), "LAPACK", &DeviceConfig::lapack_library),
        std::tuple(std::string("blas"), "BLAS", &DeviceConfig::blas_library)}) {
    const auto libraries = [&key = key](const std::string& text, const std::string& more = "") {
      return "{" + more + "\"libraries\": {\"" + key + "\": \"" + text + "\"}}";
    };
    const std::string file = folder.write(key + ".json", libraries("lib/its.so"));
    DeviceConfig c = parse_device_config(file);
    CHECK(c.*member == folder / "lib/its.so");
    c = resolve_device_config({R"({"libraries": {"gemm": "off"}})", file, nullptr, "", "/none"});
    CHECK(c.*member == folder / "lib/its.so");
    c = resolve_device_config({libraries("off"), file, nullptr, "", "/none"});
    CHECK(c.*member == "off");
    CHECK(parse_device_config("cpu").*member == "off");
    // A name is the system's loader's to find.
    c = parse_device_config(libraries("libits.so.3", R"("device": "cpu", )"));
    CHECK(c.*member == "libits.so.3");
    CHECK((c.lapack_library == "off") == (key != "lapack"));
    CHECK((c.blas_library == "off") == (key != "blas"));

    for (const char* word : {"auto", "openblas", ""})
      CHECK(config_error(libraries(word)) ==
            "--device: libraries." + key + ": \"" + word +
                "\" is no path; write \"off\" or the path of a shared library");
    CHECK(config_error(libraries("/l.so", R"("device": "reference", )")) ==
          "--device: libraries." + key +
              ": the device reference has its own algorithms alone; \"device\": \"cpu\" takes a " +
              standard);

    // Never from a file that was merely found, be it a path or a name.
    for (const char* library : {"./evil.so", "liblapack.so.3"}) {
      folder.write("gradus.json", libraries(library));
      std::vector<std::string> warnings;
      c = resolve_device_config({"", "", nullptr, "", folder.path()}, &warnings);
      CHECK(c.*member == "off");
      REQUIRE(warnings.size() == 1);
      CHECK(has(warnings[0],
                ": \"libraries." + key + "\" is ignored in a file that was merely found"));
    }
  }
  CHECK(has(config_error(R"({"libraries": {"lapak": "off"}})"), "did you mean \"lapack\"?"));
  CHECK(has(config_error(R"({"libraries": {"blass": "off"}})"), "did you mean \"blas\"?"));
}

TEST_CASE("device config: a missing device becomes the CPU with one line, or an error") {
  const TempFolder folder;
  const Variable path("GRADUS_MODULE_PATH", folder.path().c_str());
  DeviceConfig c =
      parse_device_config(R"({"device": "nodev:0", "modules": ["/x/gradus_nodev.so"]})");
  const OpenedDevice opened = open_configured(c);
  CHECK(opened.device->kind() == "cpu");
  CHECK(opened.notice ==
        "gradus: device \"nodev:0\" is not available: /x/gradus_nodev.so: no such module file: No "
        "such file or directory. Using cpu. Set \"fallback\": \"error\" to fail instead.");
  c.fallback = DeviceConfig::Fallback::error;
  CHECK(error_text(ErrorKind::device, [&] {
          open_configured(c);
        }).find("device \"nodev:0\" is not available: /x/gradus_nodev.so: ") == 0);
  c = parse_device_config("7");
  CHECK(has(open_configured(c).notice,
            "gradus: device \"7\" is not available: no GPU number 7 here"));
  CHECK(open_configured(parse_device_config("-3")).device->name() == "cpu");
  CHECK(open_configured(parse_device_config("cpu:99")).notice ==
        "gradus: device \"cpu:99\" is not available: cpu:99 asked, 1 found. Using cpu. Set "
        "\"fallback\": \"error\" to fail instead.");
}

TEST_CASE("device config: a number counts on from kind to kind, the best first") {
  const auto kind = [](const char* name, int score, int devices) {
    return KnownKind{name, "", "", score, devices, devices > 0 ? "" : "no driver"};
  };
  const std::vector<KnownKind> kinds{kind("emu", -10, 4), kind("hip", 200, 1), kind("cpu", 1, 1),
                                     kind("cuda", 300, 2), kind("other", 100, 1)};
  const char* const names[] = {"cuda:0", "cuda:1", "hip:0", "other:0"};
  for (int n = 0; n < 4; ++n) CHECK(device_of_number(n, kinds) == names[n]);
  CHECK(device_of_number(-1, kinds) == "cpu");
  CHECK(error_text(ErrorKind::device, [&] { device_of_number(4, kinds); }) ==
        "no GPU number 4 here (cuda: 2 found, hip: 1 found, other: 1 found)");
  CHECK(error_text(ErrorKind::device, [&] {
          device_of_number(1, {kind("cuda", 300, 0), kind("hip", 200, 1)});
        }) == "no GPU number 1 here (cuda: no driver, hip: 1 found)");
}

TEST_CASE("device config: the memory limit reaches the pool") {
  Device& cpu =
      *open_configured(parse_device_config(R"({"device": "cpu", "memory_limit": "1TiB"})")).device;
  CHECK(cpu.pool().limit() == size_t(1) << 40);
  cpu.pool().set_limit(0);
}
