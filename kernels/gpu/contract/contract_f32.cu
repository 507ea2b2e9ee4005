// Contractions of f32, f16 and bf16.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_f32(const Run& run, const Elements& elements, const Contraction& c,
                  const Scales& scales) {
  if (c.way == GD_WAY_MATRIX || c.way == GD_WAY_MATRIX_LARGE) return contract_mma(run, c, scales);
  contract_in_way(run, elements, c, standard<float>(scales));
}

}  // namespace gradus::gpu
