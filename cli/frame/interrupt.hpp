// Ctrl-C (or SIGTERM, SIGHUP) while something long runs: the first is noted, so that the step can
// be finished and saved; the second of its kind ends the program at once.
#pragma once
#include <array>
#include <csignal>
#include <string>

namespace gradus::inline v1::cli {

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  // Has one come since this scope began?
  static bool interrupted();

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_;
};

// Elsewhere, where nothing has to be saved, the first Ctrl-C ends the program: with one line, and
// exit code 130. One of a program that was started to ignore it stays ignored.
class InterruptEnds {
 public:
  // Bytes for standard error and standard output.
  InterruptEnds(const std::string& line, const std::string& event);
  ~InterruptEnds();
  InterruptEnds(const InterruptEnds&) = delete;
  InterruptEnds& operator=(const InterruptEnds&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace gradus::cli
