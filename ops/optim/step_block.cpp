#include "ops/optim/step_block.hpp"

namespace gradus::inline v1 {

StepBlock::StepBlock(int64_t count, Device& device)
    : host_(size_t(count), 0.0), values_(Tensor::empty({count}, DType::f64, device)) {
  upload();
}

void StepBlock::upload() {
  values_.storage().write("step_block");
  values_.device().copy_in(values_.storage().data(), host_.data(), host_.size() * sizeof(double));
}

}  // namespace gradus
