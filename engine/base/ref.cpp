// Counted objects come from lists of freed blocks, by size, that each thread keeps: a step of
// training makes and drops the same few kinds over and over. A block may die in another thread than
// the one that made it. Under sanitizers every object is an allocation of its own.
#include "engine/base/ref.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace gradus::inline v1 {

namespace {

#ifdef GRADUS_SANITIZED
constexpr int kKept = 0;
#else
constexpr int kKept = 4096;  // blocks of one size
#endif
constexpr size_t kStep = 32, kClasses = 32;  // blocks of 32, 64, ... 1024 bytes

struct Freed {
  Freed* next;
};
struct Lists {
  std::atomic<int64_t> objects{0};  // made minus dropped by this thread, which alone writes it
  Freed* first[kClasses] = {};
  int count[kClasses] = {};
};

struct Everywhere {
  std::mutex mutex;
  std::vector<Lists*> lists;
  int64_t objects = 0;  // of threads that have ended
};
Everywhere& everywhere() {
  static Everywhere* e = new Everywhere;
  return *e;
}

constinit thread_local Lists* lists = nullptr;
constinit thread_local bool ended = false;  // objects that outlive it go the plain way

struct Owner {  // of this thread's lists
  Owner() {
    lists = new Lists;
    const std::lock_guard lock(everywhere().mutex);
    everywhere().lists.push_back(lists);
  }
  ~Owner() {
    for (Freed* f : lists->first)
      while (f) ::operator delete(std::exchange(f, f->next));
    const std::lock_guard lock(everywhere().mutex);
    std::erase(everywhere().lists, lists);
    everywhere().objects += lists->objects;
    delete std::exchange(lists, nullptr);
    ended = true;
  }
};

[[gnu::noinline]] Lists* first_lists() {
  if (!ended) thread_local Owner owner;
  return lists;
}
inline Lists* lists_here() { return lists ? lists : first_lists(); }

[[gnu::always_inline]] inline void count_one(Lists* here, int64_t change) {
  if (here)
    here->objects.store(here->objects.load(std::memory_order_relaxed) + change,
                        std::memory_order_relaxed);
  else {
    const std::lock_guard lock(everywhere().mutex);
    everywhere().objects += change;
  }
}

}  // namespace

int64_t live_objects() {
  const std::lock_guard lock(everywhere().mutex);
  int64_t n = everywhere().objects;
  for (const Lists* l : everywhere().lists) n += l->objects.load(std::memory_order_relaxed);
  return n;
}

void* RefCounted::operator new(size_t bytes) {
  Lists* const here = lists_here();
  count_one(here, 1);
  const size_t k = (bytes - 1) / kStep;
  if (!here || k >= kClasses || !here->first[k]) return ::operator new((k + 1) * kStep);
  --here->count[k];
  return std::exchange(here->first[k], here->first[k]->next);
}

void RefCounted::operator delete(void* p, size_t bytes) {
  Lists* const here = lists_here();
  count_one(here, -1);
  const size_t k = (bytes - 1) / kStep;
  if (!here || k >= kClasses || here->count[k] >= kKept) return ::operator delete(p);
  ++here->count[k];
  here->first[k] = new (p) Freed{here->first[k]};
}

}  // namespace gradus
