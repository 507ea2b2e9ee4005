// Replay: a recorded step, planned: buffers have places, calls stand ready with their pointers.
#pragma once
#include "engine/random.hpp"
#include "engine/capture/recording.hpp"

namespace gradus::inline v1::wrap {

// Memory for what dies inside of a step, and for kernels. Grows; a replay follows.
struct Arena {
  Tensor memory, scratch;
  // At least so many bytes of one of the two.
  static void* reserve(Tensor& part, size_t bytes, Device& device);
};

// Places for buffers whose lives, from call `first` to call `last`, may not overlap in memory.
struct Life {
  size_t bytes, first, last;
  size_t offset = 0;
};
size_t place(std::vector<Life>& lives);  // sets the offsets, returns the bytes of all

class Replay {
 public:
  // Takes over what the recorder saw; recorder.why says if that can't be replayed.
  Replay(Device& device, StepRecorder& recorder, std::shared_ptr<Arena> arena);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  void run();
  void set_draws(Generator& generator, uint64_t count) { generator_ = &generator, draws_ = count; }
  size_t calls() const { return ready_.size(); }
  size_t arena_bytes() const { return arena_bytes_; }

 private:
  // A buffer that outlives the step: the storage that holds it, and the views that point into it.
  struct Binding {
    Ref<Storage> storage;
    bool written = false;
    void* bound = nullptr;
    std::vector<uint32_t> views{};
  };
  struct Leaf {
    Ref<Autograd> leaf;
    bool added;
    Tensor before, after;
  };
  using Slot = gd_status (*)(gd_device*, gd_stream*, const gd_call*, gd_error*);
  struct Ready {
    Slot slot;
    gd_call call;
  };
  uint32_t bind(Storage& storage);
  void resolve(StepRecorder& recorder);
  // Fewer calls; returns those that run once, now.
  std::vector<RecordedCall> fuse(StepRecorder& recorder);
  void lay_out(const std::vector<RecordedCall>& calls,
               const std::unordered_map<uint64_t, size_t>& bytes);
  void run_once(size_t count);
  void follow();
  void run_again(size_t call, gd_status first, int64_t wanted);
  void run_calls();
  bool run_graph();

  Device& device_;
  std::shared_ptr<Arena> arena_;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;  // scratch: the most that a call wanted
  void *arena_bound_ = nullptr, *scratch_bound_ = nullptr;
  size_t scratch_bound_bytes_ = 0;
  std::vector<std::pair<uint32_t, size_t>> arena_views_{};  // and their places
  std::vector<Binding> bindings_{};
  std::unordered_map<uint64_t, uint32_t> binding_of_{};  // by buffer
  std::vector<Leaf> leaves_{};
  Generator* generator_ = nullptr;
  uint64_t draws_ = 0;

  // The device's own graph of the calls: recorded when they ran from the same memory before,
  // dropped when memory moves, given up for good when the device can't record them.
  void* graph_ = nullptr;
  int runs_ = 0;  // since memory moved
  bool wants_graph_ = false;

  std::vector<Ready> ready_{};
  std::vector<std::string> names_{};
  std::vector<gd_view> views_{};
  std::vector<int64_t> integers_{};  // sizes, strides, ints
  std::vector<double> doubles_{};
};

}  // namespace gradus::wrap
