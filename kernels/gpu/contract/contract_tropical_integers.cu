// Contractions of integers over max-plus, min-plus, max-times and min-times.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_tropical_integers(const Run& run, const Elements& elements, const Contraction& c,
                                int32_t algebra) {
  if (c.dtype == GD_I64)
    contract_in_way(run, elements, c, Tropical<int64_t>{algebra});
  else
    contract_in_way(run, elements, c, Tropical<int32_t>{algebra});
}

}  // namespace gradus::gpu
