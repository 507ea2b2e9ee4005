// The pool of threads.hpp. round_ is watched for some microseconds before a thread sleeps, since
// kernels follow each other fast.
#include "kernels/cpu/threads.hpp"

#include <new>
#include <pthread.h>

namespace gradus::inline v1::cpu {

namespace {
constexpr int kSpins = 2000;
// round_: workers inside, the open bit, the number.
constexpr uint64_t kInside = 0xffff, kOpen = 0x10000, kOneRound = 0x20000;
thread_local bool inside_task = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}
// Those that have threads. Locked while a process forks, so that the child finds it whole.
struct Started {
  std::mutex mutex{};
  std::vector<Pool*> pools{};
};
Started& started() {
  static Started* s = new Started;
  return *s;
}
void watch_forks() {
  static const int once = ::pthread_atfork([] { started().mutex.lock(); },
                                           [] { started().mutex.unlock(); }, &Pool::renew_all);
  (void)once;
}
}  // namespace

// Locks may be held by threads that are not here: what they guard is left as it is, not destroyed.
void Pool::renew_all() {
  for (Pool* p : started().pools) {
    const int threads = p->threads_;
    new (p) Pool(threads);
  }
  started().pools.clear();
  started().mutex.unlock();
}

void Pool::start() {
  started_ = true;
  watch_forks();
  {
    const std::lock_guard lock(started().mutex);
    started().pools.push_back(this);
  }
  try {
    for (int i = 1; i < threads_; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    // The system gives no more: those there are share the work.
  }
}

Pool::~Pool() {
  {
    const std::lock_guard lock(started().mutex);
    std::erase(started().pools, this);
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    round_.store((round_.load(std::memory_order_relaxed) & ~(kOneRound - 1)) + kOneRound + kOpen,
                 std::memory_order_release);
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void Pool::take_tasks() {
  inside_task = true;
  for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) task_(context_, i);
  inside_task = false;
}

void Pool::run(int64_t tasks, Task task, void* context) {
  std::unique_lock user(users_, std::defer_lock);
  bool shared = tasks >= 2 && threads_ > 1 && !inside_task && user.try_lock();
  if (shared && !started_) start();
  if (shared && workers_.empty()) {
    user.unlock();
    shared = false;
  }
  if (!shared) {
    for (int64_t i = 0; i < tasks; ++i) task(context, i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    tasks_ = tasks;
    task_ = task;
    context_ = context;
    next_.store(0, std::memory_order_relaxed);
    // All have left the round before this one.
    round_.store(round_.load(std::memory_order_relaxed) + kOneRound + kOpen,
                 std::memory_order_release);
  }
  start_.notify_all();
  take_tasks();
  round_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto left = [this] { return (round_.load(std::memory_order_acquire) & kInside) == 0; };
  for (int i = 0; i < kSpins && !left(); ++i) pause();
  if (!left()) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, left);
  }
}

void Pool::work() {
  uint64_t seen = 0, now = 0;  // numbers and open bits
  const auto begun = [&] {
    now = round_.load(std::memory_order_acquire);
    return (now & kOpen) != 0 && (now & ~kInside) != seen;
  };
  for (;;) {
    for (int i = 0; i < kSpins && !begun(); ++i) pause();
    if (!begun()) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, begun);
    }
    if (!round_.compare_exchange_strong(now, now + 1, std::memory_order_acq_rel)) continue;
    seen = now & ~kInside;
    if (stop_) return;
    take_tasks();
    if ((round_.fetch_sub(1, std::memory_order_acq_rel) & (kInside | kOpen)) == 1) {
      std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace gradus::cpu
