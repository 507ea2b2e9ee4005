// The pool of threads.hpp. A round begins when round_ rises and ends when busy_ reaches zero; both
// are watched for some microseconds before the thread sleeps, since kernels follow each other fast.
#include "kernels/cpu/threads.hpp"

namespace gradus::cpu {

namespace {
constexpr int kSpins = 2000;
thread_local bool inside_task = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}
}  // namespace

Pool::Pool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
  workers_.clear();
}

void Pool::take_tasks() {
  inside_task = true;
  for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) task_(context_, i);
  inside_task = false;
}

void Pool::run(int64_t tasks, Task task, void* context) {
  std::unique_lock user(users_, std::defer_lock);
  if (tasks < 2 || workers_.empty() || inside_task || !user.try_lock()) {
    for (int64_t i = 0; i < tasks; ++i) task(context, i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    tasks_ = tasks;
    task_ = task;
    context_ = context;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(int(workers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  take_tasks();
  for (int i = 0; i < kSpins && busy_.load(std::memory_order_acquire) != 0; ++i) pause();
  if (busy_.load(std::memory_order_acquire) != 0) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_.load(std::memory_order_acquire) == 0; });
  }
}

void Pool::work() {
  for (uint64_t seen = 0;;) {
    for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) pause();
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen; });
      seen = round_.load(std::memory_order_acquire);
      if (stop_) return;
    }
    take_tasks();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace gradus::cpu
