// Files, limits and the process around a script; the prompt.
#include "cli/script/script.hpp"

#include "cli/frame/events.hpp"
#include "cli/frame/lines.hpp"
#include "cli/ops/ops_list.hpp"
#include "cli/script/script_host.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/files/file.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <ostream>
#include <streambuf>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

// A stream whose text becomes events of prints: one for each flush, without the end of its last
// line.
class PrintEvents : public std::ostream {
 public:
  explicit PrintEvents(std::ostream& out) : std::ostream(nullptr), buffer_(out) {
    rdbuf(&buffer_);
    exceptions(std::ios::badbit);  // a text without room is an error, not an event less
  }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::ostream& out) : out_(out) {}

   private:
    int_type overflow(int_type c) override {
      if (!traits_type::eq_int_type(c, traits_type::eof())) text_ += traits_type::to_char_type(c);
      return traits_type::not_eof(c);
    }
    std::streamsize xsputn(const char* s, std::streamsize n) override {
      try {
        text_.append(s, size_t(n));
      } catch (const std::bad_alloc&) {
        text_ = {};
        throw;
      }
      return n;
    }
    int sync() override {
      if (text_.empty()) return 0;
      if (text_.ends_with('\n')) text_.pop_back();
      emit(out_, {{"event", "print"}, {"text", std::exchange(text_, "")}});
      return 0;
    }

    std::ostream& out_;
    std::string text_{};
  };
  Buffer buffer_;
};

constexpr double kGrace = 1;  // seconds for a script to end itself

// Runs `work` in a child process, which is killed some time after `seconds`. The child's code.
template <class F>
int in_process(double seconds, const std::string& name, std::ostream& out, std::ostream& err,
               F&& work) {
  out.flush();
  err.flush();
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would leave no exit code to wait for
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail(ErrorKind::io, "script", "no process for it: ", std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a limit must not outlive who enforces it
    if (::getppid() != parent) ::_exit(1);
    return work();
  }
  // The child says what an interrupt means. One from the terminal has gone to it as well.
  static std::atomic<pid_t> interrupted_child;
  interrupted_child = child;
  struct sigaction pass_on {
  }, before{};
  pass_on.sa_flags = SA_SIGINFO | SA_RESTART;
  pass_on.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_code == SI_USER) ::kill(interrupted_child, SIGINT);
  };
  ::sigaction(SIGINT, &pass_on, &before);
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  bool killed = false;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0) {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begin;
    if (!killed && past.count() > seconds + kGrace) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(past.count() < 0.05 ? 1 : 10));
  }
  ::sigaction(SIGINT, &before, nullptr);
  if (ended < 0) fail(ErrorKind::io, "script", "its process is lost: ", std::strerror(errno));
  if (killed)
    fail(ErrorKind::numeric, "", name, ": ended after ", seconds,
         " seconds (--max-seconds), within a function that does not return");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
    fail(ErrorKind::interrupted, "", name, ": interrupted within a function that does not return");
  if (WIFSIGNALED(status))
    fail(ErrorKind::internal, "script", "its process died of signal ", WTERMSIG(status));
  return WEXITSTATUS(status);
}

// What stands behind FILE is the script's own. A limit typed there would be none, in silence; what
// the script should get, however it looks, stands behind --.
std::vector<std::string> own_arguments(const ScriptRun& o) {
  std::vector<std::string> own = o.arguments;
  for (size_t i = 1; i < own.size() && own[i] != "--"; ++i)
    if (own[i].starts_with("--max-") || own[i].starts_with("--allow-"))
      fail(ErrorKind::config, own[i], "stands behind ", own[0], ", where all is the script's own; ",
           "limits and folders stand before it (what the script should get, behind --)");
  if (own.size() > 1 && own[1] == "--") own.erase(own.begin() + 1);
  if (!o.code) own.erase(own.begin());
  return own;
}

}  // namespace

int run_script(const ScriptRun& o, std::ostream& out, std::ostream& err) {
  const Verbatim own(out);
  if (!o.code && o.arguments.empty())
    fail(ErrorKind::config, "script",
         "needs a FILE.lua (- for standard input) or -e CODE; see gradus script --help");
  if (!(o.seconds >= 0) || o.instructions < 0) fail(ErrorKind::config, "script", "a limit below 0");
  const std::vector<std::string> arguments = own_arguments(o);
  const std::string file = o.code ? "" : o.arguments[0];
  const std::string name = o.code ? "-e" : file == "-" ? "stdin" : file;
  const std::string text = o.code        ? *o.code
                           : file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                         : read_file(file, kMaxText);
  const auto work = [&] {
    const Session session(o.device, false, err);
    lua::ScriptOptions options = script_options(o.sandbox, session.device(), err);
    options.limits.seconds = o.seconds;
    options.limits.instructions = uint64_t(o.instructions);
    options.arguments = arguments;
    options.folder = o.code || file == "-" ? "." : folder_of(file);
    PrintEvents events(out);
    options.out = o.json ? &events : &out;
    lua::Script script(options);
    const ScriptInterrupt interruptible(script, o.seconds);
    with_traceback(err, [&] { o.check ? script.check(text, name) : script.run(text, name); });
    return 0;
  };
  return o.seconds > 0 && !o.check ? in_process(o.seconds, name, out, err, work) : work();
}

// ---- the prompt

namespace {

// ":help" and ":help NAME"; `said` carries texts.
void help(const std::string& line, bool json, std::ostream& said, std::ostream& out,
          std::ostream& err) {
  OpsOptions ops;
  ops.name = line.size() > 6 ? line.substr(6) : "";
  if (ops.name.empty()) {
    said << "expressions print their values; :help NAME tells of an op, a function or a method, "
            ":help ops lists ops, "
            ":quit leaves"
         << std::endl;
    return;
  }
  // As they are typed: gradus.randn, x:view.
  if (const size_t mark = ops.name.find_last_of(".:"); mark != std::string::npos)
    ops.name.erase(0, mark + 1);
  if (const std::string text = lua::help_line(ops.name); !text.empty() && !find_op(ops.name)) {
    said << text << std::endl;
    return;
  }
  if (ops.name == "ops") ops.name = "";
  ops.json = json;
  run_ops(ops, out, err);
}

}  // namespace

int run_repl(const ReplOptions& o, std::ostream& out, std::ostream& err) {
  const Verbatim own(out);
  const Session session(o.device, false, err);
  PrintEvents events(out);
  lua::ScriptOptions options = script_options(o.sandbox, session.device(), err);
  std::ostream& said = o.json ? events : out;
  options.out = &said;
  lua::Script script(options);
  Lines lines("history", [&](const std::string& begun) { return script.complete(begun); });
  if (lines.person())
    said << "gradus on " << session.device().name()
         << "; x = gradus.randn(2, 3), x:sum(), :help NAME, :quit" << std::endl;
  std::string text, line;
  for (;;) {
    const Lines::Typed typed = lines.next(text.empty() ? "> " : ".. ", line);
    if (typed == Lines::Typed::end) break;
    if (typed == Lines::Typed::dropped) {
      text.clear();
      continue;
    }
    if (text.empty() && (line == ":quit" || line == "quit" || line == "exit")) break;
    try {
      if (text.empty() && (line.starts_with(":help") || line == "help")) {
        help(line, o.json, said, out, err);
        continue;
      }
      text += (text.empty() ? "" : "\n") + line;
      const ScriptInterrupt interruptible(script, 0);
      with_traceback(err, [&] {
        if (script.run_line(text)) text.clear();
      });
    } catch (const Error& e) {
      err << e.what() << "\n";
      text.clear();
    }
  }
  if (!text.empty()) fail(ErrorKind::config, "repl", "the last input is unfinished: ", text);
  return 0;
}

}  // namespace gradus::cli
