// The statements read by complex numbers.
#include "kernels/gpu/pointwise.hpp"

namespace gradus::inline v1::gpu {

Entry entry_c64(int32_t id) { return entry_for<c64>(id); }
Entry entry_c128(int32_t id) { return entry_for<c128>(id); }

}  // namespace gradus::gpu
