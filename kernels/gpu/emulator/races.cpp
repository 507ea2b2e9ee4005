// What was touched by whom, byte by byte, in pages that a launch makes as it needs them.
#include "kernels/gpu/emulator/races.hpp"

#include "kernels/gpu/emulator/state.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

namespace gradus::inline v1::emu::races {

bool watching = [] {
  const char* const v = std::getenv("GRADUS_EMU_RACES");
  return v && *v && *v != '0';
}();

namespace {

// A thread at a time: `block` is counted from 1, and 0 is nobody.
struct Who {
  uint32_t block = 0, thread = 0, barriers = 0;
};
// The last write, the last read, and whether threads of several blocks have read, or several of one
// block since its last barrier.
struct Byte {
  Who writer, reader;
  bool many_blocks = false, many_threads = false;
};
constexpr uintptr_t kPage = 256;
using Page = std::array<Byte, kPage>;

struct Launch {
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  uintptr_t shared = 0, shared_end = 0, stack = 0, stack_end = 0;
  Who me;
  const uint32_t* barriers = nullptr;
  bool told = false;
};
thread_local bool launching = false;  // this host thread runs the kernel
Launch& launch() {
  static auto* const l = new Launch;
  return *l;
}

bool ordered(const Who& a, const Who& b) {
  return a.block == 0 || (a.block == b.block && (a.thread == b.thread || a.barriers != b.barriers));
}

void tell(const Who& other, const char* mine, const char* theirs) {
  Launch& l = launch();
  if (l.told) return;
  l.told = true;
  char text[160];
  std::snprintf(text, sizeof text, "a race: it %s what thread %u of block %u %s, in no order", mine,
                other.thread, other.block - 1, theirs);
  fail_launch(text);
}

void look(Byte& b, const Who& me, bool write, bool shared) {
  if (shared && b.writer.block != me.block) b.writer = {};
  if (shared && b.reader.block != me.block) b.reader = {}, b.many_blocks = b.many_threads = false;
  if (!ordered(b.writer, me)) tell(b.writer, write ? "writes" : "reads", "writes");
  if (write) {
    const bool by_another = !ordered(b.reader, me);
    const bool by_several = b.many_blocks || (b.many_threads && b.reader.barriers == me.barriers);
    if (by_another || by_several) tell(b.reader, "writes", "reads");
    b.writer = me;
    return;
  }
  if (b.reader.block != 0 && b.reader.block != me.block)
    b.many_blocks = true;
  else if (b.reader.block != 0 && b.reader.barriers == me.barriers)
    b.many_threads = b.many_threads || b.reader.thread != me.thread;
  else
    b.many_threads = false;
  b.reader = me;
}

}  // namespace

void begin_launch() {
  Launch& l = launch();
  l.pages.clear();
  l.told = false;
}
void begin_block(const void* shared, size_t bytes) {
  launch().shared = uintptr_t(shared);
  launch().shared_end = uintptr_t(shared) + bytes;
}
void running(uint32_t block, uint32_t thread, const uint32_t* barriers, const void* stack,
             size_t bytes) {
  Launch& l = launch();
  launching = true;
  l.me = {block + 1, thread, 0};
  l.barriers = barriers;
  l.stack = uintptr_t(stack);
  l.stack_end = uintptr_t(stack) + bytes;
}
void ended() { launching = false; }

void access(const void* p, size_t bytes, bool write) {
  if (!launching) return;
  Launch& l = launch();
  const auto begin = uintptr_t(p);
  if (begin >= l.stack && begin < l.stack_end) return;
  const Who me{l.me.block, l.me.thread, *l.barriers};
  for (uintptr_t at = begin; at < begin + bytes; ++at) {
    std::unique_ptr<Page>& page = l.pages[at / kPage];
    if (!page) page = std::make_unique<Page>();
    look((*page)[at % kPage], me, write, at >= l.shared && at < l.shared_end);
  }
}

}  // namespace gradus::emu::races

// ---- what the compiler calls

#ifndef GRADUS_SANITIZED
using gradus::emu::races::access;
using gradus::emu::races::watching;

#define GRADUS_ACCESS(name, bytes)   \
  void __tsan_read##name(void* p) {  \
    if (watching) [[unlikely]]       \
      access(p, bytes, false);       \
  }                                  \
  void __tsan_write##name(void* p) { \
    if (watching) [[unlikely]]       \
      access(p, bytes, true);        \
  }
#define GRADUS_UNALIGNED(name, bytes)          \
  void __tsan_unaligned_read##name(void* p) {  \
    if (watching) [[unlikely]]                 \
      access(p, bytes, false);                 \
  }                                            \
  void __tsan_unaligned_write##name(void* p) { \
    if (watching) [[unlikely]]                 \
      access(p, bytes, true);                  \
  }
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
void __tsan_init() {}
GRADUS_ACCESS(1, 1)
GRADUS_ACCESS(2, 2)
GRADUS_ACCESS(4, 4)
GRADUS_ACCESS(8, 8)
GRADUS_ACCESS(16, 16)
GRADUS_UNALIGNED(2, 2)
GRADUS_UNALIGNED(4, 4)
GRADUS_UNALIGNED(8, 8)
GRADUS_UNALIGNED(16, 16)
void __tsan_read_range(void* p, size_t bytes) {
  if (watching) [[unlikely]]
    access(p, bytes, false);
}
void __tsan_write_range(void* p, size_t bytes) {
  if (watching) [[unlikely]]
    access(p, bytes, true);
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
// The guards of local statics.
uint8_t __tsan_atomic8_load(const volatile uint8_t* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
}
#endif
