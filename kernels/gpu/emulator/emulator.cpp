// Launches: blocks in order, their threads as a loop or as fibers.
#include "kernels/gpu/emulator/emulator.hpp"

#include "kernels/gpu/emulator/fibers.hpp"
#include "kernels/gpu/emulator/races.hpp"
#include "kernels/gpu/emulator/state.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace gradus::inline v1::emu {

Place* now = nullptr;

namespace {

constexpr size_t kSharedBytes = 48 << 10;  // what every vendor's default allows
constexpr size_t kMostThreads = 1024;
constexpr size_t kWord = 16;

enum class State { runs, at_barrier, at_exchange, done };

struct Thread {
  Place place;
  State state = State::done;
  uint64_t exchanges = 0;                               // how many it has begun in this block
  uint32_t barriers = 0;                                // how many it has met
  std::vector<std::pair<void*, const void*>> copies{};  // begun and not waited for: to, from
};

// What a lane hands over. Each has two, in turn, so that a fast lane's next word does not overwrite
// one that a slow lane has still to read.
struct Slot {
  uint64_t exchange = 0;  // whose it is; 0: none
  std::byte word[kWord];
};

// What a launch needs; kept from launch to launch.
struct Machine {
  std::vector<Thread> threads;
  std::deque<Fiber> fibers;
  std::vector<Slot> slots;  // two per thread
  alignas(64) std::byte shared[kSharedBytes];
  size_t shared_used = 0;
  std::map<const void*, std::pair<size_t, size_t>> sites;  // offset and bytes in this block
  bool together = false;
  int wave = 32;
  char text[200] = "";

  size_t index() const { return now->thread.x; }
  bool run_block_of_fibers(const std::function<void()>& body, bool reversed);
  void release();
};
Machine& machine() {
  static Machine* m = new Machine;  // its fibers may not die with the program's statics
  return *m;
}

std::mutex& launching() {
  static std::mutex m;
  return m;
}

}  // namespace

void fail_launch(const char* what) {
  Machine& m = machine();
  if (m.text[0]) return;
  std::snprintf(m.text, sizeof m.text, "block %u of %u, thread %u: %s", now->block.x, now->blocks.x,
                now->thread.x, what);
}

namespace {

// The host's stack, on which threads run that never meet.
std::pair<const void*, size_t> own_stack() {
  static thread_local const std::pair<const void*, size_t> own = [] {
    pthread_attr_t a;
    void* low = nullptr;
    size_t bytes = 0;
    if (::pthread_getattr_np(::pthread_self(), &a) == 0) {
      ::pthread_attr_getstack(&a, &low, &bytes);
      ::pthread_attr_destroy(&a);
    }
    return std::pair<const void*, size_t>{low, bytes};
  }();
  return own;
}

void goes_on(const Thread& t, std::pair<const void*, size_t> stack) {
  now = const_cast<Place*>(&t.place);
  if (races::watching)
    races::running(now->block.x, now->thread.x, &t.barriers, stack.first, stack.second);
}

void park(State state) {
  Machine& m = machine();
  const size_t i = m.index();
  m.threads[i].state = state;
  m.fibers[i].pause();
}

// Runs the threads until all have ended; false if they wait for each other in vain.
bool Machine::run_block_of_fibers(const std::function<void()>& body, bool reversed) {
  const size_t n = threads.size();
  while (fibers.size() < n) fibers.emplace_back();
  for (size_t i = 0; i < n; ++i) {
    threads[i].state = State::runs;
    threads[i].exchanges = 0;
    fibers[i].begin(&body);
  }
  for (;;) {
    bool all_done = true, any_ran = false;
    for (size_t k = 0; k < n; ++k) {
      const size_t i = reversed ? n - 1 - k : k;
      if (threads[i].state == State::runs) {
        goes_on(threads[i], fibers[i].stack());
        fibers[i].resume();
        if (fibers[i].done()) threads[i].state = State::done;
        any_ran = true;
      }
      all_done = all_done && threads[i].state == State::done;
    }
    if (all_done) return true;
    release();
    if (!any_ran) return false;
  }
}

// Lets go on who has met all that it waits for: a wave at an exchange, the block at a barrier.
void Machine::release() {
  bool block_waits = true;
  for (size_t first = 0; first < threads.size(); first += size_t(wave)) {
    const size_t end = std::min(threads.size(), first + size_t(wave));
    bool wave_waits = true;
    for (size_t i = first; i < end; ++i) {
      const State s = threads[i].state;
      wave_waits = wave_waits && (s == State::at_exchange || s == State::done);
      block_waits = block_waits && (s == State::at_barrier || s == State::done);
    }
    for (size_t i = first; wave_waits && i < end; ++i)
      if (threads[i].state == State::at_exchange) threads[i].state = State::runs;
  }
  for (Thread& t : threads)
    if (block_waits && t.state == State::at_barrier) t.state = State::runs;
}

}  // namespace

int wave_width() { return current_device() % 2 == 0 ? 32 : 64; }

void barrier() {
  Machine& m = machine();
  if (!m.together) return fail_launch("a barrier in a kernel launched as Threads::apart");
  park(State::at_barrier);
  ++m.threads[m.index()].barriers;
}

void copy_async(void* shared, const void* global) {
  std::memset(shared, 0xff, 16);
  if (races::watching) races::access(shared, 16, true);
  machine().threads[machine().index()].copies.emplace_back(shared, global);
}
void wait_copies() {
  auto& copies = machine().threads[machine().index()].copies;
  for (const auto& [shared, global] : copies) {
    if (races::watching) races::access(global, 16, false), races::access(shared, 16, true);
    std::memcpy(shared, global, 16);
  }
  copies.clear();
}

void exchange(void* value, size_t bytes, int lane) {
  Machine& m = machine();
  if (!m.together) return fail_launch("a shuffle in a kernel launched as Threads::apart");
  Thread& t = m.threads[m.index()];
  const uint64_t number = ++t.exchanges;
  const auto slot = [&](size_t thread) -> Slot& { return m.slots[2 * thread + number % 2]; };
  slot(m.index()).exchange = number;
  std::memcpy(slot(m.index()).word, value, bytes);
  park(State::at_exchange);
  const size_t from = m.index() / size_t(m.wave) * size_t(m.wave) + size_t(lane);
  // From a lane that is not there, or has ended, comes what was there: here, one's own value.
  if (lane >= 0 && lane < m.wave && from < m.threads.size() && slot(from).exchange == number)
    std::memcpy(value, slot(from).word, bytes);
}

void* shared(const void* site, size_t bytes, size_t align) {
  Machine& m = machine();
  if (const auto it = m.sites.find(site); it != m.sites.end() && it->second.second == bytes)
    return m.shared + it->second.first;
  const size_t at = (m.shared_used + align - 1) / align * align;
  if (at + bytes > kSharedBytes) {
    fail_launch("more than 48 KiB of shared memory");
    static std::byte beyond[1 << 20];
    return beyond;
  }
  m.shared_used = at + bytes;
  m.sites[site] = {at, bytes};
  return m.shared + at;
}

const char* failure() { return machine().text; }

emuError_t run(bool together, unsigned blocks, unsigned threads,
               const std::function<void()>& body) {
  if (blocks == 0 || threads == 0 || threads > kMostThreads) return emuErrorInvalidValue;
  const std::lock_guard lock(launching());
  Machine& m = machine();
  const bool reversed = current_device() >= 2;
  m.together = together;
  m.wave = wave_width();
  m.text[0] = 0;
  m.threads.resize(threads);
  if (races::watching) races::begin_launch();
  for (unsigned k = 0; k < blocks && !m.text[0]; ++k) {
    std::memset(m.shared, 0xff, k == 0 ? kSharedBytes : m.shared_used);
    m.sites.clear();
    m.shared_used = 0;
    m.slots.assign(size_t(threads) * 2, Slot{});
    if (races::watching) races::begin_block(m.shared, kSharedBytes);
    for (unsigned i = 0; i < threads; ++i) {
      m.threads[i].place = {{i}, {reversed ? blocks - 1 - k : k}, {threads}, {blocks}};
      m.threads[i].barriers = 0;
      m.threads[i].copies.clear();
    }
    if (together) {
      if (!m.run_block_of_fibers(body, reversed)) {
        fail_launch("its threads wait for each other for ever");
        while (!m.fibers.empty()) m.fibers.pop_back();  // they stand in the middle of the kernel
      }
    } else {
      for (unsigned i = 0; i < threads; ++i) {
        goes_on(m.threads[reversed ? threads - 1 - i : i], own_stack());
        body();
      }
    }
  }
  if (races::watching) races::ended();
  return m.text[0] ? emuErrorLaunchFailure : emuSuccess;
}

}  // namespace gradus::emu
