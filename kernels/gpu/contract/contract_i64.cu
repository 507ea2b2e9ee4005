// Contractions of integers.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_i64(const Run& run, const Elements& elements, const Contraction& c,
                  const Scales& scales) {
  contract_in_way(run, elements, c, standard<uint64_t>(scales));
}

}  // namespace gradus::gpu
