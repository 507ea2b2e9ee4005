// Every command that a page or a help text shows is run as it stands, by a shell, in a folder that
// holds what the pages speak of; it ends as the page says. What is shown as code compiles, runs and
// is valid.
#include "tests/pages/pages.hpp"
#include "tests/pages/pages_workplace.hpp"

#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

using namespace gradus;
using gradus::test::kPagesMlp;
using gradus::test::kSmaller;
using gradus::test::PageCommand;
using gradus::test::workplace;

namespace {

constexpr int kNoGpu = -4;  // 4 where the device of that kind is missing, else 0

// A command that is run in another form than the page has it, or not at all. `$1` are parts.
struct Exception {
  const char* pattern;
  const char* instead;  // "" if it is not run
  int code;
  const char* why;
};
const Exception kExceptions[] = {
    {R"((\./dev|build/release/gradus) ?(demo|test|bench|lint|races|neon64|carry|cpus|hipcc|build|package|python|)"
     "consumers).*",
     "\"$SOURCE\"/dev 2>&1 | grep -q '\\./dev $2 '", 0,
     "builds, for minutes; that the script has it is looked at"},
    {R"(python3 ((?:tests/peers|benches)/\w+\.py).*)", "test -f \"$SOURCE\"/$1", 0,
     "needs a peer's package"},
    {R"((LIBTORCH=\S+ )?gradus (audit|check) .*torch:0)", "true", 0,
     "needs libtorch; test_torch_device.cpp runs it where there is one"},
    {R"(benches/gpu/run.*)", "test -x \"$SOURCE\"/benches/gpu/run", 0,
     "for machines with a GPU; test_bench_gpu.cpp goes through its steps"},
    {R"(cmake --preset release .*|PKG_CONFIG_PATH=.*|g\+\+ .* -o example)", "true", 0,
     "test_install.cpp installs, and builds the example by the page's own line"},
    {R"(g\+\+ .*)", "test -f example.so", 0, "the build has compiled the same file"},
    {R"(gradus check)", "gradus check --op sigmoid", 0, "test_op_table.cpp checks all ops"},
    {R"(gradus check --json)", "gradus check --op sigmoid --json", 0, "as above"},
    {R"(gradus check --exact)", "gradus check --exact --op sigmoid", 0, "as above"},
    {R"(gradus check --device (cuda|hip).*)", "gradus check --device $1 --op sigmoid", kNoGpu,
     "needs a GPU"},
    {R"(gradus check --device <kind>)", "gradus check --device reference --op sigmoid", 0, ""},
    {R"(gradus check --record)", "gradus check --record ops.safetensors --op exp", 0, "a mention"},
    {R"(gradus check --record (\S+) --cases .*)", "gradus check --record $1 --op exp --cases 2", 0,
     "all ops take long"},
    {R"(gradus tune (.*) --device cuda.*)", "gradus tune $1 --device cuda", kNoGpu, "needs a GPU"},
    {R"(gradus audit CONFIG --against cuda:0)", "gradus audit mlp.json --against cuda:0", kNoGpu,
     "needs a GPU"},
    {R"(gradus audit --ledger --cost --html)", "gradus audit mlp.json --ledger --cost --html F", 0,
     "a mention"},
    {R"(gradus --load LIB.so ops NAME)", "gradus --load ./example.so ops cube", 0, ""},
    {R"(gradus verify FILE)", "gradus verify model.safetensors", 0, ""},
    {R"(gradus diff .* --dtype-b f64)", "$&", 5, "the steps differ: that is what it is asked for"},
    {R"(gradus diff A B)", "gradus diff before.json after.json", 0, ""},
    {R"(gradus replay FILE)", "gradus replay step.safetensors", 0, ""},
    {R"(gradus replay step.safetensors --shrink (.*))", "gradus replay nan.safetensors --shrink $1",
     0, "this step has a NaN to keep"},
    {R"(gradus train flowers.json --out (\S+))", "rm -rf $1; gradus train flowers.json --out $1", 0,
     "it is small"},
    {R"(gradus train (.*--resume.*))", "gradus train $1 SMALL", 0, "a smaller run"},
    {R"(gradus train (.*--out (\S+).*))", "rm -rf $2; gradus train $1 SMALL", 0, "a smaller run"},
    {R"(gradus train CONFIG --device (cuda:1|gpu.json|'.*))",
     "gradus train CONFIG --device $1 SMALL", 0,
     "a smaller run; without the GPU it goes on with the CPU"},
    {R"(gradus train (.*))", "gradus train $1 SMALL", 0, "a smaller run"},
};

// What words of pages stand for.
const std::pair<const char*, const char*> kWords[] = {
    {R"(\bCONFIG\b)", "mlp.json"},     {R"(\bSCRIPT\b)", "train.lua"},
    {R"(\bRUN_DIR\b)", "runs/a"},      {R"(\bFILE\.lua\b)", "train.lua"},
    {R"(\bFILE\b)", "mlp.json"},       {R"(\bDIR\b)", "../mnist"},
    {R"(\bNAME\b)", "sigmoid"},        {R"(\bDEVICE\b)", "reference"},
    {R"(\bINPUT\.\.\.)", "seven.png"}, {R"(--html F\b)", "--html f.html"},
    {R"(\bSMALL\b)", kSmaller},
};

std::string with_words(std::string command) {
  for (const auto& [word, value] : kWords)
    command = std::regex_replace(command, std::regex(word), value);
  return command;
}

// What is run for a command of a page, and how it has to end.
std::pair<std::string, int> as_run(const std::string& command) {
  std::smatch m;
  for (const Exception& e : kExceptions)
    if (std::regex_match(command, m, std::regex(e.pattern)))
      return {with_words(m.format(std::string(e.instead))), e.code};
  return {with_words(command), 0};
}

void runs_as_shown(const PageCommand& shown, std::set<std::string>& seen) {
  for (std::string command : test::choices_of(shown.text)) {
    if (command.starts_with("build/release/")) command.erase(0, strlen("build/release/"));
    // `gradus graph` in prose names a command.
    static const std::regex name(R"(gradus (?:\w+|config \w+))");
    if (shown.in_prose && std::regex_match(command, name) && command != "gradus devices")
      command += " --help";
    if (!seen.insert(command).second) continue;
    // Sanitizers look at some of them.
    if (test::small_sizes() && seen.size() % 4 != 0) continue;
    const std::pair<std::string, int> form = as_run(command);
    const std::string& run = form.first;
    const int code = form.second;
    const test::ProgramRun r = workplace()(run);
    const bool gpu =
        code == kNoGpu && workplace().has(run.find("cuda") != std::string::npos ? "cuda" : "hip");
    const int wanted = code != kNoGpu ? code : gpu ? 0 : 4;
    CHECK_MESSAGE(r.code == wanted, shown.place, ": ", command, ", run as ", run, ": exit code ",
                  r.code, ": ", r.err.substr(0, 500));
  }
}

std::vector<std::string> commands_in_help(const std::string& help) {
  std::vector<std::string> out;
  std::istringstream in(help.substr(std::min(help.find("Subcommands:"), help.size())));
  std::smatch m;
  for (std::string line; std::getline(in, line) && !(line.empty() && !out.empty());)
    if (std::regex_match(line, m, std::regex("  (\\w+) .*"))) out.push_back(m[1]);
  return out;
}

void help_runs_as_shown(const std::string& command, std::set<std::string>& seen, int& examples) {
  const std::string help = workplace()(command + " --help").out;
  for (const PageCommand& shown : test::examples_of(help, command + " --help")) {
    runs_as_shown(shown, seen);
    ++examples;
  }
  for (const std::string& sub : commands_in_help(help))
    help_runs_as_shown(command + " " + sub, seen, examples);
}

// Words alone: numbers depend on the machine.
std::string without_numbers(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(-?(inf\b|[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?[kM]?))"),
                            "#");
}

}  // namespace

TEST_CASE("pages: commands are found as they stand") {
  using List = std::vector<std::string>;
  CHECK(test::choices_of("a x|y z") == List{"a x z", "a y z"});
  CHECK(test::choices_of("a | b") == List{"a | b"});
  CHECK(test::choices_of("a F [--b C] [--c]") ==
        List{"a F", "a F --c", "a F --b C", "a F --b C --c"});
  CHECK(test::choices_of("a --in \"[1,2]\" [ARGS...]") == List{"a --in \"[1,2]\""});
  const std::vector<PageCommand> front = test::commands_of("README.md");
  CHECK(front.size() > 40);
  CHECK(std::any_of(front.begin(), front.end(), [](const PageCommand& c) {
    return c.text == "gradus op matmul --in a.npy b.npy --in-dims 0,none --jacobian";
  }));
  const std::vector<std::string> all = test::pages();
  for (const char* page : {"README.md", "cli/README.md", "kernels/gpu/README.md"})
    CHECK(std::count(all.begin(), all.end(), page) == 1);
}

TEST_CASE("pages: every command of every page runs in a shell") {
  std::set<std::string> seen;
  for (const std::string& page : test::pages())
    for (const PageCommand& shown : test::commands_of(page)) runs_as_shown(shown, seen);
  CHECK(seen.size() > 60);
}

TEST_CASE("pages: every example of every help text runs in a shell") {
  std::set<std::string> seen;
  int examples = 0;
  help_runs_as_shown("gradus", seen, examples);
  CHECK(examples > 50);
}

TEST_CASE("pages: what the tour proposes runs") {
  const test::ProgramRun tour = workplace()("gradus demo");
  CHECK(tour.code == 0);
  const size_t end = tour.out.find("Go on with");
  REQUIRE(end != std::string::npos);
  std::set<std::string> seen;
  for (const PageCommand& c :
       test::examples_of("Examples:\n" + tour.out.substr(end), "gradus demo"))
    runs_as_shown({c.place, std::regex_replace(c.text, std::regex("  .*"), "")}, seen);
  CHECK(seen.size() == 5);

  // The lines of it that the front page shows.
  const std::string printed = without_numbers(tour.out);
  int lines = 0;
  for (const test::PageBlock& block : test::blocks_of("README.md")) {
    if (block.text.find("samples/s") == std::string::npos) continue;
    std::istringstream in(block.text);
    for (std::string line; std::getline(in, line);) {
      if (line == "..." || line.empty()) continue;
      test::check_has(printed, without_numbers(line.substr(line.find_first_not_of(' '))));
      ++lines;
    }
  }
  CHECK(lines >= 8);
}

TEST_CASE("pages: a loss that becomes NaN is told as the front page shows it") {
  const test::ProgramRun r = workplace()("rm -rf run; gradus train nan.json --out run");
  CHECK(r.code == 5);
  const std::string said = without_numbers(r.err);
  int lines = 0;
  for (const test::PageBlock& block : test::blocks_of("README.md")) {
    std::istringstream in(block.text);
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("gradus: ")) {
        test::check_has(said, without_numbers(line));
        ++lines;
      }
  }
  CHECK(lines == 2);
}

TEST_CASE("pages: blocks of JSON are valid configs, or parts of one") {
  int blocks = 0;
  for (const std::string& page : test::pages())
    for (const test::PageBlock& block : test::blocks_of(page)) {
      if (block.language != "json") continue;
      const bool whole = block.text.find("\n{") != std::string::npos || block.text[0] == '{';
      // A part stands for itself in a network's config.
      std::string config = whole ? block.text : kPagesMlp;
      if (!whole) config.insert(1, block.text + ",");
      const std::string file = "block.json";
      const test::ProgramRun r = workplace()("cat >" + file + " <<'END'\n" + config +
                                             "\nEND\ngradus config validate " + file);
      CHECK_MESSAGE(r.code == 0, block.place, ": ", r.err);
      ++blocks;
    }
  CHECK(blocks >= 3);
}

TEST_CASE("pages: blocks of Lua run as scripts") {
  int blocks = 0;
  for (const std::string& page : test::pages())
    for (const test::PageBlock& block : test::blocks_of(page)) {
      if (block.language != "lua") continue;
      const test::ProgramRun r =
          workplace()("cat >block.lua <<'END'\n" + block.text + "END\ngradus script block.lua");
      CHECK_MESSAGE(r.code == 0, block.place, ": ", r.err);
      ++blocks;
    }
  CHECK(blocks >= 1);
}

TEST_CASE("pages: the C++ program of the front page prints what stands in its comments") {
  const test::ProgramRun r = workplace()(GRADUS_README_EXAMPLE);
  CHECK(r.code == 0);
  std::string wanted;
  const std::regex comment("std::puts.*// (.*)\n");
  for (const test::PageBlock& block : test::blocks_of("README.md"))
    for (std::sregex_iterator it(block.text.begin(), block.text.end(), comment), end;
         block.language == "cpp" && it != end; ++it)
      wanted += (*it)[1].str() + "\n";
  CHECK(!wanted.empty());
  CHECK(r.out == wanted);
}
