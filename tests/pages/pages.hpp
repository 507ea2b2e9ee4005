// What pages show to be typed: commands and blocks of code of Markdown files, examples of `--help`.
#pragma once
#include <string>
#include <vector>

namespace gradus::inline v1::test {

struct PageCommand {
  std::string place;  // "README.md:12", "gradus train --help"
  std::string text;
  bool in_prose = false;  // between backquotes, where a name alone is a mention
};

struct PageBlock {
  std::string place, language, text;
};

// Paths of all Markdown files below the source folder, relative to it.
std::vector<std::string> pages();
std::vector<PageCommand> commands_of(const std::string& page);
std::vector<PageBlock> blocks_of(const std::string& page);
// Of a help text, behind "Examples:".
std::vector<PageCommand> examples_of(const std::string& help, const std::string& place);

// The commands that one line stands for: `a|b` within a word is a choice, `[-x Y]` may be left out.
std::vector<std::string> choices_of(const std::string& command);

}  // namespace gradus::test
