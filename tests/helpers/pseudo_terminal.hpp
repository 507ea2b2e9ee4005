// Runs the built program on a pseudo-terminal, as a person would see it.
#pragma once
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <fcntl.h>
#include <functional>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

namespace gradus::inline v1::test {

struct ScreenRun {
  int code;          // 128 + n for signal n
  std::string text;  // all that was written, with its colours
  // The lines that stay: colours, and what was drawn over, left out.
  std::vector<std::string> lines() const {
    std::vector<std::string> out(1);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\033') {
        while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
      } else if (text[i] == '\r') {
        if (i + 1 < text.size() && text[i + 1] != '\n') out.back().clear();
      } else if (text[i] == '\n') {
        out.emplace_back();
      } else {
        out.back() += text[i];
      }
    }
    if (out.back().empty()) out.pop_back();
    return out;
  }
  // Not a bar's "\033[K", which comes where a command takes long.
  bool coloured() const {
    for (size_t at = 0; (at = text.find("\033[", at)) != std::string::npos; at += 2)
      if (text[std::min(text.find_first_not_of("0123456789;", at + 2), text.size() - 1)] == 'm')
        return true;
    return false;
  }
};

// `type` sees what has come so far, each time more comes, and says what a person types then.
inline ScreenRun run_on_screen(
    const TempFolder& folder, const std::string& arguments, int columns,
    const std::string& environment = "",
    const std::function<std::string(const std::string&)>& type = nullptr) {
  const int ours = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(ours >= 0);
  REQUIRE(::grantpt(ours) == 0);
  REQUIRE(::unlockpt(ours) == 0);
  const std::string name = ::ptsname(ours);
  winsize size{};
  size.ws_row = 30;
  size.ws_col = static_cast<unsigned short>(columns);
  ::ioctl(ours, TIOCSWINSZ, &size);
  const std::string command = "cd '" + folder.path() +
                              "' && exec env -u GRADUS_DEVICE -u NO_COLOR -u COLUMNS TERM=xterm " +
                              environment + " '" + GRADUS_PROGRAM + "' " + arguments;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setsid();
    const int theirs = ::open(name.c_str(), O_RDWR);  // becomes the terminal of this session
    for (int fd = 0; fd < 3; ++fd) ::dup2(theirs, fd);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ScreenRun run{0, ""};
  char part[4096];
  // Its end is an error: nobody has the other side open any more.
  for (ssize_t n = 0; (n = ::read(ours, part, sizeof part)) > 0;) {
    run.text.append(part, size_t(n));
    const std::string typed = type ? type(run.text) : "";
    if (!typed.empty()) REQUIRE(::write(ours, typed.data(), typed.size()) > 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(ours);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

}  // namespace gradus::test
