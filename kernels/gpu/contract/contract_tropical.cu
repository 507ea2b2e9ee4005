// Contractions over max-plus, min-plus, max-times and min-times.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_tropical(const Run& run, const Elements& elements, const Contraction& c,
                       int32_t algebra) {
  if (c.dtype == GD_F64)
    contract_in_way(run, elements, c, Tropical<double>{algebra});
  else
    contract_in_way(run, elements, c, Tropical<float>{algebra});
}

}  // namespace gradus::gpu
