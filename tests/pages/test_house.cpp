// The house itself: which room may include which, no op's name in the engine, one global symbol per
// instruction-set object, one symbol per module.
#include "gradus_paths.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

// Rooms from the ground up: each is a folder, and includes of those that stand before it alone.
// A device's rooms stand by themselves on the plain headers, the statements and kernels/call;
// torch, on the reference, too.
const std::vector<std::string> from_the_ground_up = {"engine/abi",
                                                     "ops/def",
                                                     "engine/base",
                                                     "engine/device",
                                                     "engine",
                                                     "engine/streams",
                                                     "engine/files",
                                                     "engine/config",
                                                     "engine/capture",
                                                     "ops/base",
                                                     "ops/pointwise",
                                                     "ops/shape",
                                                     "ops/index",
                                                     "ops/reduce",
                                                     "ops/contract/plan",
                                                     "ops/contract",
                                                     "ops/contract/operations",
                                                     "ops/diagonal",
                                                     "ops/conv",
                                                     "ops/random",
                                                     "ops/loss",
                                                     "ops/linalg",
                                                     "ops/blocks",
                                                     "ops/transforms",
                                                     "ops/nn",
                                                     "ops/optim",
                                                     "ops",
                                                     "ops/check",
                                                     "ops/audit/watch",
                                                     "ops/audit/step",
                                                     "ops/audit/judge",
                                                     "ops/audit/show",
                                                     "ops/train/data",
                                                     "ops/train",
                                                     "kernels/call",
                                                     "kernels/linalg",
                                                     "kernels/reference/statements",
                                                     "kernels/reference",
                                                     "kernels/torch",
                                                     "kernels/cpu",
                                                     "kernels/cpu/isa/words",
                                                     "kernels/cpu/isa",
                                                     "kernels/cpu/isa/contract",
                                                     "kernels/cpu/isa/linalg",
                                                     "kernels/gpu/emulator",
                                                     "kernels/gpu/libraries",
                                                     "kernels/gpu",
                                                     "kernels/gpu/folds",
                                                     "kernels/gpu/contract",
                                                     "kernels/gpu/linalg",
                                                     "bindings/heap",
                                                     "bindings/cpp",
                                                     "bindings/c",
                                                     "bindings/lua",
                                                     "bindings/lua/tensors",
                                                     "bindings/lua/blocks",
                                                     "bindings/lua/networks",
                                                     "bindings/lua/audit",
                                                     "bindings/python/src",
                                                     "bindings/python/src/blocks",
                                                     "bindings/python/src/exchange",
                                                     "cli/frame",
                                                     "cli/runs",
                                                     "cli/ops",
                                                     "cli/contract",
                                                     "cli/report",
                                                     "cli/train",
                                                     "cli/script",
                                                     "cli/look",
                                                     "cli/teach",
                                                     "cli"};

std::string room_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
// "kernels/cpu" of "kernels/cpu/isa"
std::string device_of(const std::string& room) { return room.substr(0, room.find('/', 8)); }

size_t floor_of(const std::string& room) {
  const auto at = std::find(from_the_ground_up.begin(), from_the_ground_up.end(), room);
  REQUIRE_MESSAGE(at != from_the_ground_up.end(), room << " is no room; give it its place");
  return size_t(at - from_the_ground_up.begin());
}

// The derivative of an op is made of ops: of expand a sum, of a sum an expand. So sources of these
// rooms use the functions of all of them; their headers go down as all others do.
const std::set<std::string> families = {"ops/pointwise", "ops/shape", "ops/index",  "ops/reduce",
                                        "ops/contract",  "ops/conv",  "ops/random", "ops/loss"};

bool may_include(const std::string& path, const std::string& other_path) {
  const std::string room = room_of(path), other = room_of(other_path);
  if (room == other) return true;
  if (path.ends_with(".cpp") && families.contains(room) && families.contains(other)) return true;
  if (floor_of(other) > floor_of(room)) return false;
  if (room.starts_with("kernels/"))
    return other == "engine/abi" || other == "ops/def" || other == "kernels/call" ||
           other == "kernels/linalg" || device_of(room) == device_of(other) ||
           (room == "kernels/torch" && other_path == "kernels/reference/reference.hpp");
  if (room == "bindings/cpp")  // links in the devices that need no module
    return !other.starts_with("kernels/") || other_path.ends_with("/cpu.hpp") ||
           other_path.ends_with("/reference.hpp");
  if (room.starts_with("ops/") || room == "ops" || room.starts_with("bindings/"))
    return !other.starts_with("kernels/");
  return !other.starts_with("kernels/gpu") && (room != "ops/def" || other == "engine/abi");
}

}  // namespace

TEST_CASE("includes go down: each room knows those below it alone") {
  if (gradus::test::small_sizes()) return;  // none of our code runs
  const fs::path root = GRADUS_SOURCE_DIR;
  const std::regex include("^\\s*#\\s*include\\s+\"([^\"]+)\"");
  const std::set<std::string> made = {"ops/audit/show/page_assets.hpp",
                                      "cli/teach/lesson_files.hpp", "kernels/cpu/cpu_sets.inc"};
  int files = 0;
  for (const char* top : {"engine", "ops", "kernels", "bindings", "cli"})
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".h" && extension != ".cu")
        continue;
      const std::string path = fs::relative(entry.path(), root);
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        std::smatch m;
        if (!std::regex_search(line, m, include)) continue;
        std::string other = m[1];  // of what others install beside each other, the name alone
        if (other.find('/') == std::string::npos) other = room_of(path) + "/" + other;
        CHECK_MESSAGE((made.contains(other) || fs::exists(root / other)), path, " includes ", other,
                      ", which is not there");
        CHECK_MESSAGE(may_include(path, other), path, " includes ", other);
      }
    }
  CHECK(files > 60);
}

TEST_CASE("what a page shows of how a statement is added stands in the files") {
  const auto squeezed = [](std::string text) {  // whatever the indentation
    return std::regex_replace(text, std::regex("\\n *"), "\n");
  };
  std::string files;
  for (const char* file : {"ops/def/statements_steps.hpp", "ops/check/pointwise_rows.cpp",
                           "tests/ops/test_softsign.cpp"})
    files += squeezed("\n" + gradus::test::slurp((fs::path(GRADUS_SOURCE_DIR) / file).string()));
  const std::string page =
      gradus::test::slurp((fs::path(GRADUS_SOURCE_DIR) / "ops/def/README.md").string());
  int blocks = 0;
  for (size_t at = 0; (at = page.find("```cpp\n", at)) != std::string::npos; ++blocks) {
    const size_t begin = page.find('\n', at), end = page.find("```", begin);
    const std::string block = squeezed(page.substr(begin, end - begin));
    CHECK_MESSAGE(files.find(block.substr(0, block.rfind('\n') + 1)) != std::string::npos, block);
    at = end + 3;
  }
  CHECK(blocks == 3);
}

TEST_CASE("README's way from a statement to its gradient is 2,000 lines") {
  const fs::path root = GRADUS_SOURCE_DIR;
  const std::string page = gradus::test::slurp((root / "README.md").string());
  const size_t begin = page.find("## Reading order"), end = page.find("\nThen ", begin);
  REQUIRE(end != std::string::npos);
  const std::string list = page.substr(begin, end - begin);
  const std::regex named("`([\\w/]+\\.[ch]pp)`");
  int64_t files = 0, lines = 0;
  for (std::sregex_iterator m(list.begin(), list.end(), named), none; m != none; ++m, ++files) {
    const std::string text = gradus::test::slurp((root / m->str(1)).string());
    CHECK_MESSAGE(!text.empty(), m->str(1), " is not there");
    lines += std::count(text.begin(), text.end(), '\n');
  }
  CHECK(files >= 10);
  CHECK(lines <= 2000);
}

TEST_CASE("every room is one screen of files, and says what it is") {
  if (gradus::test::small_sizes()) return;
  const fs::path root = GRADUS_SOURCE_DIR;
  std::vector<std::string> rooms = from_the_ground_up;
  for (const auto& entry : fs::directory_iterator(root / "tests"))
    if (entry.is_directory()) rooms.push_back("tests/" + entry.path().filename().string());
  for (const std::string& room : rooms) {
    std::ifstream readme(root / room / "README.md");
    CHECK_MESSAGE(readme.good(), room, " has no README.md");
    const std::regex named("`([\\w/]+\\.(hpp|cpp|cu|h))`");
    for (std::string line; std::getline(readme, line);)
      for (std::sregex_iterator m(line.begin(), line.end(), named), end; m != end; ++m)
        CHECK_MESSAGE((fs::exists(root / room / m->str(1)) || fs::exists(root / m->str(1))), room,
                      "/README.md names ", m->str(1), ", which is not there");
    std::set<std::string> things;  // a source and its header are one
    for (const auto& entry : fs::directory_iterator(root / room))
      if (const std::string e = entry.path().extension();
          e == ".cpp" || e == ".hpp" || e == ".h" || e == ".cu")
        things.insert(entry.path().stem());
    CHECK_MESSAGE(things.size() <= 25, room, " holds ", things.size());
  }
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
  const std::string sets =
      output_of("cat '" + (build / "kernels/cpu/assets/kernels/cpu/cpu_sets.inc").string() + "'");
  CHECK(objects > 0);
  CHECK(objects == std::count(sets.begin(), sets.end(), '\n'));
#if defined(__x86_64__)
  if (output_of("grep GRADUS_CPU_SETS:STRING=all '" + (build / "CMakeCache.txt").string() + "'") !=
      "")
    CHECK(objects == 3);
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
#include "engine/abi/kernel_table.h"
TEST_CASE("the kernel table is plain C, of the same size on both sides") {
  CHECK(gradus_table_size_in_c() == sizeof(gd_table));
}
