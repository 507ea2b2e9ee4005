// Contractions of f16, bf16 and, where the device config allows it, of f32 on tensor cores: which.
#include "kernels/gpu/contract_mma.hpp"

namespace gradus::gpu {

#if defined(__HIP_PLATFORM_AMD__)

bool contract_mma(const Run&, const Contraction&, const Scales&) { return false; }

#else

bool contract_mma(const Run& run, const Contraction& c, const Scales& scales) {
  if (run.device.wave != 32 || !fills_squares(c)) return false;
  if (c.dtype == GD_F32 && !run.device.options.tf32) return false;
  const auto algebra = standard<float>(scales);
  if (c.dtype == GD_F32)
    contract_tf32_mma(run, c, algebra);
  else if (c.dtype == GD_F16)
    contract_f16_mma(run, c, algebra);
  else
    contract_bf16_mma(run, c, algebra);
  return true;
}

#endif

}  // namespace gradus::gpu
