// Vendors' libraries that are not there, lack something or refuse; how long their plans live, and
// captured graphs.
#include "tests/helpers/gpu_libraries.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <filesystem>
#include <fstream>

using namespace library_test;

TEST_CASE("gpu libraries: plans are made once and kept within bounds") {
  for (int32_t way : {kGemm, kTensor}) {
    const Library& library = way == kGemm ? cublaslt() : cutensor();
    gd_device* const device = open(way == kGemm ? gemm(library.path) : tensor(library.path));
    const auto plans = [&](const Spec& s) {
      const int before = library.state->plans;
      check<float>(s, device, library, way);
      return library.state->plans - before;
    };
    Spec s = matmul(1, 4, 8, 8);
    s.offset = 64;
    CHECK(plans(s) == 1);
    CHECK(plans(s) == 0);
    s.beta = 1, s.alpha = 3;
    CHECK(plans(s) == 0);
    s.offset = 4;  // another alignment
    CHECK(plans(s) == 1);
    s.b = "bnk";
    CHECK(plans(s) == 1);
    const int live = library.state->live;
    for (int64_t k = 1; k < 300; ++k) plans(matmul(1, 2, 2, k + 8));
    const int each = way == kGemm ? 4 : 6;
    CHECK(library.state->live - live <= each * 256);
    CHECK(library.state->live - live > each * 200);
    s.offset = 64;  // the oldest ones had to go
    CHECK(plans(s) == 1);
  }
}

TEST_CASE("gpu libraries: one plan for several bias vectors") {
  gd_device* const device = open(gemm(cublaslt().path));
  Spec s = matmul(1, 4, 8, 8);
  s.bias = "n";
  Problem<float> first(s), second(s);
  const int plans = cublaslt().state->plans;
  for (Problem<float>* p : {&first, &second}) {
    CHECK(p->call(device, kGemm | GD_WAY_ONLY) == "");
    p->compare();
  }
  CHECK(cublaslt().state->plans == plans + 1);
}

TEST_CASE("gpu libraries: the device's own choice takes them for large contractions") {
  if (test::small_sizes()) return;
  gd_device* const device = open(R"({"libraries": {"gemm": ")" + cublaslt().path +
                                 R"(", "tensor": ")" + cutensor().path + "\"}}");
  const auto runs = [&](const Spec& s) {
    const int products = cublaslt().state->runs, contractions = cutensor().state->runs;
    Problem<float> p(s);
    CHECK(p.call(device, GD_WAY_OWN) == "");
    p.compare();
    return std::pair(cublaslt().state->runs - products, cutensor().state->runs - contractions);
  };
  CHECK(runs(matmul(1, 64, 64, 64)) == std::pair(0, 0));
  CHECK(runs(matmul(1, 64, 64, 4096)) == std::pair(1, 0));
  CHECK(
      runs(
          {"abn", "k", "bak", "kn", "abn", "none", {{'a', 8}, {'b', 8}, {'n', 64}, {'k', 4096}}}) ==
      std::pair(0, 1));
  // Without that library, copied into place: if the copies are small beside the products.
  gd_device* const alone = open(gemm(cublaslt().path));
  const auto products = [&](int64_t n, int64_t k) {
    const int before = cublaslt().state->runs;
    Problem<float> p(
        {"abn", "k", "bak", "nk", "nab", "none", {{'a', 8}, {'b', 8}, {'n', n}, {'k', k}}});
    CHECK(p.call(alone, GD_WAY_OWN) == "");
    p.compare();
    return cublaslt().state->runs - before;
  };
  CHECK(products(512, 2048) == 1);
  CHECK(products(64, 4096) == 0);
}

TEST_CASE("gpu libraries: one that refuses is asked once, and others do it") {
  for (int32_t way : {kGemm, kTensor}) {
    const Library& library = way == kGemm ? cublaslt() : cutensor();
    FakeState& state = *library.state;
    const std::string options = way == kGemm ? gemm(library.path) : tensor(library.path);
    const Spec s = matmul(1, 4, 8, 8);
    const std::string makes_none =
        way == kGemm ? "cuBLASLt has no algorithm for it: " : "cuTENSOR makes no plan for it: ";
    for (const auto& [code, name] : std::map<int, std::string>{
             {15, "NOT_SUPPORTED (15)"}, {19, "INSUFFICIENT_WORKSPACE (19)"}}) {
      gd_device* const device = open(options);
      state.fail_plan = code;
      const int plans = state.plans;
      CHECK(refused<float>(s, device, library, way) == makes_none + name);
      CHECK(state.plans == plans + 1);
      state.fail_plan = 0;
      CHECK(refused<float>(s, device, library, way) == makes_none + name);

      // When it runs.
      gd_device* const other = open(options);
      state.fail_run = code;
      CHECK(refused<float>(s, other, library, way) == "the library refused it: " + name);
      state.fail_run = 0;
      CHECK(refused<float>(s, other, library, way) == "the library refused it: " + name);
    }
    // What may have written to out is an error, whoever asked.
    gd_device* const device = open(options);
    state.fail_run = 13;
    Problem<float> p(s);
    for (int32_t op : {way, way | GD_WAY_ONLY}) {
      gd_status status = GD_OK;
      CHECK(p.call(device, op, &status) ==
            "emu contract: a vendor's library failed: EXECUTION_FAILED (13)");
      CHECK(status == GD_INTERNAL);
    }
    state.fail_run = 0;
    check<float>(s, device, library, way);

    state.workspace_wanted = int64_t(1) << 40;  // more than it may have
    CHECK(refused<float>(matmul(1, 5, 8, 8), device, library, way) ==
          makes_none + (way == kGemm ? "NOT_SUPPORTED (15)" : "INSUFFICIENT_WORKSPACE (19)"));
    state.workspace_wanted = 4 << 20;
    check<float>(matmul(1, 6, 8, 8), device, library, way);
    state.workspace_wanted = 0;

    state.fail_create = 1;
    const std::string failed = refused<float>(s, open(options), library, way);
    CHECK(has(failed, "Create failed: NOT_INITIALIZED (1)"));
    CHECK(has(failed, library.path.substr(0, 20).c_str()));
    state.fail_create = 0;
  }
}

TEST_CASE("gpu libraries: why one can't be used") {
  const Spec s = matmul(1, 4, 8, 8);
  const auto why = [&](const std::string& options, int32_t way) {
    return refused<float>(s, open(options), cublaslt(), way);
  };
  CHECK(why("{}", kGemm) == "cuBLASLt: the emulator opens one by its path only");
  CHECK(why("{}", kTensor) == "cuTENSOR or hipTensor: the emulator opens one by its path only");
  CHECK(why(gemm("off"), kGemm) == "cuBLASLt: it is off in the device config");
  CHECK(why(gemm("/no/lib.so"), kGemm) == "cuBLASLt: can't be opened; tried /no/lib.so");
  // Texts of errors are cut at 248 characters.
  CHECK(has(gpu::Library("X", only(kFolder + "../../CMakeCache.txt")).why(), "invalid ELF header"));

  const auto missing = [](const std::string& name, const char* symbol) {
    gpu::Library library("title", only(kFolder + "libfake_" + name + ".so"));
    CHECK(library.why() == "");
    CHECK_FALSE(library.has(symbol));
    void (*function)() = nullptr;
    library.get(function, symbol);
    CHECK((function == nullptr));
    return library.why();
  };
  CHECK(missing("hiptensor_1", "hiptensorCreatePlan") ==
        "title (" + kFolder + "libfake_hiptensor_1.so): it has no hiptensorCreatePlan");
  CHECK(missing("cutensor", "cublasLtCreate") ==
        "title (" + kFolder + "libfake_cutensor.so): it has no cublasLtCreate");
  CHECK(has(why(tensor(kFolder + "libfake_hiptensor_1.so"), kTensor), "libfake_hiptensor_1.so"));
  CHECK(has(why(gemm(cutensor().path), kGemm), "cuBLASLt ("));
}

TEST_CASE("gpu libraries: where they are looked for") {
  gpu::LibrarySearch s;
  s.variable = "GRADUS_TEST_LIBRARY";
  s.names = {"libnone.so.2", "libnone.so.1"};
  s.folders = {"/no/lib64"};
  s.wheels = {"none/lib"};
  ::unsetenv("GRADUS_TEST_LIBRARY");
  const std::vector<std::string> usual = {"libnone.so.2", "libnone.so.1", "/no/lib64/libnone.so.2",
                                          "/no/lib64/libnone.so.1"};
  CHECK(gpu::library_paths(s) == usual);
  CHECK(gpu::Library("None", s).why() ==
        "None: can't be opened; tried libnone.so.2, libnone.so.1, /no/lib64/libnone.so.2, "
        "/no/lib64/libnone.so.1");
  ::setenv("GRADUS_TEST_LIBRARY", "/v/lib.so", 1);
  CHECK(gpu::library_paths(s) == std::vector<std::string>{"/v/lib.so"});
  s.none = "not here";
  CHECK(gpu::Library("None", s).why() == "None: not here");
  s.setting = "/p/lib.so";
  CHECK(gpu::library_paths(s) == std::vector<std::string>{"/p/lib.so"});
  CHECK(gpu::Library("None", s).why() == "None: can't be opened; tried /p/lib.so");
  ::unsetenv("GRADUS_TEST_LIBRARY");
}

TEST_CASE("gpu libraries: where Python's environments keep them, active or not") {
  const gradus::test::TempFolder folder;
  const auto environment = [&](const std::string& name, const std::string& python,
                               const std::string& wheel) {
    const std::string at = folder / name;
    std::filesystem::create_directories(at + "/bin");
    std::ofstream(at + "/bin/python3") << "#!/bin/sh\n";
    std::filesystem::permissions(at + "/bin/python3", std::filesystem::perms::owner_all);
    std::filesystem::create_directories(at + python + "/site-packages/" + wheel);
    return at + python + "/site-packages/" + wheel + "/libnone.so.1";
  };
  const std::string active = environment("venv", "/lib/python3.12", "nvidia/cublas/lib"),
                    conda = environment("conda", "/lib/python3.11", "nvidia/cublas/lib"),
                    found = environment("torch", "/lib64/python3.12", "nvidia/cu13/lib");
  struct Variable {
    std::string name, before;
    bool was;
    Variable(const char* n, const std::string& value) : name(n), was(std::getenv(n) != nullptr) {
      if (was) before = std::getenv(n);
      ::setenv(n, value.c_str(), 1);
    }
    ~Variable() { was ? ::setenv(name.c_str(), before.c_str(), 1) : ::unsetenv(name.c_str()); }
  };
  const Variable one("VIRTUAL_ENV", folder / "venv"), two("CONDA_PREFIX", folder / "conda"),
      three("PATH", "/nowhere/bin:" + (folder / "torch/bin")), four("HOME", folder.path());
  gpu::LibrarySearch s;
  s.names = {"libnone.so.1"};
  s.wheels = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
  const std::vector<std::string> paths = gpu::library_paths(s);
  REQUIRE(paths.size() >= 4);
  CHECK(std::vector<std::string>(paths.begin(), paths.begin() + 4) ==
        std::vector<std::string>{"libnone.so.1", active, conda, found});
}

TEST_CASE("gpu libraries: in a captured graph, but only by a plan that is there") {
  for (int32_t way : {kGemm, kTensor}) {
    const Library& library = way == kGemm ? cublaslt() : cutensor();
    gd_device* const device = open(way == kGemm ? gemm(library.path) : tensor(library.path));
    const gd_table& table = emulator();
    Problem<float> p(matmul(1, 4, 8, 8)), other(matmul(1, 4, 8, 9));
    gd_error e{};
    void* graph = nullptr;
    gd_status status = GD_OK;

    gd_device* const unnamed = open("{}");  // which would look for one now
    REQUIRE(table.capture_begin(unnamed, nullptr, &e) == GD_OK);
    CHECK(p.call(unnamed, way | GD_WAY_ONLY, &status) ==
          "emu contract standard: a library would be opened while a graph is captured");
    CHECK(status == GD_CAPTURE);
    REQUIRE(table.capture_end(unnamed, nullptr, &graph, &e) == GD_OK);
    table.graph_del(unnamed, graph);

    CHECK(p.call(device, way | GD_WAY_ONLY) == "");
    const std::vector<float> want = p.out.values();
    REQUIRE(table.capture_begin(device, nullptr, &e) == GD_OK);
    CHECK(other.call(device, way, &status) ==
          "emu contract standard: a library's plan would be made while a graph is captured");
    CHECK(status == GD_CAPTURE);
    CHECK(p.call(device, way | GD_WAY_ONLY) == "");
    REQUIRE(table.capture_end(device, nullptr, &graph, &e) == GD_OK);
    CHECK(same_bits(p.out.values(), p.before));  // nothing was done yet
    // The graph's plan outlives others.
    for (int64_t k = 1; k < 300; ++k)
      REQUIRE(Problem<float>(matmul(1, 2, 2, k + 9)).call(device, way | GD_WAY_ONLY) == "");
    for (int round = 0; round < 2; ++round) {
      p.out.put(p.before);
      REQUIRE(table.graph_launch(device, nullptr, graph, &e) == GD_OK);
      CHECK(same_bits(p.out.values(), want));
    }
    table.graph_del(device, graph);
    CHECK(std::string(library.state->first_wrong) == "");
  }
}
