// bindings/lua/manual.md: every block of Lua runs, and prints what stands behind its arrows.
#include "tests/helpers/texts.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace gradus;
using gradus::test::ProgramRun;
using gradus::test::slurp;
using gradus::test::TempFolder;

TEST_CASE("lua: every block of bindings/lua/manual.md runs and prints what it says") {
  std::istringstream page(slurp(GRADUS_SOURCE_DIR "/bindings/lua/manual.md"));
  int blocks = 0, arrows = 0;
  std::string code, wanted;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (!inside) {
      inside = line == "```lua";
      continue;
    }
    if (line != "```") {
      code += line + "\n";
      if (const size_t arrow = line.find("--> "); arrow != std::string::npos) {
        wanted += line.substr(arrow + 4) + "\n";
        ++arrows;
      }
      continue;
    }
    const TempFolder folder;
    folder.write("block.lua", code);
    const ProgramRun r = gradus::test::run(folder, "script block.lua --device cpu");
    CAPTURE(code);
    CHECK(r.err == "");
    CHECK(r.code == 0);
    gradus::test::check_alike(r.out, wanted);
    ++blocks;
    inside = false;
    code.clear();
    wanted.clear();
  }
  CHECK(blocks >= 4);
  CHECK(arrows >= 9);
}
