// The pages about errors and devices say what the program says; links of all pages lead somewhere.
// Like the pages' commands, scripts (.lua) among them, errors are provoked in a shell.
#include "tests/pages/pages.hpp"
#include "tests/pages/pages_workplace.hpp"

#include "gradus_paths.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

using namespace gradus;
using gradus::test::slurp;
using gradus::test::workplace;
using Json = nlohmann::json;

namespace {

// A line that the program printed, against one of a page, where "..." stands for anything.
bool is_like(const std::string& printed, const std::string& shown) {
  static const std::regex special(R"([.^$|()\[\]{}*+?\\])"), dots(R"((\\\.){3,4})");
  const std::string escaped = std::regex_replace(shown, special, R"(\$&)");
  return std::regex_match(printed, std::regex(std::regex_replace(escaped, dots, ".*")));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// "$ command  # exit 2" and what it prints.
struct Shown {
  std::string command;
  int code;
  std::vector<std::string> lines;
};

std::vector<Shown> session_of(const test::PageBlock& block) {
  std::vector<Shown> out;
  std::smatch m;
  for (const std::string& line : lines_of(block.text))
    if (std::regex_match(line, m, std::regex("\\$ (.*)  # exit ([0-9]+)")))
      out.push_back({m[1], std::stoi(m[2]), {}});
    else if (!out.empty())
      out.back().lines.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("pages: every error of the troubleshooting page is printed as it stands there") {
  CHECK(is_like("a (b) [c] d", "a (b) [...] d"));
  CHECK_FALSE(is_like("a xb", "a .b"));
  const bool gpu = workplace().has("cuda");
  int errors = 0;
  for (const test::PageBlock& block : test::blocks_of("configs/troubleshooting.md")) {
    if (block.language != "console" || (gpu && block.text.find("cuda:0") != std::string::npos))
      continue;
    workplace().refresh();
    for (const Shown& shown : session_of(block)) {
      const test::ProgramRun r = workplace().again("{ " + shown.command + "\n} 2>&1");
      CHECK_MESSAGE(r.code == shown.code, block.place, ": ", shown.command, ": exit code ", r.code);
      const std::vector<std::string> printed = lines_of(r.out);
      CHECK_MESSAGE(printed.size() == shown.lines.size(), block.place, ": ", shown.command, ": ",
                    r.out);
      for (size_t i = 0; i < std::min(printed.size(), shown.lines.size()); ++i)
        CHECK_MESSAGE(is_like(printed[i], shown.lines[i]), block.place, ": ", shown.command,
                      "\nprints   ", printed[i], "\nthe page ", shown.lines[i]);
      ++errors;
    }
  }
  CHECK(errors > 45);
}

TEST_CASE("pages: the keys of a device config are those of its schema, in its words") {
  const Json schema = Json::parse(workplace()("gradus config schema device").out);
  std::set<std::string> rows, shown;
  const std::function<void(const Json&, const std::string&)> walk = [&](const Json& object,
                                                                        const std::string& path) {
    if (!object.contains("properties")) return;
    for (const auto& item : object["properties"].items()) {
      if (item.key() == "$schema") continue;
      const std::string key = path + item.key();
      rows.insert("`" + key + "`: " + item.value()["description"].get<std::string>());
      walk(item.value(), key + ".");
    }
  };
  walk(schema, "");
  CHECK(rows.size() >= 15);
  bool keys = false;
  std::smatch m;
  for (const std::string& line :
       lines_of(slurp(std::string(GRADUS_SOURCE_DIR) + "/configs/devices.md"))) {
    if (line.starts_with("## ")) keys = line == "## Keys";
    if (keys && std::regex_match(line, m, std::regex(R"(\| (`[^`]+`) \| .* \| (.*) \|)")))
      shown.insert(m[1].str() + ": " + m[2].str());
  }
  CHECK(shown == rows);
}

TEST_CASE("pages: what they link to is there") {
  const std::regex link(R"([^\[]\]\(([^)#:]+)(#[^)]*)?\))");  // "[](" is a lambda
  for (const std::string& page : test::pages()) {
    const std::string text = slurp(std::string(GRADUS_SOURCE_DIR) + "/" + page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it)
      CHECK_MESSAGE(
          std::filesystem::exists(std::filesystem::path(GRADUS_SOURCE_DIR) /
                                  std::filesystem::path(page).parent_path() / (*it)[1].str()),
          page, " links to ", (*it)[1].str());
  }
}
