// Programs of people who have gradus installed: in C, Fortran, Python and C++, built and run
// against a staged installation with an empty environment and, where the system lets us, with the
// folders of source and build out of sight. Sanitized objects want their own flags, so there none
// is built.
#include "tests/helpers/installation.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <sstream>

namespace fs = std::filesystem;
using gradus::test::installed;
using gradus::test::TempFolder;

namespace {

constexpr const char* kC99 = "cc -std=c99 -pedantic -Wall -Wextra -Werror -O1 ";

// A folder of somebody else, with copies of these files of tests/fixtures/programs.
class Elsewhere {
 public:
  explicit Elsewhere(const std::vector<std::string>& programs = {}) {
    for (const std::string& name : programs)
      fs::copy(fs::path(GRADUS_SOURCE_DIR) / "tests/fixtures/programs" / name, folder_.path());
  }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  void write_project(const std::string& language, const std::string& source,
                     const std::string& lines) const {
    write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(somebody " + language +
                                ")\nadd_executable(example " + source + ")\n" + lines);
  }
  // What these lines of a shell print. They see a PATH and, as README has it, PREFIX.
  std::string operator()(const std::string& lines) const {
    write(".lines", "export PKG_CONFIG_PATH=\"$PREFIX/lib/pkgconfig\"\n" + lines + "\n");
    const std::string alone =
        "env -i PATH=\"$PATH\" HOME=\"$PWD\" LC_ALL=C PREFIX='" + installed() + "' sh -e .lines";
    return gradus::test::shell(folder_.path(),
                               hides() ? hiding() + "exec \"$@\"' sh " + alone : alone);
  }
  // A project that find_package() is enough for, and what its program prints from the root folder.
  std::string by_cmake(const std::string& arguments = "") const {
    return (*this)(
        "cmake -S . -B built -DCMAKE_PREFIX_PATH=\"$PREFIX\" >.log 2>&1 || cat .log\n"
        "cmake --build built >.log 2>&1 || cat .log\n"
        "program=$PWD/built/example; cd /; \"$program\" " +
        arguments);
  }
  // Are the folders of source and build out of the commands' sight?
  static bool hides() {
    static const bool can = std::system((hiding() + "true' 2>/dev/null").c_str()) == 0;
    return can;
  }

 private:
  // Begins a shell that sees empty folders in the place of source and build.
  static std::string hiding() {
    std::string mounts;
    for (const char* folder : {GRADUS_BUILD_DIR, GRADUS_SOURCE_DIR})
      mounts += "mount -t tmpfs none \"" + fs::canonical(folder).string() + "\"; ";
    return "unshare -rm sh -ec '" + mounts;
  }
  TempFolder folder_;
};

bool none_to_try() {
  return gradus::test::small_sizes() || !fs::exists(installed() + "/lib/libgradus.so.1");
}

bool have(const std::string& compiler) {
  if (std::system(("env -i PATH=\"$PATH\" " + compiler + " --version >/dev/null 2>&1").c_str()) ==
      0)
    return true;
  MESSAGE(compiler, " is not here; its program is not tried");
  return false;
}

// Training loss, test loss and accuracy, by digits.c or by `gradus train --json`.
using Epoch = std::array<double, 3>;

std::vector<Epoch> told_by(const std::string& who, const std::string& output) {
  std::vector<Epoch> epochs;
  std::istringstream in(output);
  std::string name, number;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    if (!(words >> name >> number) || name != who) continue;
    Epoch& e = epochs.emplace_back();
    CHECK(number == std::to_string(epochs.size()));
    for (double& x : e) x = words >> number ? std::strtod(number.c_str(), nullptr) : NAN;
  }
  return epochs;
}
std::vector<Epoch> told_by_program(const std::string& output) {
  std::vector<Epoch> epochs;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('{')) continue;  // what it says to people
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "epoch")
      epochs.push_back({event["train_loss"], event["loss"], event["accuracy"]});
  }
  return epochs;
}

void check_same_bits(const std::vector<Epoch>& a, const std::vector<Epoch>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < 3; ++k)
      CHECK(std::bit_cast<uint64_t>(a[i][k]) == std::bit_cast<uint64_t>(b[i][k]));
}

}  // namespace

TEST_CASE("consumers: a C program trains digits with the losses of gradus train, bit for bit") {
  if (none_to_try()) return;
  const Elsewhere home({"digits.c"});
  // The last batch of an epoch has 24 samples, the last of the test 200.
  const std::string told = home(
      "\"$PREFIX/bin/gradus\" train \"$PREFIX/share/gradus/mlp/digits.json\" --device cpu --json "
      "--set data.train=600 --set data.test=700 --set epochs=3 --set report=false --out run");
  const std::vector<Epoch> wanted = told_by_program(told);
  REQUIRE(wanted.size() == 3);
  CHECK(wanted[2][0] < 0.5 * wanted[0][0]);

  const std::string by_pkg_config =
      home(kC99 + std::string("digits.c $(pkg-config --cflags --libs gradus-c) -o digits\n"
                              "export LD_LIBRARY_PATH=\"$PREFIX/lib\"\n./digits 600 700 3"));
  check_same_bits(told_by("own", by_pkg_config), wanted);
  check_same_bits(told_by("trainer", by_pkg_config), wanted);
  gradus::test::check_has(by_pkg_config, "handles left 0\n");

  home.write_project(
      "C", "digits.c",
      gradus::test::readme_block("cmake", "find_package(gradus REQUIRED COMPONENTS C"));
  CHECK(home.by_cmake("600 700 3") == by_pkg_config);
}

TEST_CASE("consumers: README's C program, by README's own two lines, and by its lines of CMake") {
  if (none_to_try()) return;
  const std::string program = gradus::test::readme_block("c", "#include <gradus/gradus.h>");
  CHECK(std::count(program.begin(), program.end(), '\n') <= 40);
  const Elsewhere home;
  home.write("example.c", program);
  CHECK(home(gradus::test::readme_block("", "gradus-c")) == gradus::test::promised(program));
  home.write_project(
      "C", "example.c",
      gradus::test::readme_block("cmake", "find_package(gradus REQUIRED COMPONENTS C"));
  CHECK(home.by_cmake() == gradus::test::promised(program));
}

TEST_CASE("consumers: a Fortran program lends its arrays and differentiates a contraction") {
  if (none_to_try() || !have("gfortran")) return;
  const Elsewhere home({"tensors.f90"});
  CHECK(home("gfortran -std=f2008 -pedantic -Wall -Wextra -Werror tensors.f90 "
             "$(pkg-config --libs gradus-c) -Wl,-rpath,\"$PREFIX/lib\" -o tensors\n"
             "program=$PWD/tensors; cd /; \"$program\"") ==
        "c = a b\nda = g b^T\ndb = a^T g\n"
        "einsum: label 1 is 3 in operand 0 and 4 in operand 1\n"
        "handles left 0\n");
}

TEST_CASE("consumers: modules are found beside the library, also if a relative path led to it") {
  if (none_to_try() || !fs::exists(installed() + "/lib/gradus/gradus_emu.so")) return;
  const Elsewhere home;
  home.write("find.c",
             "#include <gradus/gradus.h>\n#include <stdio.h>\n#include <unistd.h>\n"
             "int main(void) {\n  int32_t here = 0;\n"
             "  if (chdir(\"/\") || gradus_available(\"emu\", &here)) return 1;\n"
             "  return puts(here ? \"found\" : gradus_last_error_text()) < 0;\n}\n");
  CHECK(home("cc find.c $(pkg-config --cflags --libs gradus-c) -o find\n"
             "program=$PWD/find; cd \"$PREFIX\"; LD_LIBRARY_PATH=lib \"$program\"") == "found\n");
}

TEST_CASE("consumers: a Python script with ctypes alone: slopes, an op by name, a hook, errors") {
  if (none_to_try() || !have("python3")) return;
  const Elsewhere home({"slopes.py"});
  CHECK(home("python3 slopes.py \"$PREFIX/lib/libgradus.so.1\"") ==
        "slopes 0.731059 0.119203 0.982014\n"
        "tripled 2.193176 0.357609 2.946041\n"
        "matmul: inner sizes differ: a is (3,), b is (2,)\n"
        "softplus: has no attribute \"betta\"; did you mean \"beta\"?\n"
        "handles left 0\n");
}

TEST_CASE(
    "consumers: C++ programs by find_package and pkg-config see nothing of source and build") {
  if (gradus::test::small_sizes()) return;
  const Elsewhere home({"spiral.cpp"});
  const std::string source = fs::canonical(GRADUS_SOURCE_DIR).string();
  if (Elsewhere::hides())
    CHECK(home("ls '" + source + "' | wc -l") == "0\n");
  else
    MESSAGE(source, " can't be hidden here (unshare)");
  const std::string right = home(
      "g++ -std=c++20 -Wall -Wextra -Werror spiral.cpp $(pkg-config --cflags --libs gradus) "
      "-o spiral\nprogram=$PWD/spiral; cd /; \"$program\"");
  CHECK(std::stod(right) > 0.95);
  home.write_project("CXX", "spiral.cpp",
                     gradus::test::readme_block("cmake", "find_package(gradus REQUIRED)"));
  CHECK(home.by_cmake() == right);
}
