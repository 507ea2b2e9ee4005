// What people see: lines folded to the width of a terminal, colours, Ctrl-C, and what a pipe gets.
#include "cli/frame/terminal.hpp"

#include "cli/frame/interrupt.hpp"
#include "cli/frame/progress.hpp"
#include "cli/train/trouble.hpp"
#include "tests/helpers/pseudo_terminal.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/texts.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

using gradus::cli::columns_of;
using gradus::cli::folded;
using gradus::test::check_has;
using gradus::test::run_on_screen;
using gradus::test::ScreenRun;
using gradus::test::TempFolder;

namespace {

const char* const kSmallRun =
    R"({"experiment": "mlp", "seed": 1, "data": {"name": "digits", "train": 640, "test": 200},
    "model": {"layers": [{"linear": 16}, "relu", {"linear": 10}]}, "loss": "cross_entropy",
    "optimizer": {"name": "adam", "lr": 2e-3}, "epochs": 2, "batch_size": 64})";

bool is_one_word(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin != std::string::npos && line.find(' ', begin) == std::string::npos;
}

// Words alone, without what folding adds.
std::string words_in(const std::string& text) {
  std::string whole = text;
  for (size_t at = 0; (at = whole.find("\\\n", at)) != std::string::npos;) whole.erase(at, 2);
  std::istringstream in(whole);
  std::string out;
  for (std::string word; in >> word;) out += word + " ";
  return out;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("terminal: a line is folded between its cells, then between words") {
  CHECK(folded("short enough", 12) == "short enough");
  CHECK(folded("one two three four", 10) == "one two\n  three\n  four");
  CHECK(folded("  name      many words of it", 24) == "  name      many words\n            of it");
  CHECK(folded("ok    %3   7.0e-08 of 2.6e-06  f32(64, 10)  # loss", 40) ==
        "ok    %3   7.0e-08 of 2.6e-06\n      f32(64, 10)  # loss");
  // A shell reads the same command, cut within a word too.
  CHECK(folded("  gradus op exp --in x.npy --out y.npy", 24) ==
        "  gradus op exp \\\n      --in x.npy \\\n      --out y.npy");
  const std::string long_word = folded("  gradus op exp --in \"[1,2,3,4,5,6,7,8,9,10,11,12]\"", 24);
  CHECK(long_word == "  gradus op exp --in \\\n      \"[1,2,3,4,5,6,7,8\\\n,9,10,11,12]\"");
  // No word is lost or cut; colours and letters of several bytes take no room of their own.
  CHECK(folded("see /a/very/long/path/of/a/file.json here", 20) ==
        "see\n/a/very/long/path/of/a/file.json\n  here");
  CHECK(columns_of("\033[1;31mgröße\033[0m") == 5);
  CHECK(folded("\033[32mok\033[0m größer", 9) == "\033[32mok\033[0m größer");
}

TEST_CASE("terminal: screens of commands hold no line that is too long, and all a pipe gets") {
  const TempFolder folder;
  folder.write("net.json", kSmallRun);
  const struct {
    const char* arguments;
    bool coloured, same;  // same: prints the same words each time
  } commands[] = {{"train net.json --out run", true, false},
                  {"verify run", true, true},
                  {"audit net.json", true, true},
                  {"graph net.json", true, true},
                  {"audit net.json --health", true, false},
                  {"audit net.json --ledger", true, false},
                  {"audit net.json --cost", true, false},
                  {"tune net.json", false, false},
                  {"ops", false, true},
                  {"ops softmax", true, true},
                  {"check --op softmax", true, true},
                  {"devices", true, false},
                  {"contract --einsum bda,dc->abc --sizes a=9,b=9,c=24,d=9 --verify", true, false},
                  {"config show net.json", false, true},
                  {"demo --device nonsense", true, true}};
  for (const auto& command : commands)
    for (const int columns : {60, 80}) {
      if (gradus::test::small_sizes() && columns == 80) continue;
      CAPTURE(command.arguments);
      CAPTURE(columns);
      std::string arguments = command.arguments;
      if (arguments.starts_with("train")) arguments += std::to_string(columns);
      if (arguments == "verify run") arguments += "60";
      const std::string quoted = arguments.find('>') == std::string::npos
                                     ? arguments
                                     : "contract --einsum 'bda,dc->abc'" + arguments.substr(29);
      const ScreenRun colour = run_on_screen(folder, quoted, columns);
      CHECK(colour.coloured() == command.coloured);
      for (const std::string& line : colour.lines())
        if (!is_one_word(line)) CHECK_MESSAGE(columns_of(line) <= size_t(columns), line);
      if (arguments.starts_with("train")) continue;  // a run folder is made once
      const ScreenRun plain = run_on_screen(folder, quoted, columns, "NO_COLOR=1");
      CHECK(!plain.coloured());
      const ScreenRun dumb = run_on_screen(folder, quoted, columns, "TERM=dumb");
      CHECK(dumb.text.find("\033[") == std::string::npos);
      const auto piped = gradus::test::run(folder, quoted);
      CHECK(piped.code == colour.code);
      CHECK(piped.out.find("\033[") == std::string::npos);
      if (!command.same) continue;
      CHECK(words_in(joined_lines(colour.lines())) == words_in(piped.out + piped.err));
      CHECK(joined_lines(colour.lines()) == joined_lines(plain.lines()));
    }
}

TEST_CASE("terminal: --color, COLUMNS, and data that is never folded") {
  const TempFolder folder;
  check_has(gradus::test::run(folder, "check --op exp --color always").out, "\033[32mok\033[0m");
  check_has(gradus::test::run(folder, "--color always check --op exp").out, "\033[32mok\033[0m");
  const ScreenRun never = run_on_screen(folder, "check --op exp --color never", 80);
  CHECK(!never.coloured());
  const auto wrong = gradus::test::run(folder, "check --color pink");
  CHECK(wrong.code == 2);
  check_has(wrong.err, "--color");
  check_has(wrong.err, "auto");
  for (const std::string& line : run_on_screen(folder, "ops gelu", 120, "COLUMNS=50").lines())
    if (!is_one_word(line)) CHECK_MESSAGE(columns_of(line) <= 50, line);
  for (const char* data : {"check --op exp --json", "config schema device"}) {
    const ScreenRun screen = run_on_screen(folder, data, 40);
    CHECK(screen.text.find("\033[") == std::string::npos);
    const std::string piped = gradus::test::run(folder, data).out;
    CHECK(int64_t(screen.lines().size()) == std::count(piped.begin(), piped.end(), '\n'));
  }
}

TEST_CASE("terminal: Ctrl-C ends a command with a line and exit code 130") {
  const TempFolder folder;
  for (const char* command : {"check", "demo",
                              "contract --einsum ij,jk-\\>ik --sizes "
                              "i=2000,j=2000,k=2000 --repeat 100000"}) {
    CAPTURE(command);
    bool typed = false;
    const ScreenRun run = run_on_screen(folder, command, 80, "", [&](const std::string& seen) {
      if (typed || seen.find('\n') == std::string::npos) return std::string();
      typed = true;
      return std::string("\x03");
    });
    CHECK(run.code == 130);
    const std::string last = run.lines().empty() ? "" : run.lines().back();
    check_has(last, "interrupted");
  }
  bool typed = false;
  const ScreenRun json =
      run_on_screen(folder, "check --json", 80, "", [&](const std::string& seen) {
        if (typed || seen.find('\n') == std::string::npos) return std::string();
        typed = true;
        return std::string("\x03");
      });
  CHECK(json.code == 130);
  check_has(json.lines().back(), R"("kind":"interrupted","message":"check: interrupted")");
}

TEST_CASE("terminal: numbers as people read them") {
  using gradus::cli::loss_text;
  CHECK(loss_text(0.02019) == "0.0202");
  CHECK(loss_text(0) == "0.0000");
  CHECK(loss_text(12.345) == "12.35");
  CHECK(loss_text(1234.5) == "1234");
  CHECK(loss_text(814234567890123.0) == "8.1e14");
  CHECK(loss_text(9.97e14) == "1.0e15");
  CHECK(loss_text(3.2e-6) == "3.2e-6");
  CHECK(loss_text(std::nan("")) == "nan");
}

TEST_CASE("trouble: a loss far above its beginning, or no learning; nothing else") {
  using gradus::cli::Guessing;
  using gradus::cli::Standing;
  using gradus::cli::trouble;
  const Guessing ten{0.1, 0.03, std::log(10.0)};
  const auto kind = [&](const Standing& s) {
    const auto found = trouble(s, ten);
    return std::string(found ? found->kind : "none");
  };
  CHECK(kind({1, 94, false, 2.4, 8e14, {0, 0.1}, 10, false}) == "diverged");
  CHECK(kind({1, 94, false, 2.4, 9.0, {0, 0.2}, 10, false}) == "diverged");
  CHECK(kind({1, 94, false, 2.4, 9.0, {0, 0.9}, 10, false}) == "none");  // a high first step or two
  CHECK(kind({1, 94, false, 9.0, 20.0, {0, 0.1}, 10, false}) == "none");  // large weights
  CHECK(kind({5, 470, true, 2.4, 2.31, {0, 0.1}, 0.3, false}) == "chance");
  CHECK(kind({5, 470, true, 2.4, 2.31, {0, 0.125}, 0.3, false}) == "chance");  // within the error
  CHECK(kind({4, 376, false, 2.4, 2.31, {0, 0.1}, 0.3, false}) == "none");     // it may still come
  CHECK(kind({2, 20, true, 2.4, 2.31, {0, 0.1}, 0.3, false}) == "none");       // too few steps
  CHECK(kind({5, 470, true, 2.4, 1.5, {0, 0.1}, 0.3, false}) ==
        "none");  // it fits what it is shown
  CHECK(kind({5, 470, true, 2.4, 0.02, {0, 0.99}, 0.002, false}) == "none");
  // Of numbers: their spread that is foreseen.
  CHECK(kind({5, 470, true, 1.1, 1.09, {1, 0, true, 1, -0.1}, 0.3, false}) == "chance");
  CHECK(kind({5, 470, true, 1.1, 0.4, {1, 0, true, 1, 0.6}, 0.3, false}) == "none");
  CHECK(kind({5, 470, true, 1.1, 1e6, {1, 0, true, 1, -9}, 0.3, false}) == "diverged");
  CHECK(kind({1, 94, false, std::nan(""), 8e14, {0, 0.1}, 10, false}) == "diverged");  // resumed
}

TEST_CASE("trouble: a diverged run says so once, in its metrics and on its page; others do not") {
  const TempFolder folder;
  folder.write("net.json", kSmallRun);
  const auto lost = gradus::test::run(folder, "train net.json --out lost --set optimizer.lr=100");
  CHECK(lost.code == 0);
  const std::string said = "training diverges: the loss is ";
  check_has(lost.err, said);
  check_has(lost.err, "a smaller optimizer.lr (it is 100) or a clip_norm may help");
  CHECK(lost.err.find(said) == lost.err.rfind(said));
  check_has(gradus::test::slurp(folder / "lost/metrics.jsonl"),
            R"({"event":"trouble","kind":"diverged")");
  check_has(gradus::test::slurp(folder / "lost/report.html"), said);
  const auto fine = gradus::test::run(folder, "train net.json --out fine --json");
  CHECK(fine.out.find("trouble") == std::string::npos);
  // The curve of a short run has more than one point.
  const std::string step = R"({"event":"step")";
  CHECK(fine.out.find(step) != fine.out.rfind(step));
}

TEST_CASE("interrupts: a signal that was ignored when the program began stays ignored") {
  using gradus::cli::InterruptEnds;
  using gradus::cli::InterruptScope;
  for (const int signal : {SIGINT, SIGHUP}) {
    const auto before = std::signal(signal, SIG_IGN);  // as nohup and a shell's background have it
    {
      const InterruptScope scope;
      std::raise(signal);
      CHECK_FALSE(InterruptScope::interrupted());
      std::raise(SIGTERM);
      CHECK(InterruptScope::interrupted());
    }
    {
      const InterruptEnds scope("", "");
      std::raise(signal);
    }
    const bool ignored = std::signal(signal, before) == SIG_IGN;
    CHECK(ignored);
  }
}
