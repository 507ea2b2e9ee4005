// Files, limits and the process around a script; the prompt.
#include "cli/script.hpp"

#include "cli/ops_list.hpp"
#include "cli/script_host.hpp"
#include "cli/session.hpp"
#include "engine/io/file.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <editline/readline.h>
#include <iostream>
#include <iterator>
#include <sys/prctl.h>
#include <sys/stat.h>
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

namespace {

lua::Script* completing = nullptr;

// libedit takes memory of malloc: the longest common part first, then the names.
char** complete(const char*, int, int end) {
  rl_attempted_completion_over = 1;
  const std::string line(rl_line_buffer, size_t(end));
  const std::vector<std::string> all = completing->complete(line);
  if (all.empty()) return nullptr;
  size_t word = line.size();
  while (word > 0 && !std::strchr(" \t\n\"\\'`@$><=;|&{(", line[word - 1])) --word;
  std::string common = all[0];
  for (const std::string& s : all)
    while (s.compare(0, common.size(), common) != 0) common.pop_back();
  auto** const out = static_cast<char**>(std::malloc((all.size() + 2) * sizeof(char*)));
  size_t n = 0;
  out[n++] = ::strdup(common.substr(word).c_str());
  if (all.size() > 1)
    for (const std::string& s : all) out[n++] = ::strdup(s.substr(word).c_str());
  out[n] = nullptr;
  rl_completion_append_character = 0;
  return out;
}

std::string history_file() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && *state) return std::string(state) + "/gradus/history";
  return home && *home ? std::string(home) + "/.local/state/gradus/history" : "";
}
void make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0777);
}

// Lines from a person with history and completion, or as they come from a file.
class Lines {
 public:
  Lines()
      : person_(::isatty(0) && ::isatty(1) && !dumb()), history_(person_ ? history_file() : "") {
    if (!person_) return;
    rl_readline_name = const_cast<char*>("gradus");
    rl_attempted_completion_function = complete;
    using_history();
    if (!history_.empty()) ::read_history(history_.c_str());
  }
  ~Lines() {
    if (history_.empty()) return;
    make_folders(history_);
    ::write_history(history_.c_str());
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  bool person() const { return person_; }
  bool next(bool begun, std::string& line) {
    if (!person_) return bool(std::getline(std::cin, line));
    char* const typed = ::readline(begun ? ".. " : "> ");
    if (!typed) return false;
    line = typed;
    std::free(typed);
    if (!line.empty()) ::add_history(line.c_str());
    return true;
  }

 private:
  static bool dumb() {
    const char* const term = std::getenv("TERM");
    return !term || std::strcmp(term, "dumb") == 0;
  }
  bool person_;
  std::string history_;
};

}  // namespace

int run_repl(const ReplOptions& o, std::ostream& out, std::ostream& err) {
  const Session session(o.device, false, err);
  lua::ScriptOptions options = script_options(o.unsafe, "", session.device(), err);
  options.out = &out;
  lua::Script script(options);
  completing = &script;
  Lines lines;
  if (lines.person())
    out << "gradus on " << session.device().name()
        << "; x = gradus.randn(2, 3), x:sum(), :help NAME, :quit" << std::endl;
  std::string text, line;
  while (lines.next(!text.empty(), line)) {
    if (text.empty() && line == ":quit") break;
    if (text.empty() && line.compare(0, 5, ":help") == 0) {
      try {
        OpsOptions ops;
        ops.name = line.size() > 6 ? line.substr(6) : "";
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
