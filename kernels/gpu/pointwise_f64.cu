// The statements read by double.
#include "kernels/gpu/pointwise.hpp"

namespace gradus::inline v1::gpu {

Entry entry_f64(int32_t id) { return entry_for<double>(id); }

}  // namespace gradus::gpu
