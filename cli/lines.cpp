// libedit's readline face: it calls back through plain pointers, so the completer is a global.
#include "cli/lines.hpp"

#include <cstdlib>
#include <cstring>
#include <editline/readline.h>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::cli {

namespace {

Lines::Completer completer;

// libedit takes memory of malloc: the longest common part first, then the names.
char** complete(const char*, int, int end) {
  rl_attempted_completion_over = 1;
  const std::string line(rl_line_buffer, size_t(end));
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

}  // namespace

Lines::Lines(const std::string& history, Completer complete_line)
    : person_(::isatty(0) && ::isatty(1) && !dumb()), history_(person_ ? state_file(history) : "") {
  completer = std::move(complete_line);
  if (!person_) return;
  rl_readline_name = const_cast<char*>("gradus");
  rl_attempted_completion_function = complete;
  using_history();
  if (!history_.empty()) ::read_history(history_.c_str());
}

Lines::~Lines() {
  completer = nullptr;
  if (history_.empty()) return;
  make_folders(history_);
  ::write_history(history_.c_str());
}

bool Lines::next(const char* prompt, std::string& line) {
  if (!person_) return bool(std::getline(std::cin, line));
  char* const typed = ::readline(prompt);
  if (!typed) return false;
  line = typed;
  std::free(typed);
  if (!line.empty()) ::add_history(line.c_str());
  return true;
}

}  // namespace gradus::cli
