// Samples on their way to the device: the order of an epoch, and batches in buffers that stay the
// same from step to step (so that a recorded step can be replayed with the next batch).
#pragma once
#include "cli/data/dataset.hpp"
#include "engine/tensor.hpp"

#include <span>

namespace gradus::cli {

// A permutation of 0 .. n-1 by Fisher and Yates (Knuth, TAOCP 2, algorithm P), its numbers drawn
// from Philox under (seed, epoch): the same on every machine, and apart from the stream of the
// generator.
std::vector<int64_t> epoch_order(int64_t n, uint64_t seed, int64_t epoch);

class Batches {
 public:
  // `set` is a part of `data`; both must outlive this.
  Batches(const Dataset& data, const Samples& set, Device& device);

  struct Batch {
    Tensor inputs;        // images (n, pixels) f32 in [0, 1], or tokens (n, length) i64
    Tensor labels;        // (n,) i64, of sequences (n, length)
    int64_t counted = 0;  // labels that are not kNoLabel
  };
  // The samples of these indices. The tensors are overwritten by the next batch of the same size.
  const Batch& fill(std::span<const int64_t> indices);

 private:
  const Dataset& data_;
  const Samples& set_;
  Device& device_;
  std::vector<Batch> batches_;  // one per size that occurs: full, and the last of an epoch
  std::vector<float> pixels_;
  std::vector<int64_t> tokens_;
  std::vector<int64_t> labels_;
};

}  // namespace gradus::cli
