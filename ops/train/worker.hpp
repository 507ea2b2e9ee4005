// Worker: a thread that does one job at a time, beside the thread that gives it.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace gradus::inline v1::training {

class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker();  // waits for the job
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Waits for the job before. Both throw what a job threw that nobody has waited for.
  void begin(std::function<void()> job);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: none, or done
  std::exception_ptr thrown_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace gradus::training
