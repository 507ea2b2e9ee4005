// Element by element, on payloads.
#include "ops/base/registry.hpp"
#include "ops/diagonal/structure.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

bool same_index(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.same_body(b) || all(eq(a, b)).item_integer() == 1;
}

// The payload of b as that of a tensor of a's structure.
Tensor payload_as(const char* op, const ClassedTensor& b, const ClassedTensor& a) {
  if (a.sizes() != b.sizes())
    fail(ErrorKind::shape, op, "sizes ", a.sizes(), " and ", b.sizes(), " differ");
  Ints from(a.extents.size(), -1), of_b(b.extents.size(), -1);  // classes of a and b, by each other
  for (size_t axis = 0; axis < a.classes.size(); ++axis) {
    int64_t &there = from[size_t(a.classes[axis])], &here = of_b[size_t(b.classes[axis])];
    if (there < 0 && here < 0) there = b.classes[axis], here = a.classes[axis];
    if (there != b.classes[axis] || here != a.classes[axis])
      fail(ErrorKind::value, op, "classes ", to_text(a.classes), " and ", to_text(b.classes),
           " are two structures, whose sum has neither; use to_dense()");
    if (!same_index(a.index(axis), b.index(axis)))
      fail(ErrorKind::value, op, "the indices of axis ", int64_t(axis),
           " differ: two structures, whose sum has neither; use to_dense()");
  }
  return permute(stored(b), from);
}

}  // namespace

ClassedTensor conj(const ClassedTensor& x) {
  return x.is_copy() ? x : with_payload(x, conj(x.payload));
}
ClassedTensor neg(const ClassedTensor& x) { return with_payload(x, neg(stored(x))); }

ClassedTensor mul(const ClassedTensor& a, const ClassedTensor& b) {
  if (a.rank() == 0 && b.rank() > 0) return mul(b, a);
  if (b.rank() == 0) return with_payload(a, mul(stored(a), stored(b)));
  if (a.rank() != b.rank())
    fail(ErrorKind::shape, "mul", "sizes ", a.sizes(), " and ", b.sizes(),
         " differ in their number of axes");
  Labels axes;
  for (int64_t axis = 0; axis < a.rank(); ++axis) axes.push_back(axis);
  return einsum_classed({a, b}, {axes, axes}, axes);
}
ClassedTensor div(const ClassedTensor& a, const Tensor& number) {
  if (number.rank() != 0)
    fail(ErrorKind::shape, "div", "the divisor has shape ", number.sizes(),
         ", expected a number: 0 / 0 would stand off the diagonal of a tensor; use to_dense()");
  return with_payload(a, div(stored(a), number));
}

ClassedTensor add(const ClassedTensor& a, const ClassedTensor& b) {
  return with_payload(a, add(stored(a), payload_as("add", b, a)));
}
ClassedTensor sub(const ClassedTensor& a, const ClassedTensor& b) {
  return with_payload(a, sub(stored(a), payload_as("sub", b, a)));
}

ClassedTensor map_values(std::string_view name, const ClassedTensor& x, const Attrs& attrs) {
  const OpInfo& op = get_op(name);
  if (op.group != "pointwise" || op.operands.size() != 1)
    fail(ErrorKind::value, "map_values", op.name, " is no op of one tensor, element by element");
  const Attrs whole = op.completed(attrs);
  const Tensor payload = stored(x), zero = Tensor::zeros({}, payload.dtype(), payload.device());
  const Tensor at_zero = op.call(Tensors{zero}, whole)[0];
  if (!x.is_dense() && ne(at_zero, 0).item_integer() != 0)
    fail(ErrorKind::value, "map_values", op.name, "(0) is ", at_zero.to_string(),
         ": the result is dense; use to_dense()");
  return with_payload(x, op.call(Tensors{payload}, whole)[0]);
}

}  // namespace gradus
