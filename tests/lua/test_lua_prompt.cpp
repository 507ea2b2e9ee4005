// The prompt of `gradus repl`: what is begun, what guards globals, completion; and, at a terminal,
// Ctrl-C, letters, history.
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::has;
using gradus::test::Lua;
using gradus::test::TempFolder;

namespace {

// A line at a prompt: what it prints, "more" if it is begun.
struct PromptLine {
  Lua lua{};
  std::string operator()(const std::string& text) {
    lua.out.str("");
    return lua.script.run_line(text) ? lua.out.str() : "more";
  }
};

// The program at a terminal.
class AtTerminal {
 public:
  AtTerminal(const TempFolder& folder, std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "gradus");
    arguments.push_back(nullptr);
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    for (const char* name : {"LANG", "LC_ALL", "LC_CTYPE"}) ::unsetenv(name);
    ::setenv("TERM", "xterm", 1);
    ::setenv("XDG_STATE_HOME", folder.path().c_str(), 1);
    if (::chdir(folder.path().c_str()) == 0)
      ::execv(GRADUS_PROGRAM, const_cast<char* const*>(arguments.data()));
    ::_exit(127);
  }
  ~AtTerminal() {
    ::close(terminal_);
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void type(const std::string& keys) {
    CHECK(::write(terminal_, keys.data(), keys.size()) == ssize_t(keys.size()));
  }
  // Reads until the text has come; what came before it is forgotten with it.
  bool shows(const std::string& text, double seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (const size_t at = said_.find(text); at != std::string::npos) {
        said_.erase(0, at + text.size());
        return true;
      }
      pollfd waiting{terminal_, POLLIN, 0};
      if (::poll(&waiting, 1, 50) > 0) {
        char buffer[4096];
        const ssize_t n = ::read(terminal_, buffer, sizeof buffer);
        if (n <= 0) return false;  // it has ended
        said_.append(buffer, size_t(n));
      } else if (std::chrono::steady_clock::now() > end) {
        return false;
      }
    }
  }
  // Ctrl-C, until it is seen: one that comes between a prompt and its reading has to be repeated.
  bool interrupts() {
    for (int i = 0; i < 20; ++i) {
      type("\x03");
      if (shows("^C\r\n", 2)) return true;
    }
    return false;
  }
  // Its exit code, -1 if a signal ended it.
  int ends() {
    shows("what it does not say");
    ::kill(child_, SIGKILL);  // it has ended, or never will
    int status = 0;
    ::waitpid(std::exchange(child_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string said_;
};

}  // namespace

TEST_CASE("lua: a prompt goes on where an expression or a statement is begun") {
  PromptLine line;
  for (const char* begun : {"1 +", "x =", "{1,", "(1 +", "f(", "[[abc", "not", "for i = 1, 2 do"})
    CHECK_MESSAGE(line(begun) == "more", begun);
  CHECK(line("1 +\n2") == "3\n");
  CHECK(line("#{1,\n2}") == "2\n");
  CHECK(line("[[a\nb]]") == "a\nb\n");
  for (const char* wrong : {"x = )", "1 + )", "goto x", "break"})
    CHECK_MESSAGE(has(error_text(ErrorKind::config, [&] { line(wrong); }), "input:1: "), wrong);
}

TEST_CASE("lua: a prompt shows values whatever guards the globals") {
  PromptLine line;
  CHECK(
      line("setmetatable(_G, {__newindex = function(t, k) error('strict: ' .. k, 2) end}) and 5") ==
      "5\n");
  CHECK(line("_ + 1") == "6\n");
  CHECK(has(error_text(ErrorKind::value, [&] { line("y = 1"); }), "strict: y"));
  PromptLine other;
  CHECK(other("setmetatable(_G, {__index = function(t, k) error('gone: ' .. k, 2) end}) and 1") ==
        "1\n");
  CHECK(other("print = nil") == "");
  CHECK(other("5, 6") == "5\t6\n");
  CHECK(other("string = nil") == "");
  CHECK(other.lua.script.complete("('x'):re") ==
        std::vector<std::string>{"('x'):rep", "('x'):reverse"});
  // One's own print is the one that is called.
  PromptLine own;
  CHECK(own("local p = print print = function(...) p('<', ...) end") == "");
  CHECK(own("5") == "<\t5\n");
  CHECK(has(
      error_text(ErrorKind::value,
                 [&] { own("setmetatable({}, {__tostring = function() error('no text') end})"); }),
      "no text"));
}

TEST_CASE("lua: completion knows properties, methods and what stands behind tables") {
  using Names = std::vector<std::string>;
  PromptLine line;
  CHECK(line("x = gradus.ones(2, 2) v = gradus.ones(2) t = {inner = {value = 1}} "
             "opt = gradus.optim.sgd({v:requires_grad_()}, {lr = 1}) bar = gradus.progress(2) "
             "object = setmetatable({own = 1}, {__index = {method = print}})") == "");
  const auto complete = [&](const char* begun) { return line.lua.script.complete(begun); };
  CHECK(complete("x.sh") == Names{"x.shape"});
  CHECK(complete("print(x.dty") == Names{"print(x.dtype"});
  CHECK(complete("x.gr") == Names{"x.grad", "x.grad_fn"});
  CHECK(complete("x.is_c") == Names{"x.is_cuda"});
  CHECK(complete("x:vie") == Names{"x:view", "x:view_as"});
  CHECK(complete("x:clam") == Names{"x:clamp", "x:clamp_", "x:clamp_tensor"});
  CHECK(complete("gradus.manu") == Names{"gradus.manual_seed"});
  CHECK(complete("gradus.einsum_") == Names{"gradus.einsum_plan"});
  CHECK(line("step = gradus.capture(print) plan = gradus.einsum_plan('i,i->', v, v)") == "");
  CHECK(complete("step.w") == Names{"step.why_not"});
  CHECK(complete("plan.fl") == Names{"plan.flops"});
  CHECK(complete("x:sh").empty());
  CHECK(complete("x:backw") == Names{"x:backward"});
  CHECK(complete("x.T.sh") == Names{"x.T.shape"});
  CHECK(complete("v.T.sh").empty());  // no matrix: an error, not a name
  CHECK(complete("opt.l") == Names{"opt.lr"});
  CHECK(complete("opt:zer") == Names{"opt:zero_grad"});
  CHECK(complete("bar:s") == Names{"bar:set"});
  CHECK(complete("t.in") == Names{"t.inner"});
  CHECK(complete("t.inner.va") == Names{"t.inner.value"});
  CHECK(complete("object:me") == Names{"object:method"});
  CHECK(complete("object.o") == Names{"object.own"});
  CHECK(complete("(\"x\"):revers") == Names{"(\"x\"):reverse"});
  CHECK(complete("x[1].sh").empty());
  CHECK(complete("f(x):re").empty());
  CHECK(complete("'a'..gradus.softmi") == Names{"'a'..gradus.softmin"});
  CHECK(complete("nosuch.a").empty());
  CHECK(complete("gradus.nosuch:a").empty());
}

// Keys that are typed before the prompt is there meet a terminal of another mode.
TEST_CASE("lua: at a terminal, Ctrl-C drops the input and the session goes on") {
  const TempFolder folder;
  AtTerminal repl(folder, {"repl", "--device", "cpu"});
  const auto line = [&](const std::string& keys) {
    CHECK(repl.shows("> "));
    repl.type(keys);
  };
  line("");
  CHECK(repl.interrupts());
  line("error('half a li");
  CHECK(repl.interrupts());
  line("for i = 1, 2 do\n");
  CHECK(repl.shows(".. "));
  CHECK(repl.interrupts());
  line("6*7\n");
  CHECK(repl.shows("\n42\r\n"));
  // The history is kept line by line.
  CHECK(has(gradus::test::slurp(folder / "gradus/history"), "6*7"));
  // Letters, with no locale named, also before a name that is completed.
  line("#\"ü日本\"\n");
  CHECK(repl.shows("\n8\r\n"));
  line("x = gradus.ones(17)\n");
  line("#\"ü日本\", x.sh\t[1]\n");
  CHECK(repl.shows("\n8\t17\r\n"));
  // Marks around pasted text.
  line("\x1b[200~1200 + 34\n");
  CHECK(repl.shows("\n1234\r\n"));
  line("\x1b[201~('%g'):format(1.5)\n");
  CHECK(repl.shows("\n1.5\r\n"));
  line("\x04");
  CHECK(repl.ends() == 0);
}

TEST_CASE("lua: at a terminal, Ctrl-C leaves gradus step where it is") {
  const TempFolder folder;
  std::ofstream(folder / "s.lua")
      << "local w = gradus.ones(2):requires_grad_(); (w * w):sum():backward()";
  AtTerminal step(folder, {"step", "s.lua"});
  CHECK(step.shows("(step) "));
  step.type("nex");
  CHECK(step.interrupts());
  CHECK(step.shows("(step) "));
  step.type("quit\n");
  CHECK(step.ends() == 0);
}
