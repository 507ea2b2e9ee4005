// Contractions of bf16 on tensor cores.
#include "kernels/gpu/contract/contract_mma.hpp"

#if !defined(__HIP_PLATFORM_AMD__)
namespace gradus::inline v1::gpu {

void contract_bf16_mma(const Run& run, const Contraction& c, const Standard<float>& algebra) {
  launch_strips<Mma::bf16>(run, c, algebra);
}

}  // namespace gradus::gpu
#endif
