#include "tests/pages/pages.hpp"

#include "gradus_paths.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace gradus::inline v1::test {

namespace {

namespace fs = std::filesystem;

// A shell's command, and no output or formula.
bool is_command(const std::string& text) {
  static const std::regex first(
      R"((gradus|\./dev|build/release/gradus|python3|printf|g\+\+|benches/gpu/run)( .*)?)");
  return std::regex_match(text, first);
}

std::string without_margin(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

// Up to two spaces in a row outside of quotes: behind them stands what it is for.
std::string without_remark(const std::string& line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quote ? line[i] == quote : line[i] == '"' || line[i] == '\'') quote = quote ? 0 : line[i];
    if (!quote && line.compare(i, 2, "  ") == 0) return line.substr(0, i);
  }
  return line;
}

// Calls f(number, line, fence), where `fence` is nullptr outside of a block and else its language.
template <class F>
void each_line(const std::string& page, F&& f) {
  std::ifstream in(std::string(GRADUS_SOURCE_DIR) + "/" + page);
  std::string fence;
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string text = without_margin(line);
    if (text.rfind("```", 0) == 0) {
      inside = !inside;
      fence = text.substr(3);
      f(number, line, inside ? &fence : nullptr, true);
    } else {
      f(number, line, inside ? &fence : nullptr, false);
    }
  }
}

}  // namespace

std::vector<std::string> pages() {
  std::vector<std::string> out;
  const fs::path root = fs::canonical(GRADUS_SOURCE_DIR);
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name == "build" || name[0] == '.')) it.disable_recursion_pending();
    if (it->path().extension() == ".md") out.push_back(fs::relative(it->path(), root).string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<PageCommand> commands_of(const std::string& page) {
  std::vector<PageCommand> out;
  const std::regex code("`([^`]+)`");
  each_line(page, [&](int number, const std::string& line, const std::string* fence, bool mark) {
    const std::string place = page + ":" + std::to_string(number);
    if (mark) return;
    if (fence) {
      const std::string text = without_remark(without_margin(line));
      if ((fence->empty() || *fence == "sh") && is_command(text)) out.push_back({place, text});
      return;
    }
    for (std::sregex_iterator it(line.begin(), line.end(), code), end; it != end; ++it)
      if (const std::string text = (*it)[1];
          text.find(' ') != std::string::npos && is_command(text))
        out.push_back({place, text, true});
  });
  return out;
}

std::vector<PageBlock> blocks_of(const std::string& page) {
  std::vector<PageBlock> out;
  each_line(page, [&](int number, const std::string& line, const std::string* fence, bool mark) {
    if (!fence) return;
    if (mark)
      out.push_back({page + ":" + std::to_string(number), *fence, ""});
    else
      out.back().text += line + "\n";
  });
  return out;
}

std::vector<PageCommand> examples_of(const std::string& help, const std::string& place) {
  std::vector<PageCommand> out;
  std::istringstream in(help);
  bool examples = false;
  for (std::string line; std::getline(in, line);) {
    if (examples && is_command(without_margin(line))) out.push_back({place, without_margin(line)});
    examples |= line.rfind("Examples:", 0) == 0;
  }
  return out;
}

std::vector<std::string> choices_of(const std::string& command) {
  static const std::regex optional(R"( \[((?:-|[A-Z])[^\]]*)\](?:\.\.\.)?)");
  static const std::regex choice(R"((^| )([\w.]+)\|([\w.|]+)(?= |$))");
  std::smatch m;
  std::vector<std::string> out;
  const auto add = [&](const std::string& text) {
    for (const std::string& one : choices_of(text))
      if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
  };
  if (std::regex_search(command, m, optional)) {
    const bool list = m[1].str().find("...") != std::string::npos;
    add(m.prefix().str() + m.suffix().str());
    if (!list) add(m.prefix().str() + " " + m[1].str() + m.suffix().str());
    return out;
  }
  if (std::regex_search(command, m, choice)) {
    for (const std::string& one : {m[2].str(), m[3].str()})
      add(m.prefix().str() + m[1].str() + one + m.suffix().str());
    return out;
  }
  return {command};
}

}  // namespace gradus::test
