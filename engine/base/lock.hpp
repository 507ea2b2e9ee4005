// Lock: a spinning lock for a few instructions at a time; one byte, one atomic exchange to take.
#pragma once
#include <atomic>
#include <thread>

namespace gradus::inline v1 {

class Lock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire))
      for (int spins = 0; flag_.test(std::memory_order_relaxed);)
        if (++spins > 100) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

}  // namespace gradus
