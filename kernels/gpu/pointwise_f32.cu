// The statements read by float.
#include "kernels/gpu/pointwise.hpp"

namespace gradus::inline v1::gpu {

Entry entry_f32(int32_t id) { return entry_for<float>(id); }

}  // namespace gradus::gpu
