// Generator: a stream of Philox numbers. Its position is base + relative: `relative` counts the
// numbers drawn since begin_step(), `base` lies in a one-step buffer on the device that kernels
// read, so that a recorded step can be replayed with the next numbers. Threads: one generator per
// thread of use.
#pragma once
#include "engine/tensor.hpp"

#include <map>

namespace gradus::inline v1 {

class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : seed_(seed) {}
  uint64_t seed() const { return seed_; }
  uint64_t position() const { return base_ + relative_; }
  // Starts again from (seed, position); checkpoints keep both.
  void set(uint64_t seed, uint64_t position = 0);
  // Folds what was drawn into the base, so that the next step begins at relative 0.
  void begin_step();
  // Takes n numbers: the state tensor {seed, base} on the device, and where this draw begins.
  struct Draw {
    Tensor state;
    int64_t relative;
  };
  Draw take(int64_t n, Device& device);

 private:
  uint64_t seed_, base_ = 0, relative_ = 0;
  std::map<Device*, Tensor> states_;
};

// The generator that random ops of this thread use; manual_seed() restarts it. Each thread has its
// own, which begins at seed 0: what a thread draws depends on its own calls alone, never on how
// threads take turns. So manual_seed() reaches no other thread, and threads that shall draw
// different numbers say so first: manual_seed(seed + number of the thread).
Generator& default_generator();
void manual_seed(uint64_t seed);

}  // namespace gradus
