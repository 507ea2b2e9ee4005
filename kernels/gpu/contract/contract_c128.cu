// Contractions of c128.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_c128(const Run& run, const Elements& elements, const Contraction& c,
                   const Scales& scales) {
  contract_in_way(run, elements, c, standard<c128>(scales));
}

}  // namespace gradus::gpu
