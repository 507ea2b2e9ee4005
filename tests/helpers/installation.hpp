// A staged installation of what was built: made in one place and moved to another, once for all
// tests that ask for it. Commands of people who have no more than that.
#pragma once
#include "tests/helpers/program_helpers.hpp"
#include "tests/pages/pages.hpp"

#include <doctest/doctest.h>

namespace gradus::inline v1::test {

// Runs a command in a folder; its output, or a failed check with what it said.
inline std::string shell(const std::string& folder, const std::string& command) {
  const std::string said = folder + "/.said";
  const int status =
      std::system(("cd '" + folder + "' && (" + command + ") >'" + said + "' 2>&1").c_str());
  const std::string text = slurp(said);
  CHECK_MESSAGE(status == 0, command, "\n", text);
  return text;
}

// The prefix of the installation.
inline const std::string& installed() {
  struct Installation {
    Installation() {
      shell(folder.path(),
            "cmake --install '" GRADUS_BUILD_DIR "' --prefix first && mv first moved");
    }
    TempFolder folder;
    const std::string prefix = folder / "moved";
  };
  static const Installation here;
  return here.prefix;
}

// The block of README.md in this language that contains `text`, and its line that does.
inline std::string readme_block(const std::string& language, const std::string& text) {
  for (const PageBlock& block : blocks_of("README.md"))
    if (block.language == language && block.text.find(text) != std::string::npos) return block.text;
  FAIL("README.md has no block of ", language, " with ", text);
  return "";
}
inline std::string line_with(const std::string& block, const std::string& text) {
  const size_t at = block.find(text), begin = block.rfind('\n', at) + 1;
  return block.substr(begin, block.find('\n', at) - begin);
}

// What the comments behind puts() say that a program prints.
inline std::string promised(const std::string& program) {
  std::string lines;
  for (size_t at = 0; (at = program.find("puts(", at)) != std::string::npos; ++at) {
    const size_t comment = program.find("// ", at) + 3, end = program.find('\n', comment);
    lines += program.substr(comment, end - comment) + "\n";
  }
  return lines;
}

}  // namespace gradus::test
