#include "kernels/linalg/ops.hpp"

namespace gradus::inline v1::linalg {

template void run_as<c64>(const calls::LinalgCall&, int64_t, int64_t, Scratch&, const Lapack*);

}  // namespace gradus::linalg
