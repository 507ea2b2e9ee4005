// Files, limits and the process around a script; the prompt.
#include "cli/script.hpp"

#include "cli/lines.hpp"
#include "cli/ops_list.hpp"
#include "cli/script_host.hpp"
#include "cli/session.hpp"
#include "engine/io/file.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gradus::cli {

namespace {

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
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;  // the child says what an interrupt means
  ::sigaction(SIGINT, &ignore, &before);
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
  if (WIFSIGNALED(status))
    fail(ErrorKind::internal, "script", "its process died of signal ", WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace

int run_script(const ScriptRun& o, std::ostream& out, std::ostream& err) {
  if (!o.code && o.arguments.empty())
    fail(ErrorKind::config, "script",
         "needs a FILE.lua (- for standard input) or -e CODE; see gradus script --help");
  if (!(o.seconds >= 0) || o.instructions < 0) fail(ErrorKind::config, "script", "a limit below 0");
  const std::string file = o.code ? "" : o.arguments[0];
  const std::string name = o.code ? "-e" : file == "-" ? "stdin" : file;
  const std::string text = o.code        ? *o.code
                           : file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                         : read_file(file);
  const auto work = [&] {
    const Session session(o.device, false, err);
    lua::ScriptOptions options = script_options(o.unsafe, o.memory, session.device(), err);
    options.limits.seconds = o.seconds;
    options.limits.instructions = uint64_t(o.instructions);
    options.arguments.assign(o.arguments.begin() + (o.code ? 0 : 1), o.arguments.end());
    options.folder = o.code || file == "-" ? "." : folder_of(file);
    options.out = &out;
    lua::Script script(options);
    const ScriptInterrupt interruptible(script);
    with_traceback(err, [&] { o.check ? script.check(text, name) : script.run(text, name); });
    return 0;
  };
  return o.seconds > 0 && !o.check ? in_process(o.seconds, name, out, err, work) : work();
}

// ---- the prompt

int run_repl(const ReplOptions& o, std::ostream& out, std::ostream& err) {
  const Session session(o.device, false, err);
  lua::ScriptOptions options = script_options(o.unsafe, "", session.device(), err);
  options.out = &out;
  lua::Script script(options);
  Lines lines("history", [&](const std::string& begun) { return script.complete(begun); });
  if (lines.person())
    out << "gradus on " << session.device().name()
        << "; x = gradus.randn(2, 3), x:sum(), :help NAME, :quit" << std::endl;
  std::string text, line;
  while (lines.next(text.empty() ? "> " : ".. ", line)) {
    if (text.empty() && (line == ":quit" || line == "quit" || line == "exit")) break;
    if (text.empty() && (line == ":help" || line == "help")) {
      out << "expressions print their values; :help NAME tells of an op, :help ops lists them, "
             ":quit "
             "leaves"
          << std::endl;
      continue;
    }
    if (text.empty() && line.compare(0, 5, ":help") == 0) {
      try {
        OpsOptions ops;
        ops.name = line.size() > 6 ? line.substr(6) : "";
        if (ops.name == "ops") ops.name = "";
        run_ops(ops, out, err);
      } catch (const Error& e) {
        err << e.what() << "\n";
      }
      continue;
    }
    text += (text.empty() ? "" : "\n") + line;
    try {
      const ScriptInterrupt interruptible(script);
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
