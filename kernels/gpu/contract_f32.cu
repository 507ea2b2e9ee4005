// Contractions of f32, f16 and bf16.
#include "kernels/gpu/contract_kernels.hpp"

namespace gradus::gpu {

void contract_f32(const Run& run, const Elements& elements, const Contraction& c,
                  const Scales& scales) {
  if (!contract_mma(run, c, scales)) contract_by_size(run, elements, c, standard<float>(scales));
}

}  // namespace gradus::gpu
