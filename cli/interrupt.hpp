// Ctrl-C while something long runs: the first SIGINT is noted, so that the step can be finished and
// saved; the second ends the program at once.
#pragma once
#include <csignal>

namespace gradus::cli {

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  // Has a SIGINT come since this scope began?
  static bool interrupted();

 private:
  struct sigaction before_;
};

}  // namespace gradus::cli
