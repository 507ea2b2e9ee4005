#include "cli/frame/redirection.hpp"

#include "engine/base/error.hpp"

#include <climits>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

// The name of the file that standard output goes to, or "" if it goes elsewhere.
std::string redirected_to() {
  struct stat info;
  if (::fstat(STDOUT_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/fd/1", path, sizeof path);
  const std::string name(path, n > 0 ? size_t(n) : 0);
  return name.substr(name.rfind('/') + 1);
}

bool is_output(const std::string& labels) {
  return !labels.empty() && labels.find_first_not_of(
                                "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ.") == std::string::npos;
}

}  // namespace

void refuse_cut_equation(const std::string& equation) {
  if (equation.empty() || equation.back() != '-') return;
  const std::string file = redirected_to();
  const bool known = is_output(file);
  fail(ErrorKind::config, "--einsum", "\"", equation, "\" ends within its arrow: a shell takes > ",
       "for a redirection. Quote it: --einsum \"", equation, ">", known ? file : "...", "\"",
       known ? join("; the empty file \"", file, "\" is the shell's") : std::string());
}

}  // namespace gradus::cli
