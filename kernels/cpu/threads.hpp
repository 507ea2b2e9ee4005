// A small thread pool: persistent workers, tasks cut by size beforehand by the caller. Which thread
// runs a task never changes a result, so tasks are simply taken from a counter. The caller takes
// part. Threads are made when work is first shared out: a program that never does so has none. A
// call from inside a task, or while another thread uses the pool, runs inline: no deadlock. After
// fork() the child has none of the threads, and its pool starts anew. Knows nothing of kernels.
// Built on std primitives only, so that TSan sees every hand-over.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gradus::inline v1::cpu {

class Pool {
 public:
  using Task = void (*)(void* context, int64_t index);

  // threads >= 1 counts the caller. Where the system gives fewer, fewer share the work.
  explicit Pool(int threads) : threads_(threads) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }
  static void renew_all();  // in the child of a fork()
  // Returns when task(context, i) has returned for every i in [0, tasks). Tasks must not throw.
  void run(int64_t tasks, Task task, void* context);

 private:
  void start();
  void work();
  void take_tasks();

  const int threads_;
  std::mutex users_;  // held by the one caller whose tasks the workers run
  bool started_ = false;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  // Of the round: its number, whether it is open, and how many workers are inside. Workers enter
  // while it is open, so nobody waits for one that comes late.
  std::atomic<uint64_t> round_{0};
  std::atomic<int64_t> next_{0};
  int64_t tasks_ = 0;
  Task task_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
};

}  // namespace gradus::cpu
