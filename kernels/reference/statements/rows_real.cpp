// The statements read by float and double.
#include "kernels/reference/statements/row_of.hpp"

namespace gradus::inline v1::reference {

Row real_row(int32_t id, DType computing) {
  return computing == DType::f64 ? row_of<double>(id) : row_of<float>(id);
}

}  // namespace gradus::reference
