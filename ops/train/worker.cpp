// A thread, a lock and a place for one job.
#include "ops/train/worker.hpp"

#include <chrono>
#include <utility>

namespace gradus::inline v1::training {

namespace {
// Waits, at first awake: to be woken takes longer than many a step.
template <class F>
void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, F&& holds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!holds() && std::chrono::steady_clock::now() - begin < std::chrono::microseconds(100)) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  changed.wait(lock, holds);
}
}  // namespace

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::begin(std::function<void()> job) {
  wait();
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  wait_until(lock, changed_, [&] { return !job_; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_until(lock, changed_, [&] { return job_ || ends_; });
    if (!job_) return;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      job_();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    job_ = nullptr;
    thrown_ = thrown;
    changed_.notify_all();
  }
}

}  // namespace gradus::training
