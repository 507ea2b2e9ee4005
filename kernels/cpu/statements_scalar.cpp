// Statements over complex numbers, integers and bool, one element at a time.
#include "kernels/cpu/statements_scalar.hpp"

#include "kernels/cpu/blocks.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1::cpu {
namespace {

struct Entry {
  const char* name;
  StatementShape shape;
};
template <class... S>
const Entry* entry(def::List<S...>, int32_t op) {
  static constexpr Entry table[] = {
      {S::meta.name, {S::arity, S::meta.param_count(), S::kind == def::Kind::select}}...};
  return op >= 0 && op < int32_t(sizeof...(S)) ? &table[op] : nullptr;
}

}  // namespace

int32_t statement_count() { return def::Statements::size; }
const char* statement_name(int32_t op) { return entry(def::Statements{}, op)->name; }
StatementShape statement_shape(int32_t op) {
  const Entry* e = entry(def::Statements{}, op);
  return e ? e->shape : StatementShape{};
}

const Block* scalar_block(int32_t op, int32_t dtype) {
  switch (dtype) {
    case GD_C64:
      return find_block<ScalarIo<c64>>(def::Statements{}, op);
    case GD_C128:
      return find_block<ScalarIo<c128>>(def::Statements{}, op);
    case GD_I32:
      return find_block<ScalarIo<int32_t>>(def::Statements{}, op);
    case GD_I64:
      return find_block<ScalarIo<int64_t>>(def::Statements{}, op);
    case GD_U8:
      return find_block<ScalarIo<uint8_t>>(def::Statements{}, op);
    case GD_BOOL:
      return find_block<ScalarIo<bool>>(def::Statements{}, op);
    default:
      return nullptr;
  }
}

}  // namespace gradus::cpu
