// malloc and its kin, counted, above the C library's own. Each thread adds up what it takes and
// gives back, and tells of it in steps: a call costs a nanosecond or two more.
#include "bindings/heap/heap.hpp"

#include <malloc.h>

#ifdef GRADUS_SANITIZED

// As in sanitizer/allocator_interface.h, which not every compiler brings; not all of them have it.
extern "C" [[gnu::weak]] size_t __sanitizer_get_current_allocated_bytes();

namespace gradus::inline v1::heap {
size_t live() {
  return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}
Bounded::Bounded(size_t most) : before_(most) {}
Bounded::~Bounded() { static_cast<void>(before_); }
Unbounded::Unbounded() {}
Unbounded::~Unbounded() {}
void trim() {}
}  // namespace gradus::heap

#else

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <pthread.h>
#include <utility>

#ifndef __GLIBC__
#error "blocks are counted above glibc's allocator: name that of this C library here"
#endif

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace gradus::inline v1::heap {

constinit std::atomic<int64_t> total{0};

namespace {

constexpr int64_t kStep = 16 << 10;  // bytes between two additions to the total
constexpr int kMapped = 1 << 20;
constexpr size_t kLarge = 64 << 10;         // a block of its own weight
constexpr size_t kBeside = sizeof(size_t);  // of a block, for the allocator

struct Here {  // of a thread
  int64_t untold = 0;
  size_t most = 0;  // 0: no bound
  int unbounded = 0;
  bool full = false;  // was there no room when the total was last looked at?
  bool known = false;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Here here;

// What a thread has not told of when it ends.
[[gnu::cold, gnu::noinline]] void tell_at_end() {
  here.known = true;
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void*) {
      total.fetch_add(std::exchange(here.untold, 0), std::memory_order_relaxed);
    });
    return made;
  }();
  pthread_setspecific(key, &here);
}

[[gnu::noinline]] void tell() {
  const int64_t change = std::exchange(here.untold, 0);
  const int64_t now = total.fetch_add(change, std::memory_order_relaxed) + change;
  here.full = here.most > 0 && now > int64_t(here.most);
  if (!here.known) tell_at_end();
}
inline void add(int64_t bytes) {
  here.untold += bytes;
  if (here.untold > kStep || here.untold < -kStep) [[unlikely]]
    tell();
}

[[gnu::cold, gnu::noinline]] bool refuses(size_t bytes) {
  if (here.most == 0 || here.unbounded > 0 || std::uncaught_exceptions() > 0) return false;
  const size_t now = live();
  here.full = now > here.most;
  if (!here.full && bytes <= here.most - now) return false;
  errno = ENOMEM;
  return true;
}
inline bool refused(size_t bytes) { return (here.full || bytes >= kLarge) && refuses(bytes); }

inline int64_t size_of(void* p) { return int64_t(malloc_usable_size(p) + kBeside); }
inline void* counted(void* p) {
  if (p) add(size_of(p));
  return p;
}

}  // namespace

Bounded::Bounded(size_t most) : before_(std::exchange(here.most, most)) {
  here.full = false;
  // Large blocks are mapped, and unmapped when they are freed. Left to itself, glibc soon takes
  // them from its heap, where the holes between them stay resident: five times what is allocated.
  if (most > 0) mallopt(M_MMAP_THRESHOLD, kMapped);
}
Bounded::~Bounded() {
  here.most = before_;
  here.full = false;
}
Unbounded::Unbounded() { ++here.unbounded; }
Unbounded::~Unbounded() { --here.unbounded; }

void trim() { malloc_trim(0); }

}  // namespace gradus::heap

// ---- what programs call

namespace heap = gradus::heap;

extern "C" {

void* malloc(size_t bytes) noexcept {
  return heap::refused(bytes) ? nullptr : heap::counted(__libc_malloc(bytes));
}

void* calloc(size_t count, size_t bytes) noexcept {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) all = SIZE_MAX;
  return heap::refused(all) ? nullptr : heap::counted(__libc_calloc(count, bytes));
}

void* realloc(void* p, size_t bytes) noexcept {
  if (!p) return malloc(bytes);
  const int64_t before = heap::size_of(p);
  if (int64_t(bytes) > before && heap::refused(bytes - size_t(before))) return nullptr;
  void* const q = __libc_realloc(p, bytes);
  if (q || bytes == 0) heap::add((q ? heap::size_of(q) : 0) - before);
  return q;
}

void free(void* p) noexcept {
  if (!p) return;
  heap::add(-heap::size_of(p));
  __libc_free(p);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  if (heap::refused(bytes)) return nullptr;
  void* p = __libc_memalign(alignment, bytes);
  // A mapped block keeps what it did not need of its alignment, which is up to chance: the end is
  // cut off, where it stands.
  if (p && malloc_usable_size(p) > bytes + heap::kLarge) p = __libc_realloc(p, bytes);
  return heap::counted(p);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
    return EINVAL;
  const int before = errno;
  void* const p = memalign(alignment, bytes);
  errno = before;  // the answer tells
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void* valloc(size_t bytes) noexcept { return memalign(4096, bytes); }
void* pvalloc(size_t bytes) noexcept { return memalign(4096, (bytes + 4095) / 4096 * 4096); }

}  // extern "C"

#endif
