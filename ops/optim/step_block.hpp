// The step block: what changes from step to step (learning rate, bias corrections, gradient gain,
// ...) lies in one-element f64 buffers on the device. Kernels read it there, so a recorded step
// replays with the values of the step it is replayed for. The host writes before the step and
// uploads once.
#pragma once
#include "engine/tensor.hpp"

namespace gradus::inline v1 {

class StepBlock {
 public:
  // `count` values on the device, all zero.
  StepBlock(int64_t count, Device& device);
  void set(int64_t index, double value) { host_[size_t(index)] = value; }
  double get(int64_t index) const { return host_[size_t(index)]; }
  void upload();
  // A view of `count` values from `index`, shape (count,); stays valid from step to step.
  Tensor view(int64_t index, int64_t count = 1) const { return values_.alias({count}, {1}, index); }

 private:
  std::vector<double> host_;
  Tensor values_;
};

}  // namespace gradus
