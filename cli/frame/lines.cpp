// libedit's readline face: it calls back through plain pointers, so the completer is a global. A
// build without libedit reads a person's lines as the terminal gives them.
#include "cli/frame/lines.hpp"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>
#ifdef GRADUS_LIBEDIT
#include <editline/readline.h>
#endif

namespace gradus::inline v1::cli {

namespace {

#ifdef GRADUS_LIBEDIT
Lines::Completer completer;

// The bytes of the first characters of a text: libedit counts the latter.
size_t bytes_of(const char* text, int characters) {
  size_t bytes = 0;
  std::mbstate_t state{};
  for (; characters > 0 && text[bytes] != 0; --characters) {
    const size_t n = std::mbrlen(text + bytes, MB_CUR_MAX, &state);
    bytes += n > MB_CUR_MAX ? 1 : n;
  }
  return bytes;
}

// libedit takes memory of malloc: the longest common part first, then the names.
char** complete(const char*, int, int end) {
  rl_attempted_completion_over = 1;
  const std::string line(rl_line_buffer, bytes_of(rl_line_buffer, end));
  const std::vector<std::string> all = completer(line);
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

std::string state_file(const std::string& name) {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  if (state && *state) return std::string(state) + "/gradus/" + name;
  return home && *home ? std::string(home) + "/.local/state/gradus/" + name : "";
}
void make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0777);
}
bool dumb() {
  const char* const term = std::getenv("TERM");
  return !term || std::strcmp(term, "dumb") == 0;
}

// libedit deletes what the locale has no letters for, and C has ASCII alone. Numbers stay as they
// are.
void set_letters() {
  const char* const own = std::setlocale(LC_CTYPE, "");
  if (!own || std::strcmp(own, "C") == 0 || std::strcmp(own, "POSIX") == 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
}
#endif

// While a line is typed, Ctrl-C ends its reading, and not the program.
volatile std::sig_atomic_t interrupted = 0;
class Interruptible {
 public:
  Interruptible() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~Interruptible() { ::sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

#ifdef GRADUS_LIBEDIT
Lines::Lines(const std::string& history, Completer complete_line)
    : person_(::isatty(0) && ::isatty(1) && !dumb()), history_(person_ ? state_file(history) : "") {
  completer = std::move(complete_line);
  if (!person_) return;
  rl_readline_name = const_cast<char*>("gradus");
  rl_attempted_completion_function = complete;
  set_letters();
  // Before the prompt: a Ctrl-D that the terminal still took for its own would be lost.
  ::rl_pre_input_hook = [] {
    ::rl_prep_terminal(1);
    return 0;
  };
  using_history();
  ::stifle_history(10000);
  if (!history_.empty()) {
    make_folders(history_);
    ::read_history(history_.c_str());
  }
  // What terminals put around pasted text.
  for (const char* mark : {"bind ^[[200~ ed-ignore", "bind ^[[201~ ed-ignore"})
    ::rl_parse_and_bind(mark);
}

Lines::~Lines() { completer = nullptr; }

Lines::Typed Lines::next(const char* prompt, std::string& line) {
  if (!person_) return std::getline(std::cin, line) ? Typed::line : Typed::end;
  const Interruptible scope;
  char* typed = nullptr;
  do {
    errno = 0;
    typed = ::readline(prompt);
  } while (!typed && errno == EINTR && !interrupted);  // another signal
  if (!typed && interrupted) {
    std::cout << "^C" << std::endl;
    return Typed::dropped;
  }
  if (!typed) return Typed::end;
  line = typed;
  std::free(typed);
  if (line.empty()) return Typed::line;
  ::add_history(line.c_str());
  if (!history_.empty()) ::write_history(history_.c_str());
  return Typed::line;
}
#else
Lines::Lines(const std::string&, Completer) : person_(::isatty(0) && ::isatty(1)) {}
Lines::~Lines() = default;

Lines::Typed Lines::next(const char* prompt, std::string& line) {
  if (!person_) return std::getline(std::cin, line) ? Typed::line : Typed::end;
  const Interruptible scope;
  std::cout << prompt << std::flush;
  if (std::getline(std::cin, line)) return Typed::line;
  std::cin.clear();
  std::cout << std::endl;  // the terminal has shown the key
  return interrupted ? Typed::dropped : Typed::end;
}
#endif

}  // namespace gradus::cli
