// Contractions of f64.
#include "kernels/gpu/contract/contract_kernels.hpp"

namespace gradus::inline v1::gpu {

void contract_f64(const Run& run, const Elements& elements, const Contraction& c,
                  const Scales& scales) {
  contract_in_way(run, elements, c, standard<double>(scales));
}

}  // namespace gradus::gpu
