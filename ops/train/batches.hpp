// Samples on their way to the device: the order of an epoch, and batches in buffers that stay the
// same from step to step (so that a recorded step can be replayed with the next batch).
#pragma once
#include "ops/train/data/dataset.hpp"
#include "engine/tensor.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>

namespace gradus::inline v1::training {

// Hears how many samples are done, and of how many.
using EachBatch = std::function<void(int64_t done, int64_t of)>;

// A permutation of 0 .. n-1 by Fisher and Yates (Knuth, TAOCP 2, algorithm P), its numbers drawn
// from Philox under (seed, epoch): the same on every machine, and apart from the stream of the
// generator.
std::vector<int64_t> epoch_order(int64_t n, uint64_t seed, int64_t epoch);

// Samples as a batch's tensors hold them.
struct HostBatch {
  std::vector<float> numbers, told;
  std::vector<int64_t> tokens, labels;
  int64_t counted = 0;  // targets that count

  void gather(const Form& form, const Samples& set, std::span<const int64_t> indices);
  const void* inputs() const;
  const void* targets() const;
};

class Batches {
 public:
  // `set` holds samples of this form; both must outlive this.
  Batches(const Form& form, const Samples& set, Device& device);
  ~Batches();

  struct Batch {
    Tensor inputs;        // pixels in [0, 1] or numbers (n, each) f32, or tokens (n, length) i64
    Tensor targets;       // labels (n,) i64, of sequences (n, length); or numbers (n, each) f32
    int64_t counted = 0;  // targets that count
    int64_t size() const { return targets.size(0); }
    std::array<Tensor, 2> tensors() const { return {inputs, targets}; }
  };
  // The samples of these indices. The tensors are overwritten by the next batch of the same size.
  const Batch& fill(std::span<const int64_t> indices);
  // The indices that the next fill() is expected to name: a device with memory of its own gets them
  // beside its work. What goes wrong there is thrown by the next call of either.
  void prefetch(std::span<const int64_t> indices);

 private:
  struct Ahead;
  Batch& of_size(int64_t n);

  const Form& form_;
  const Samples& set_;
  Device& device_;
  std::deque<Batch> batches_;  // one per size that occurs: full, and the last of an epoch
  HostBatch here_;
  std::unique_ptr<Ahead> ahead_;
};

// All of a set as one batch.
Batches::Batch whole_set(const Form& form, const Samples& set, Device& device);

}  // namespace gradus::training
