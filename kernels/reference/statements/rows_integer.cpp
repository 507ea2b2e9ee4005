// The statements read by integers and bool, and what they are called.
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

Statement statement(int32_t id) {
  Statement found;
  def::visit(def::Statements{}, id, [&]<class S>() {
    found = {S::meta.name, S::kind, S::arity, S::meta.param_count()};
  });
  return found;
}

}  // namespace gradus::reference
