// One flag, set by a handler that the system takes away after its first use.
#include "cli/frame/interrupt.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {
std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void note_interrupt(int) { came.store(true, std::memory_order_relaxed); }

// A handler may write, and no more: its words are made before.
struct Words {
  std::array<char, 512> text;
  size_t size;
  void set(const std::string& from) {
    size = std::min(from.size(), text.size());
    std::memcpy(text.data(), from.data(), size);
  }
  void write(int descriptor) const {
    [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), size);
  }
};
Words last_line{}, last_event{};
extern "C" void end_by_interrupt(int) {
  last_line.write(STDERR_FILENO);
  last_event.write(STDOUT_FILENO);
  ::_exit(130);
}
}  // namespace

InterruptScope::InterruptScope() {
  came = false;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = int(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN)  // as nohup and a shell's background have it
      ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

InterruptEnds::InterruptEnds(const std::string& line, const std::string& event) {
  last_line.set(line);
  last_event.set(event);
  ::sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = end_by_interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptEnds::~InterruptEnds() { ::sigaction(SIGINT, &before_, nullptr); }

bool InterruptScope::interrupted() { return came.load(std::memory_order_relaxed); }

}  // namespace gradus::cli
