// Contractions of f16, bf16 and, where the device config allows it, of f32 on tensor cores.
#include "kernels/gpu/contract/contract_mma.hpp"

namespace gradus::inline v1::gpu {

#if defined(__HIP_PLATFORM_AMD__)

bool has_mma(const Run&, int32_t) { return false; }
void contract_mma(const Run&, const Contraction&, const Scales&) {}

#else

bool has_mma(const Run& run, int32_t dtype) {
  if (run.device.wave != 32) return false;
  return dtype == GD_F16 || dtype == GD_BF16 || (dtype == GD_F32 && run.device.options.tf32);
}

void contract_mma(const Run& run, const Contraction& c, const Scales& scales) {
  const auto algebra = standard<float>(scales);
  if (c.dtype == GD_F32)
    contract_tf32_mma(run, c, algebra);
  else if (c.dtype == GD_F16)
    contract_f16_mma(run, c, algebra);
  else
    contract_bf16_mma(run, c, algebra);
}

#endif

}  // namespace gradus::gpu
