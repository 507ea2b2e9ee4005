// The program's heap, counted: every block that any code of this process has allocated, in whatever
// language it was asked for, with what the allocator keeps beside it. Scripts are bounded by that
// (--max-memory), not by estimates per object.
// Defined by the library gradus_heap, which takes malloc's place and so belongs to programs alone.
// Under sanitizers, which take that place themselves, bytes are counted and nothing is refused.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::heap {

// What is allocated now; the last few KiB of each thread may lack.
#ifdef GRADUS_SANITIZED
size_t live();
#else
extern std::atomic<int64_t> total;
inline size_t live() {
  const int64_t now = total.load(std::memory_order_relaxed);
  return now > 0 ? size_t(now) : 0;
}
#endif

// While it lives, this thread is refused blocks beyond `most` live bytes: malloc gives a null
// pointer, new throws std::bad_alloc. Not while an exception is on its way. A function that may
// not throw, and asks for a block just then, ends the program.
class Bounded {
 public:
  explicit Bounded(size_t most);  // 0: no bound
  ~Bounded();
  Bounded(const Bounded&) = delete;
  Bounded& operator=(const Bounded&) = delete;

 private:
  size_t before_;
};

// While it lives, nothing is refused: for what tells of an error, or frees memory.
class Unbounded {
 public:
  Unbounded();
  ~Unbounded();
  Unbounded(const Unbounded&) = delete;
  Unbounded& operator=(const Unbounded&) = delete;
};

// Free blocks go back to the system.
void trim();

}  // namespace gradus::heap
