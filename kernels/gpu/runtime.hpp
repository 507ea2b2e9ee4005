// A device of this module while it runs: its stream and what has gone wrong on it;
// and Run, what a slot is given. Errors of the vendor's library become refusals here.
// Threads: calls of one device are ordered by its lock.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/gpu/options.hpp"
#include "kernels/gpu/vendor.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <typeinfo>
#include <vector>

namespace gradus::inline v1::gpu {

using namespace calls;

inline constexpr int kMaxViewRank = 64;

class GemmLibrary;
class TensorLibrary;
class SolverLibrary;

// Throws a Refusal with the library's name and number for e, unless it is success. `what` is the
// work that failed. A sticky error marks the device as lost.
void check(gd_device* device, Error e, const char* what);

gd_status status_of(Error e);
const char* hint_of(Error e);  // what to do about it, or ""

// What a kernel says about the values that it met: the first that says it wins.
struct Complaint {
  int32_t code;  // 0: nothing; else one of Wrong
  int32_t slot;
  int64_t value, limit;
};
enum Wrong : int32_t { kNothing = 0, kIndexOutside = 1 };

}  // namespace gradus::gpu

struct gd_device {
  int index = 0;
  char name[40] = "";
  char arch[64] = "";
  int wave = 32, units = 1;
  gradus::gpu::Options options;
  gradus::gpu::Stream stream = nullptr;
  // Of each stream; pinned: kernels write it, the host reads it after a wait. By `mutex`.
  std::map<gradus::gpu::Stream, gradus::gpu::Complaint*> complaints;
  bool capturing = false;
  std::thread::id capturer;              // whose calls go into the graph
  std::condition_variable captured_all;  // others wait for its end
  // Null until a call asks for them (contract/contract_libraries.cu, linalg/solver.cu).
  gradus::gpu::GemmLibrary* gemm_library = nullptr;
  gradus::gpu::TensorLibrary* tensor_library = nullptr;
  gradus::gpu::SolverLibrary* solver_library = nullptr;
  // Set once, by lose(); the text does not change after.
  std::atomic<bool> lost = false;
  char why_lost[200] = "";
  std::mutex mutex;
  // The lock, for a call of this thread.
  std::unique_lock<std::mutex> enter() {
    std::unique_lock lock(mutex);
    captured_all.wait(lock, [&] { return !capturing || capturer == std::this_thread::get_id(); });
    return lock;
  }

  // With the lock: waits for a stream and looks at it.
  void wait(gradus::gpu::Stream on);
  void wait() { wait(stream); }
  // Refuses with what kernels complained about on a stream that was waited for; or on others, which
  // it may have waited for: but their complaints stay until they are looked at themselves.
  void look(gradus::gpu::Stream at);
  gradus::gpu::Stream new_stream();
  void lose(const char* what, const char* error);
  void expect_there() const;  // refuses if it is lost
  // Copies from host memory, which may change as soon as this returns, in the order of `on`: pieces
  // go through two pinned buffers of the stream in turn, so the host fills one while the other is
  // on its way. To be called without the lock, since it waits: calls on other streams go on.
  void upload(void* to, const void* from, size_t bytes, gradus::gpu::Stream on);
  void forget(gradus::gpu::Stream stream);  // which is about to be destroyed

 private:
  struct Staging {
    std::mutex mutex;
    void* data[2] = {};
    gradus::gpu::Event sent[2] = {};
    int next = 0;
  };
  std::map<gradus::gpu::Stream, Staging> staging_;  // by `mutex`
};

namespace gradus::inline v1::gpu {

// A kernel of this module, and how often it was launched. With GRADUS_KERNEL_RUNS=FILE in the
// environment a line for each, "RUNS NAME", is written there when the program ends.
struct Kernel {
  const void* function;
  const char* name;  // mangled
  int64_t runs = 0;
};
std::vector<Kernel>& kernels();
void count_launch(const void* function);
// A type whose name is "...Named<&NAME>": of a function's own name some compilers leave the
// template's arguments out.
template <auto F>
struct Named {};
template <auto F>
struct Known {
  static inline const bool listed = [] {
    kernels().push_back({reinterpret_cast<const void*>(F), typeid(Named<F>).name()});
    return true;
  }();
};
// The kernel F, which is listed when the module is loaded: launches name their kernels so.
template <auto F>
auto kernel() {
  (void)Known<F>::listed;
  return F;
}

struct Run {
  gd_device& device;
  Stream stream;
  Call& call;

  // The call's scratch memory, cut into pieces: take() gives the next one, 256 bytes or a multiple
  // after the last. Made before anything is launched: a call that has too little ends here.
  class Scratch {
   public:
    Scratch(const Run& run, size_t bytes)
        : first_(static_cast<char*>(run.call.raw().scratch)), room_(run.call.raw().scratch_bytes) {
      if (bytes > room_) throw ScratchWanted{int64_t(bytes)};
    }
    template <class T>
    T* take(int64_t count) {
      const size_t bytes = sizeof(T) * size_t(count), begin = taken_;
      if (begin + bytes > room_) throw ScratchWanted{int64_t(begin + bytes)};
      taken_ += whole(bytes);
      return reinterpret_cast<T*>(first_ + begin);
    }
    static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

   private:
    char* first_;
    size_t room_, taken_ = 0;
  };

  // Blocks for one thread per element, looping if there are too many.
  int64_t blocks_for(int64_t elements, int threads) const {
    const int64_t wanted = (elements + threads - 1) / threads, most = int64_t(device.units) * 32;
    return wanted < 1 ? 1 : wanted < most ? wanted : most;
  }
  // So many elements fill the device with one thread for each.
  int64_t full() const { return int64_t(device.units) * 2048; }
  // `blocks` blocks of `threads` threads.
  template <class... P, class... A>
  void grid(Threads kind, int64_t blocks, int threads, void (*function)(P...), A&&... args) const {
    check(&device, launch(kind, function, blocks, threads, stream, std::forward<A>(args)...),
          "a launch");
    count_launch(reinterpret_cast<const void*>(function));
  }
};

// A kernel's complaint. Of several at once any one stays: they are equal in kind.
GPU_MAY_RACE __device__ inline void complain(Complaint* c, Wrong code, int slot, int64_t value,
                                             int64_t limit) {
  if (c->code) return;
  c->slot = slot;
  c->value = value;
  c->limit = limit;
  c->code = code;
}

// The slots, one function each; they refuse by throwing.
void copy(Run&);
void copy_views(const Run&, const gd_view& from, const gd_view& to);  // within another slot's call
void fill(Run&);
void pointwise(Run&);
void pointwise_vjp(Run&);
void reduce(Run&);
void scan(Run&);
void contract(Run&);
void gather(Run&);
void scatter_add(Run&);
void random(Run&);
void softmax(Run&);
void normalize(Run&);
void optimizer_step(Run&);
void sort(Run&);
void linalg(Run&);
void chain(Run&);
void grouped(Run&);
void block_products(Run&, const GroupedCall&);  // of grouped: a call that is checked

}  // namespace gradus::gpu
