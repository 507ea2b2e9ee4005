// Ctrl-C (or SIGTERM, SIGHUP) while something long runs: the first is noted, so that the step can
// be finished and saved; the second of its kind ends the program at once.
#pragma once
#include <array>
#include <csignal>

namespace gradus::cli {

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

}  // namespace gradus::cli
