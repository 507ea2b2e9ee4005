// One flag, set by a handler that the system takes away after its first use.
#include "cli/interrupt.hpp"

#include <atomic>

namespace gradus::cli {

namespace {
std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void note_interrupt(int) { came.store(true, std::memory_order_relaxed); }
}  // namespace

InterruptScope::InterruptScope() {
  came = false;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = int(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptScope::interrupted() { return came.load(std::memory_order_relaxed); }

}  // namespace gradus::cli
