// The statements read by complex numbers.
#include "kernels/reference/statements/row_of.hpp"

namespace gradus::inline v1::reference {

Row complex_row(int32_t id, DType computing) {
  return computing == DType::c128 ? row_of<c128>(id) : row_of<c64>(id);
}

}  // namespace gradus::reference
