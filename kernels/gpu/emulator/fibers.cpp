// A fiber is entered once by ucontext; from then on it is left and entered by the compiler's setjmp
// and longjmp, which make no system call (swapcontext makes two).
#include "kernels/gpu/emulator/fibers.hpp"

#include <cstdint>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define GRADUS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADUS_ASAN 1
#endif
#endif
#ifdef GRADUS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace gradus::inline v1::emu {

namespace {

#ifdef GRADUS_ASAN
constexpr size_t kStack = 256 << 10;  // frames with red zones
#else
constexpr size_t kStack = 64 << 10;
#endif

void leaving([[maybe_unused]] void** fake, [[maybe_unused]] const void* stack,
             [[maybe_unused]] size_t size) {
#ifdef GRADUS_ASAN
  __sanitizer_start_switch_fiber(fake, stack, size);
#endif
}
void arrived([[maybe_unused]] void* fake, [[maybe_unused]] const void** stack,
             [[maybe_unused]] size_t* size) {
#ifdef GRADUS_ASAN
  __sanitizer_finish_switch_fiber(fake, stack, size);
#endif
}

// A function may not jump to a place that it has set itself.
__attribute__((noinline, noreturn, no_sanitize("address"))) void jump(void** to) {
  __builtin_longjmp(to, 1);
}
__attribute__((noinline, no_sanitize("address"))) void change(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) jump(to);
}

}  // namespace

Fiber::Fiber() {
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  // With a page below that nobody may touch: an overflow is a fault there, not another's data.
  void* p =
      ::mmap(nullptr, kStack + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(p, page, PROT_NONE);
  stack_ = static_cast<char*>(p) + page;
}

Fiber::~Fiber() {
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  ::munmap(static_cast<char*>(stack_) - page, kStack + page);
}

std::pair<const void*, size_t> Fiber::stack() const { return {stack_, kStack}; }

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>(uintptr_t(high) << 32 | uintptr_t(low))->run();
}

void Fiber::run() {
  arrived(nullptr, &scheduler_stack_, &scheduler_size_);
  for (;;) {
    (*body_)();
    done_ = true;
    pause();
  }
}

__attribute__((no_sanitize("address"))) void Fiber::resume() {
  leaving(&scheduler_fake_, stack_, kStack);
  if (started_) {
    change(scheduler_, own_);
  } else {
    started_ = true;
    ucontext_t context;
    ::getcontext(&context);
    context.uc_stack.ss_sp = stack_;
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    ::makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::enter), 2, unsigned(self >> 32),
                  unsigned(self & 0xffffffffu));
    if (__builtin_setjmp(scheduler_) == 0) ::setcontext(&context);
  }
  arrived(scheduler_fake_, nullptr, nullptr);
}

__attribute__((no_sanitize("address"))) void Fiber::pause() {
  leaving(&own_fake_, scheduler_stack_, scheduler_size_);
  change(own_, scheduler_);
  arrived(own_fake_, &scheduler_stack_, &scheduler_size_);
}

}  // namespace gradus::emu
