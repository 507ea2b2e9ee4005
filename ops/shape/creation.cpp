// Tensors made from nothing but a shape: constants, ranges, the identity. Long counts run on the
// device: a running sum of ones.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/views.hpp"

#include <cmath>
#include <numeric>

namespace gradus::inline v1 {

namespace {

AttrSpec size_attr() { return ints_attr("size", "shape of the result"); }
AttrSpec dtype_attr() { return {"dtype", AttrValue::Type::dtype, DType::f32, "of the result"}; }

void add_constant(const char* name, const char* doc, const char* formula,
                  std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs, OpCall call) {
  add_composition(name, "creation", doc, formula, std::move(operands), std::move(attrs),
                  std::move(call))
      .differentiable = false;
}

bool whole(double x) { return x == std::floor(x) && std::fabs(x) < 0x1p53; }

}  // namespace

void register_creation() {
  add_constant(
      "full", "one value everywhere", "y = fill_value", {},
      {size_attr(), number_attr("fill_value", 0, "of each element"), dtype_attr()},
      [](Operands, const Attrs& a) { return full(a[0].integers, a[1].number, a[2].dtype()); });
  add_constant("zeros", "0 everywhere", "y = 0", {}, {size_attr(), dtype_attr()},
               [](Operands, const Attrs& a) { return zeros(a[0].integers, a[1].dtype()); });
  add_constant("ones", "1 everywhere", "y = 1", {}, {size_attr(), dtype_attr()},
               [](Operands, const Attrs& a) { return ones(a[0].integers, a[1].dtype()); });
  add_constant("zeros_like", "0 everywhere, in x's shape and dtype", "y = 0", {{"x"}}, {},
               [](Operands in, const Attrs&) { return zeros_like(in[0]); });
  add_constant("ones_like", "1 everywhere, in x's shape and dtype", "y = 1", {{"x"}}, {},
               [](Operands in, const Attrs&) { return ones_like(in[0]); });
  add_constant("full_like", "one value everywhere, in x's shape and dtype", "y = fill_value",
               {{"x"}}, {number_attr("fill_value", 0, "of each element")},
               [](Operands in, const Attrs& a) { return full_like(in[0], a[0].number); });
  add_constant("eye", "the identity matrix", "y[i, j] = [i = j]", {},
               {int_attr("n", "rows"),
                {"m", AttrValue::Type::integer, {}, "columns; n when left out", true},
                dtype_attr()},
               [](Operands, const Attrs& a) {
                 const int64_t n = a[0].integer;
                 return eye(n, a[1].is_none() ? n : a[1].integer, a[2].dtype());
               });
  add_constant(
      "arange", "evenly spaced numbers from start up to, without, end", "y[i] = start + i * step",
      {},
      {{"end", AttrValue::Type::number, {}, "not reached"},
       number_attr("start", 0, "first number"),
       number_attr("step", 1, "between two numbers"),
       {"dtype",
        AttrValue::Type::dtype,
        {},
        "left out: i64 if all three are whole, else f32",
        true}},
      [](Operands, const Attrs& a) {
        const bool counts = whole(a[0].number) && whole(a[1].number) && whole(a[2].number);
        const DType dtype = !a[3].is_none() ? a[3].dtype() : counts ? DType::i64 : DType::f32;
        return arange(a[1].number, a[0].number, a[2].number, dtype);
      });
  add_constant("linspace", "evenly spaced numbers from start to end, both included",
               "y[i] = start + i * (end - start) / (steps - 1)", {},
               {{"start", AttrValue::Type::number, {}, "first number"},
                {"end", AttrValue::Type::number, {}, "last number"},
                int_attr("steps", "how many"),
                dtype_attr()},
               [](Operands, const Attrs& a) {
                 return linspace(a[0].number, a[1].number, a[2].integer, a[3].dtype());
               });
}

Tensor full(const Shape& size, double fill_value, DType dtype, Device& device) {
  check_holds("full", dtype, fill_value);
  return is_integer(dtype) && whole(fill_value)
             ? Tensor::full_integer(size, int64_t(fill_value), dtype, device)
             : Tensor::full(size, fill_value, dtype, device);
}
Tensor zeros(const Shape& size, DType dtype, Device& device) {
  return Tensor::zeros(size, dtype, device);
}
Tensor ones(const Shape& size, DType dtype, Device& device) { return full(size, 1, dtype, device); }
Tensor zeros_like(const Tensor& x) { return zeros(x.sizes(), x.dtype(), x.device()); }
Tensor ones_like(const Tensor& x) { return ones(x.sizes(), x.dtype(), x.device()); }
Tensor full_like(const Tensor& x, double fill_value) {
  return full(x.sizes(), fill_value, x.dtype(), x.device());
}

Tensor iota(int64_t n, Device& device) {
  constexpr int64_t kFew = 1024;  // counted here, and copied: one call instead of three
  if (n > kFew) return sub(cumsum(ones({n}, DType::i64, device), 0), 1);
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t(0));
  return Tensor::constant(numbers, {n}, device);
}
Tensor iota_along(const Tensor& x, int64_t dim) {
  Shape sizes(x.sizes().size(), 1);
  sizes[size_t(dim)] = x.sizes()[size_t(dim)];
  return reshape(iota(sizes[size_t(dim)], x.device()), sizes);
}

Tensor eye(int64_t n, int64_t m, DType dtype, Device& device) {
  if (n < 0 || m < 0) fail(ErrorKind::shape, "eye", "negative size in ", Shape{n, m});
  constexpr int64_t kFew = 4096;  // made here, and copied
  if (n * m > kFew) return cast(eq(reshape(iota(n, device), {n, 1}), iota(m, device)), dtype);
  std::vector<double> numbers(static_cast<size_t>(n * m));
  for (int64_t i = 0; i < std::min(n, m); ++i) numbers[size_t(i * m + i)] = 1;
  return cast(Tensor::constant(numbers, {n, m}, device), dtype);
}

Tensor arange(double start, double end, double step, DType dtype, Device& device) {
  const double count = std::ceil((end - start) / step);
  const bool away = step > 0 ? end < start : end > start;
  if (step == 0 || away || !(count >= 0))
    fail(ErrorKind::value, "arange", "from ", start, " one never gets to ", end, " by steps of ",
         step);
  if (count > 0x1p40) fail(ErrorKind::value, "arange", count, " numbers are too many");
  const Tensor places = iota(int64_t(count), device);
  if (is_integer(dtype) && whole(start) && whole(step))
    return cast(add(mul(places, int64_t(step)), int64_t(start)), dtype);
  return cast(add(mul(cast(places, DType::f64), step), start), dtype);
}

// From both ends, so that each is met exactly.
Tensor linspace(double start, double end, int64_t steps, DType dtype, Device& device) {
  if (steps < 0) fail(ErrorKind::value, "linspace", "steps is ", steps, ", expected 0 or more");
  const double step = steps > 1 ? (end - start) / double(steps - 1) : 0;
  const Tensor place = iota(steps, device), from_end = sub(steps - 1, place);
  const auto away = [&](double from, const Tensor& places, double by) {
    return add(mul(cast(places, DType::f64), by), from);
  };
  return cast(where(lt(place, steps / 2), away(start, place, step),
                    steps > 1 ? away(end, from_end, -step) : away(start, place, 0)),
              dtype);
}

}  // namespace gradus
