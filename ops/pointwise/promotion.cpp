// Operands of a pointwise op made ready: of one dtype, which its statement reads, on one device.
#include "ops/base/dtypes.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/shape/memory.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace {

using def::Kind;
using def::StatementText;

bool reads_dtype(const StatementText& s, DType t) {
  if (is_user(t)) return true;  // as far as its operators and words go: the kernel knows
  if (t == DType::bool_) return s.dtypes & def::kBool;
  if (is_complex(t)) return s.dtypes & def::kComplex;
  return s.dtypes & (is_integer(t) ? unsigned(def::kInteger) : unsigned(def::kReal));
}

// Promotion: the dtype that the statement computes in. A fractional parameter counts as a real
// number.
DType compute_dtype(const OpInfo& op, std::span<const Tensor> operands, const Attrs& attrs) {
  const StatementText& s = def::statement_info(op.statement);
  DType t = result_dtype(operands);
  for (const AttrValue& a : attrs)
    if (a.type == AttrValue::Type::number && std::isfinite(a.number) &&
        a.number != std::trunc(a.number))
      t = is_integer(t) ? DType::f32 : t;
  // A comparison is of the numbers themselves; what counts in t needs them to be there.
  for (const Tensor& x : operands)
    if (!holds(t, x)) {
      if (s.kind != Kind::comparison) check_holds(op.name, t, x);
      t = DType::i64;
    }
  if (reads_dtype(s, t)) return t;
  if (t == DType::bool_ && (s.dtypes & def::kInteger)) return DType::i64;
  if (is_integer(t) && (s.dtypes & def::kReal)) return DType::f32;
  refuse_dtype(op.name, t, s.dtypes);
}

// Nothing to promote: tensors of one dtype that the statement reads.
bool are_ready(const StatementText& s, std::span<const Tensor> in) {
  const DType t = in[0].dtype();
  if (s.kind == Kind::select) return false;
  for (const Tensor& x : in)
    if (x.is_number() || x.dtype() != t) return false;
  return reads_dtype(s, t);
}

}  // namespace

Tensor run_statement(const OpInfo& op, std::span<const Tensor> in, const Attrs& attrs) {
  if (attrs.empty() && are_ready(def::statement_info(op.statement), in))
    return apply1(op, in, attrs);
  const bool select = def::statement_info(op.statement).kind == Kind::select;
  if (select && in[0].dtype() != DType::bool_)
    fail(ErrorKind::dtype, op.name, "the condition is ", in[0].dtype(), ", expected bool");
  const DType dtype = compute_dtype(op, select ? in.subspan(1) : in, attrs);
  Device* device = nullptr;
  for (const Tensor& t : in)
    if (!device && !t.is_number()) device = &t.device();
  if (!device) device = &default_device();
  SmallVector<Tensor, 3> ready;
  for (size_t k = 0; k < in.size(); ++k) {
    const DType want = select && k == 0 ? DType::bool_ : dtype;
    ready.push_back(cast(materialise(in[k], want, *device), want));
  }
  return apply1(op, std::span<const Tensor>(ready.data(), ready.size()), attrs);
}

}  // namespace gradus
