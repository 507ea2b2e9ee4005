// Masks: what they fill, pick and count. How many elements a mask picks is read on the host, once;
// where they stand is a running sum and a scatter on the device.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

void check_mask(const char* op, const Tensor& mask) {
  if (mask.dtype() != DType::bool_)
    fail(ErrorKind::dtype, op, "the mask is ", mask.dtype(), ", expected bool");
}
Tensor flat(const Tensor& x) { return reshape(x, {x.numel()}); }
Tensor counted(const Tensor& mask) { return cumsum(cast(mask, DType::i64), 0); }

// Where a flat mask holds, in order.
Tensor positions(const Tensor& mask) {
  const int64_t n = mask.numel();
  if (n == 0) return zeros({0}, DType::i64, mask.device());
  const Tensor seen = counted(mask);
  const int64_t count = select(seen, 0, -1).item_integer();
  // The others are thrown together into one place too many.
  const Tensor to = where(mask, sub(seen, 1), count);
  return slice(
      scatter_add(zeros({count + 1}, DType::i64, mask.device()), 0, to, iota(n, mask.device())), 0,
      0, count);
}

void register_nonzero() {
  for (const char* name : {"nonzero", "argwhere"})
    add_composition(name, "indexing", "the indices of the elements that are not 0, one row each",
                    "x[y[k, 0], y[k, 1], ...] != 0", {{"x"}}, {},
                    [](Operands in, const Attrs&) { return nonzero(in[0]); })
        .differentiable = false;
  add_composition("count_nonzero", "reduction", "how many elements are not 0",
                  "y = sum_i [x_i != 0]", {{"x"}}, {dims_attr()},
                  [](Operands in, const Attrs& a) { return count_nonzero(in[0], a[0].integers); })
      .differentiable = false;
  add_composition(
      "any", "reduction", "is one of the elements not 0?", "y = or_i x_i", {{"x"}},
      {dims_attr(), keepdim_attr()},
      [](Operands in, const Attrs& a) { return any(in[0], a[0].integers, a[1].integer != 0); })
      .differentiable = false;
  add_composition(
      "all", "reduction", "are all elements not 0?", "y = and_i x_i", {{"x"}},
      {dims_attr(), keepdim_attr()},
      [](Operands in, const Attrs& a) { return all(in[0], a[0].integers, a[1].integer != 0); })
      .differentiable = false;
  add_composition("one_hot", "indexing", "1 in the place that x names, else 0 (i64)",
                  "y[i, c] = [x_i = c]", {{"x"}},
                  {int_attr("num_classes", -1, "-1: the largest of x, plus 1")},
                  [](Operands in, const Attrs& a) { return one_hot(in[0], a[0].integer); })
      .differentiable = false;
}

}  // namespace

void register_masking() {
  add_composition("masked_fill", "indexing", "one value where the mask holds",
                  "y = value where mask, else x", {{"x"}, {"mask"}, {"value", false, true}},
                  {number_attr("value", 0, "where there is no operand of that name")},
                  [](Operands in, const Attrs& a) {
                    const Tensor value = in.size() > 2
                                             ? in[2]
                                             : full({}, a[0].number, in[0].dtype(), in[0].device());
                    return masked_fill(in[0], in[1], value);
                  });
  add_composition("masked_select", "indexing", "the elements for which the mask holds, in one line",
                  "y = x[mask]", {{"x"}, {"mask"}}, {},
                  [](Operands in, const Attrs&) { return masked_select(in[0], in[1]); });
  add_composition("masked_scatter", "indexing",
                  "the elements of source, in order, where the mask holds",
                  "y = x; y[mask] = source[0], source[1], ...", {{"x"}, {"mask"}, {"source"}}, {},
                  [](Operands in, const Attrs&) { return masked_scatter(in[0], in[1], in[2]); });
  register_nonzero();
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check_mask("masked_fill", mask);
  if (value.rank() != 0)
    fail(ErrorKind::shape, "masked_fill", "the value has shape ", value.sizes(), ", expected 0-d");
  if (is_complex(value.dtype()) && !is_complex(x.dtype()))
    fail(ErrorKind::dtype, "masked_fill", "the value is ", value.dtype(), ", x ", x.dtype());
  check_holds("masked_fill", x.dtype(), value);
  return where(mask, cast(value, x.dtype()), x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  check_mask("masked_select", mask);
  const Shape sizes = broadcast_shapes("masked_select", x.sizes(), mask.sizes());
  return gather(flat(expand(x, sizes)), 0, positions(flat(expand(mask, sizes))));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  check_mask("masked_scatter", mask);
  if (source.dtype() != x.dtype())
    fail(ErrorKind::dtype, "masked_scatter", "x is ", x.dtype(), ", source ", source.dtype());
  const Shape sizes = broadcast_shapes("masked_scatter", x.sizes(), mask.sizes());
  const Tensor m = flat(expand(mask, sizes));
  // One element in front, for those that take none.
  const Tensor from = cat({zeros({1}, x.dtype(), x.device()), flat(source)});
  const Tensor taken = gather(from, 0, where(m, counted(m), 0));
  return where(expand(mask, sizes), reshape(taken, sizes), x);
}

Tensor nonzero(const Tensor& x) {
  const Tensor found = positions(flat(ne(x, zeros({}, x.dtype(), x.device()))));
  Tensors columns;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    columns.push_back(gather(flat(expand(iota_along(x, axis), x.sizes())), 0, found));
  if (columns.empty()) return zeros({found.numel(), 0}, DType::i64, x.device());
  return stack(columns, 1);
}
Tensor count_nonzero(const Tensor& x, const Ints& dims) {
  return sum(ne(x, zeros({}, x.dtype(), x.device())), dims);
}
Tensor any(const Tensor& x, const Ints& dims, bool keepdim) {
  return gt(sum(ne(x, zeros({}, x.dtype(), x.device())), dims, keepdim), 0);
}
Tensor all(const Tensor& x, const Ints& dims, bool keepdim) {
  return eq(sum(eq(x, zeros({}, x.dtype(), x.device())), dims, keepdim), 0);
}

Tensor one_hot(const Tensor& x, int64_t num_classes) {
  if (!is_integer(x.dtype())) refuse_dtype("one_hot", x.dtype(), def::kInteger);
  if (num_classes < 0 && x.numel() == 0)
    fail(ErrorKind::value, "one_hot", "num_classes must be given where x is empty");
  const Tensor place = unsqueeze(cast(x, DType::i64), -1);
  Shape sizes = x.sizes();
  sizes.push_back(num_classes < 0 ? amax(place).item_integer() + 1 : num_classes);
  return scatter_add(zeros(sizes, DType::i64, x.device()), -1, place, ones_like(place));
}

}  // namespace gradus
