// Fibers of one host thread: functions with stacks of their own that hand over to each other.
// Stacks are kept for the next launch. Sanitizers are told of every change of stack.
#pragma once
#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace gradus::inline v1::emu {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Begins f, at the next resume().
  void begin(const std::function<void()>* f) { body_ = f, done_ = false; }
  // From the scheduler: goes on with this fiber until it pauses or ends.
  void resume();
  // From within the fiber: back to the scheduler.
  void pause();
  bool done() const { return done_; }
  std::pair<const void*, size_t> stack() const;

 private:
  static void enter(unsigned high, unsigned low);
  void run();

  const std::function<void()>* body_ = nullptr;
  bool started_ = false, done_ = true;
  void* stack_;
  void* own_[5];        // where the fiber goes on
  void* scheduler_[5];  // where its caller does
  void* own_fake_ = nullptr;
  void* scheduler_fake_ = nullptr;  // AddressSanitizer's own stacks
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_size_ = 0;
};

}  // namespace gradus::emu
