// `gradus lesson`: every lesson runs, prints what stands at its end, and shows the code that it
// runs.
#include "cli/teach/lesson.hpp"

#include "engine/base/error.hpp"
#include "tests/helpers/texts.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace gradus;
using gradus::cli::Lesson;
using gradus::cli::lessons;
using gradus::test::check_alike;
using gradus::test::ProgramRun;
using gradus::test::run;
using gradus::test::slurp;
using gradus::test::small_sizes;
using gradus::test::TempFolder;
using gradus::test::words;
using Json = nlohmann::json;

namespace {

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

std::string of_kind(const Json& lesson, const std::string& kind) {
  std::string out;
  for (const Json& line : lesson["lines"])
    if (line["kind"] == kind) out += line["text"].get<std::string>() + "\n";
  return out;
}

std::string without(std::string text, char c) {
  text.erase(std::remove(text.begin(), text.end(), c), text.end());
  return text;
}

}  // namespace

TEST_CASE("lesson: thirteen of them, each prints what stands at its end") {
  const TempFolder folder;
  const ProgramRun all = run(folder, "lesson --json --device cpu");
  CHECK(all.code == 0);
  CHECK(all.err == "");
  const std::vector<Json> got = json_lines(all.out);
  REQUIRE(got.size() == 13);
  REQUIRE(lessons().size() == 13);
  for (size_t n = 0; n < got.size(); ++n) {
    const Lesson& lesson = lessons()[n];
    CAPTURE(lesson.name);
    CHECK(got[n]["number"] == n + 1);
    CHECK(got[n]["name"] == lesson.name);
    CHECK(got[n]["title"] == lesson.title);
    const std::string& source = lesson.source;
    CHECK(std::count(source.begin(), source.end(), '\n') < 80);
    const std::string mark = "\n--[==[ prints\n";
    const size_t end = source.find(mark);
    REQUIRE(end != std::string::npos);
    const std::string wanted =
        source.substr(end + mark.size(), source.rfind("]==]") - end - mark.size());
    CHECK(words(wanted).size() > 5);
    check_alike(of_kind(got[n], "output"), wanted);
    // Its last words are an exercise; the next lesson is named.
    const Json& lines = got[n]["lines"];
    size_t last = lines.size();
    while (last > 0 && lines[last - 1]["kind"] != "code" && lines[last - 1]["kind"] != "output")
      --last;
    REQUIRE(last < lines.size());
    CHECK(lines[last]["text"].get<std::string>().starts_with("Exercise: "));
    CHECK(got[n]["next"] == (n + 1 < lessons().size() ? lessons()[n + 1].name : ""));
    // Text and code together are the script, and nothing is shown twice.
    std::string shown =
        "-- " + lesson.title + "\n" + of_kind(got[n], "text") + of_kind(got[n], "code");
    std::string script = source.substr(0, end + 1);
    std::vector<std::string> a = words(without(shown, '-')), b = words(without(script, '-'));
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    CHECK(a == b);
  }
  // Text, then code, then what it prints.
  std::string kinds;
  for (const Json& line : got[0]["lines"]) kinds += line["kind"].get<std::string>()[0];
  CHECK(kinds.starts_with("ttt"));
  CHECK(kinds.find("co") != std::string::npos);
  CHECK(kinds.find("ot") != std::string::npos);
  CHECK(kinds.find("tco") == std::string::npos);
}

TEST_CASE("lesson: the numbers of micrograd's front page are computed, not written down") {
  const std::string& source = lessons()[1].source;
  const std::string code = source.substr(0, source.find("--[==[ prints"));
  for (const char* number : {"24.7041", "138.8338", "645.5773"}) {
    CHECK(code.find(number) == std::string::npos);
    CHECK(source.find(number) != std::string::npos);
  }
}

TEST_CASE("lesson: one of them, for people; its source is a script of its own") {
  const TempFolder folder;
  const ProgramRun one = run(folder, "lesson 3 --device cpu");
  CHECK(one.code == 0);
  CHECK(one.out.starts_with("3. Broadcasting, and the sum that undoes it\n\nA row of three"));
  CHECK(one.out.find("\n    print(y:detach())\n\n  > [[1.1, 2.2, 3.3],\n  >  [4.1, 5.2, 6.3]]\n") !=
        std::string::npos);
  CHECK(one.out.ends_with(
      "axis, with size 1.\n\nTo change it:  gradus lesson broadcasting --source "
      ">broadcasting.lua, then gradus script broadcasting.lua\nNext:          gradus lesson "
      "the_walk, The graph is data, and one walk goes through it\n"));
  CHECK(run(folder, "lesson 13 --device cpu").out.find("gradus repl is a prompt") !=
        std::string::npos);
  CHECK(one.out.find('\1') == std::string::npos);
  CHECK(one.out.find("--[") == std::string::npos);
  CHECK(one.out.find('\033') == std::string::npos);
  for (const char* name :
       {"broadcasting", "03", "03_broadcasting", "03_broadcasting.lua", "broad", "BROADCASTING",
        "\"Broadcasting, and the sum that undoes it\"", "\"broadcasting, and\""}) {
    CAPTURE(name);
    CHECK(run(folder, join("lesson ", name, " --device cpu")).out == one.out);
  }
  const ProgramRun vague = run(folder, "lesson the");
  CHECK(vague.code == 2);
  CHECK(vague.err.find(
            "\"the\" may be chain_rule, the_walk, contractions, the_order_matters, eigenvalues;") !=
        std::string::npos);

  const ProgramRun source = run(folder, "lesson 3 --source");
  folder.write("mine.lua", source.out);
  std::string printed;
  std::istringstream lines(one.out);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  > ")) printed += line.substr(4) + "\n";
  CHECK(run(folder, "script mine.lua --device cpu").out == printed);

  const ProgramRun list = run(folder, "lesson --list");
  CHECK(std::count(list.out.begin(), list.out.end(), '\n') == 13);
  CHECK(list.out.starts_with(" 1  chain_rule    The chain rule\n"));
  CHECK(json_lines(run(folder, "lesson --list --json").out).size() == 13);
  for (const char* wrong : {"lesson 0", "lesson 14", "lesson 3x", "lesson nothing"}) {
    const ProgramRun r = run(folder, wrong);
    CHECK(r.code == 2);
    CHECK(r.err.find("they are 1 to 13") != std::string::npos);
  }
  for (const char* alone : {"lesson --source", "lesson --html a.html"}) {
    const ProgramRun r = run(folder, alone);
    CHECK(r.code == 2);
    CHECK(r.err.find("needs the N of a lesson") != std::string::npos);
  }
  for (size_t n = 1; n <= lessons().size(); n += small_sizes() ? 4 : 1) {
    CAPTURE(n);
    const std::string command = join("lesson ", n, " --device cpu --html page.html");
    const ProgramRun paged = run(folder, command);
    CHECK(paged.code == 0);
    CHECK(paged.err == "");
    const std::string page = slurp(folder / "page.html");
    CHECK(page.starts_with("<!doctype html>"));
    CHECK(page.find(lessons()[n - 1].name + ".lua:") != std::string::npos);
    std::filesystem::remove(folder / "page.html");
  }
}
