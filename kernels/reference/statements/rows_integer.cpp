// The statements read by integers and bool.
#include "kernels/reference/statements/row_of.hpp"

namespace gradus::inline v1::reference {

Row integer_row(int32_t id, DType computing) {
  switch (computing) {
    case DType::i32:
      return row_of<int32_t>(id);
    case DType::i64:
      return row_of<int64_t>(id);
    case DType::u8:
      return row_of<uint8_t>(id);
    default:
      return row_of<bool>(id);
  }
}

}  // namespace gradus::reference
