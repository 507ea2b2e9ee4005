// Contractions of f16 on tensor cores.
#include "kernels/gpu/contract/contract_mma.hpp"

#if !defined(__HIP_PLATFORM_AMD__)
namespace gradus::inline v1::gpu {

void contract_f16_mma(const Run& run, const Contraction& c, const Standard<float>& algebra) {
  launch_strips<Mma::f16>(run, c, algebra);
}

}  // namespace gradus::gpu
#endif
