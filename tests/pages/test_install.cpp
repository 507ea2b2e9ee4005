// The installed library as others use it: a staged installation that was moved, nothing of the
// source or build folders in reach, and the lines that README.md prints.
#include "tests/helpers/installation.hpp"
#include "tests/helpers/sizes.hpp"
#include "bindings/cpp/start.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

namespace fs = std::filesystem;
using gradus::test::installed;
using gradus::test::line_with;
using gradus::test::promised;
using gradus::test::readme_block;
using gradus::test::shell;
using gradus::test::TempFolder;

namespace {

std::string c_door() { return installed() + "/lib/libgradus.so.1"; }

// A program and nothing beside it: no shell whose start would be measured too.
bool ends_well(std::string program, std::string argument) {
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, arguments[0], &quiet, nullptr, arguments, environ) == 0)
    waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&quiet);
  return status == 0;
}

}  // namespace

TEST_CASE("install: README's example builds and runs by README's own lines, from a moved prefix") {
  if (gradus::test::small_sizes()) return;  // sanitized objects want their own flags
  const TempFolder app;
  const std::string program = readme_block("cpp", "#include <gradus.hpp>");
  app.write("example.cpp", program);
  const std::string line = line_with(readme_block("", "pkg-config"), "g++");
  const std::string path = "export PKG_CONFIG_PATH=" + installed() + "/lib/pkgconfig; ";
  CHECK(shell(app.path(), path + line + " && ./example") == promised(program));

  app.write("CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.25)\nproject(example CXX)\n"
            "add_executable(example example.cpp)\n" +
                readme_block("cmake", "find_package(gradus"));
  shell(app.path(),
        "cmake -S . -B built -DCMAKE_PREFIX_PATH=" + installed() + " && cmake --build built");
  CHECK(shell(app.path(), "built/example") == promised(program));
}

TEST_CASE("install: a program with a loop and an op of its own") {
  if (gradus::test::small_sizes()) return;
  const TempFolder app;
  shell(app.path(),
        "export PKG_CONFIG_PATH=" + installed() + "/lib/pkgconfig; " +
            "g++ -std=c++20 -Wall -Wextra -Werror '" GRADUS_SOURCE_DIR
            "/tests/fixtures/programs/spiral.cpp' $(pkg-config --cflags --libs gradus) -o spiral "
            "&& ./spiral");
}

TEST_CASE("install: libgradus.so shows what symbols.txt lists, and nothing else") {
  if (gradus::test::small_sizes()) return;
  const auto lines = [](const std::string& text) {
    std::istringstream in(text);
    return std::set<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const TempFolder app;
  const auto shown = lines(shell(app.path(), "nm -D --defined-only " + c_door() +
                                                 " | sed -n 's/^.* [^A] \\([^@]*\\).*/\\1/p'"));
  const auto listed = lines(gradus::test::slurp(GRADUS_SOURCE_DIR "/bindings/package/symbols.txt"));
  CHECK(listed.count("gradus_version") == 1);
  for (const std::string& name : listed)
    CHECK_MESSAGE(
        shown.count(name) == 1, name,
        " is gone, so programs linked with libgradus.so.1 no longer start: bring it back, "
        "or count up SOVERSION");
  for (const std::string& name : shown)
    CHECK_MESSAGE(
        listed.count(name) == 1, name,
        " is new, and stays once released: bindings/package/README.md says how to list it");
  CHECK(shell(app.path(), "readelf -d " + c_door()).find("soname: [libgradus.so.1]") !=
        std::string::npos);
}

TEST_CASE(
    "install: stripped, the program is at most 16 MB, the C library 12 MB; it starts in 10 ms") {
  if (gradus::test::small_sizes()) return;
  if (gradus::test::slurp(GRADUS_BUILD_DIR "/CMakeCache.txt")
          .find("CMAKE_BUILD_TYPE:STRING=Release\n") == std::string::npos)
    return;  // other builds have other sizes
  const TempFolder there;
  const auto stripped = [&](const std::string& file) {
    shell(there.path(), "strip -o stripped '" + file + "'");
    return fs::file_size(there / "stripped");
  };
  CHECK(stripped(installed() + "/bin/gradus") <= 16'000'000);
  CHECK(stripped(c_door()) <= 12'000'000);
  double least = 1;
  const std::string program = installed() + "/bin/gradus";
  for (int i = 0; i < 50; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(ends_well(program, "--version"));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count());
  }
  CHECK(least < 0.010);
}

TEST_CASE(
    "install: the headers are those that gradus.hpp needs; the program finds its modules and knows "
    "its version") {
  if (gradus::test::small_sizes()) return;
  const std::string include = installed() + "/include/gradus/";
  const TempFolder app;
  app.write("all.cpp", "#include <gradus/gradus.hpp>\n");
  const std::string needed =
      shell(app.path(), "g++ -std=c++20 -MM -I '" + installed() + "/include' -I '" + include +
                            "' all.cpp | tr ' ' '\\n' | grep '" + include + "'");
  std::set<std::string> there;
  for (const auto& entry : fs::recursive_directory_iterator(include))
    if (entry.path().extension() == ".hpp") there.insert(entry.path());
  CHECK(there.size() > 50);
  for (const std::string& header : there) {
    CHECK_MESSAGE(needed.find(header) != std::string::npos, header);
    const std::string text = gradus::test::slurp(header);
    CHECK_MESSAGE(text.find("License-Identifier: MIT") < 100, header);
  }

  CHECK(shell(app.path(), installed() + "/bin/gradus --version") == "gradus " GRADUS_VERSION "\n");
  const std::string devices = shell(app.path(), installed() + "/bin/gradus devices");
  CHECK(devices.find(installed() + "/lib/gradus/gradus_emu.so") != std::string::npos);
  CHECK(shell(app.path(), "cat " + installed() + "/share/gradus/experiment.schema.json")
            .find("\"optimizer\"") != std::string::npos);
  for (const char* made :
       {"man/man1/gradus.1", "man/man1/gradus-config-show.1", "bash-completion/completions/gradus",
        "zsh/site-functions/_gradus", "fish/vendor_completions.d/gradus.fish"})
    CHECK_MESSAGE(fs::file_size(installed() + "/share/" + made) > 100, made);
}
