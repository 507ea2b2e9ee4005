// The house itself: which room may include which, no op's name in the engine, one global symbol per
// instruction-set object, one symbol per module.
#include "gradus_paths.hpp"
#include "tests/sizes.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace fs = std::filesystem;

namespace {

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

// The room of a path: its first folder, "kernels/cpu" for kernels, "ops/def" for statements, and
// "plain" for the engine headers that kernels may see.
std::string room_of(const std::string& path) {
  static const std::set<std::string> plain = {
      "engine/hd.hpp",     "engine/complex.hpp",    "engine/half.hpp",      "engine/dtype.hpp",
      "engine/philox.hpp", "engine/kernel_table.h", "engine/user_dtype.hpp"};
  if (plain.contains(path)) return "plain";
  if (path.starts_with("ops/def/")) return "ops/def";
  const size_t slash = path.find('/');
  if (path.starts_with("kernels/")) return path.substr(0, path.find('/', slash + 1));
  return path.substr(0, slash);
}

}  // namespace

TEST_CASE("includes follow the arrow engine <- ops <- kernels <- bindings <- cli") {
  if (gradus::test::small_sizes()) return;  // none of our code runs
  const std::map<std::string, std::set<std::string>> may = {
      {"plain", {"plain"}},
      {"engine", {"plain", "engine"}},
      {"ops/def", {"plain", "ops/def"}},
      {"ops", {"plain", "engine", "ops/def", "ops"}},
      {"kernels/reference", {"plain", "ops/def", "kernels/reference"}},
      {"kernels/cpu", {"plain", "ops/def", "kernels/cpu"}},
      {"kernels/gpu", {"plain", "ops/def", "kernels/gpu"}},
      {"bindings", {"plain", "engine", "ops/def", "ops", "bindings"}},
      {"cli",
       {"plain", "engine", "ops/def", "ops", "kernels/reference", "kernels/cpu", "bindings",
        "cli"}},
  };
  const fs::path root = GRADUS_SOURCE_DIR;
  const std::regex include("^\\s*#\\s*include\\s+\"([^\"]+)\"");
  int files = 0;
  for (const char* top : {"engine", "ops", "kernels", "bindings", "cli"})
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".h" && extension != ".cu")
        continue;
      const std::string path = fs::relative(entry.path(), root);
      const std::string room = room_of(path);
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        std::smatch m;
        if (!std::regex_search(line, m, include)) continue;
        CHECK_MESSAGE(may.at(room).contains(room_of(m[1])), path, " (", room, ") includes ",
                      m[1].str());
      }
    }
  CHECK(files > 60);
}

TEST_CASE("the engine and the kernels know no op by name") {
  const fs::path root = GRADUS_SOURCE_DIR;
  for (const char* name : {"sigmoid", "matmul", "relu", "cross_entropy", "logsumexp"})
    for (const char* top : {"engine", "kernels"}) {
      const std::string found = output_of(
          "grep -rwl --include='*.hpp' --include='*.cpp' --include='*.h' --include='*.cu' " +
          std::string(name) + " " + (root / top).string() + " 2>/dev/null");
      // comments may give an example of an error text
      std::istringstream lines(found);
      for (std::string file; std::getline(lines, file);) {
        std::ifstream in(file);
        for (std::string line; std::getline(in, line);) {
          const size_t at = line.find(name), comment = line.find("//"), block = line.find(" * ");
          if (at == std::string::npos) continue;
          CHECK_MESSAGE((comment < at || block < at), file, ": ", line);
        }
      }
    }
}

TEST_CASE("each instruction-set object has one global symbol") {
  const fs::path build = GRADUS_BUILD_DIR;
  int objects = 0;
  for (const auto& entry : fs::recursive_directory_iterator(build / "kernels" / "cpu")) {
    const std::string file = entry.path().filename();
    if (!file.starts_with("k_") || entry.path().extension() != ".o") continue;
    const std::string isa = entry.path().stem().string().substr(2);
    std::istringstream lines(output_of("nm --defined-only -g " + entry.path().string()));
    std::set<std::string> symbols;
    for (std::string line; std::getline(lines, line);)
      symbols.insert(line.substr(line.rfind(' ') + 1));
    CHECK_MESSAGE(symbols == std::set<std::string>{"gradus_cpu_kernels_" + isa}, file);
    ++objects;
  }
#if defined(__x86_64__)
  const bool avx2 =
      output_of("grep GRADUS_CPU_AVX2:BOOL=ON '" + (build / "CMakeCache.txt").string() + "'") != "";
  CHECK(objects == (avx2 ? 3 : 2));
#endif
}

TEST_CASE("the module exports one symbol") {
  const std::string out =
      output_of(std::string("nm -D --defined-only ") + GRADUS_LIB_DIR + "/gradus_reference.so");
#ifdef GRADUS_SANITIZED
  CHECK(out.find("gradus_device_module") != std::string::npos);
#else
  std::istringstream lines(out);
  std::string line;
  std::set<std::string> symbols;
  while (std::getline(lines, line)) symbols.insert(line.substr(line.rfind(' ') + 1));
  CHECK(symbols == std::set<std::string>{"gradus_device_module"});
#endif
}

extern "C" unsigned long gradus_table_size_in_c(void);
#include "engine/kernel_table.h"
TEST_CASE("the kernel table is plain C, of the same size on both sides") {
  CHECK(gradus_table_size_in_c() == sizeof(gd_table));
}
