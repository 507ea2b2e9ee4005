// Scans made of ops: in log2(n) steps each element meets the one 1, 2, 4, ... before it, so that
// exact derivatives of any order come by themselves. And differences and sums of neighbours.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/index/indexing.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/index/sorting.hpp"
#include "ops/shape/views.hpp"

#include <limits>

namespace gradus::inline v1 {

namespace {

// Inclusive scan with an associative f(earlier, later).
template <class F>
Tensor scan(const Tensor& x, int64_t dim, F&& f) {
  const int64_t n = x.size(dim);
  Tensor y = x;
  for (int64_t step = 1; step < n; step *= 2)
    y = cat({slice(y, dim, 0, step), f(slice(y, dim, 0, n - step), slice(y, dim, step))}, dim);
  return y;
}

// log(exp(a) + exp(b)) around the larger one. Which of two is larger changes nothing but rounding,
// so derivatives of any order are exact at ties too; the branch keeps inf - inf away.
Tensor log_add(const Tensor& a, const Tensor& b) {
  const Tensor a_wins = ge(a, b), high = where(a_wins, a, b), low = where(a_wins, b, a);
  const Tensor finite = lt(abs(high), std::numeric_limits<double>::infinity());
  return add(high, log1p(exp(sub(where(finite, low, 0.0), where(finite, high, 0.0)))));
}

// Places first, by the same scan over pairs; the values are then gathered.
Tensors running_extremum(const char* op, const Tensor& x, int64_t dim, bool largest) {
  const int64_t d = normal_axis(op, dim, std::max<int64_t>(1, x.rank()));
  if (is_complex(x.dtype())) refuse_unordered(op, x.dtype());
  if (x.rank() == 0) return {x, zeros({}, DType::i64, x.device())};
  Tensor best = x.detach(), place = expand(iota_along(x, d), x.sizes());
  const int64_t n = x.size(d);
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor a = slice(best, d, 0, n - step), b = slice(best, d, step);
    // A later equal one wins, and NaN over all.
    const Tensor beats =
        where(ne(b, b), ones({}, DType::bool_, x.device()), largest ? ge(b, a) : le(b, a));
    const auto merge = [&](const Tensor& of) {
      const Tensor now = where(beats, slice(of, d, step), slice(of, d, 0, n - step));
      return cat({slice(of, d, 0, step), now}, d);
    };
    const Tensor places = merge(place);
    best = merge(best);
    place = places;
  }
  return {gather(x, d, place), place};
}

// Means of neighbours times their distances.
Tensor trapezoids(const char* op, const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  const int64_t d = normal_axis(op, dim, y.rank()), n = y.size(d);
  const Tensor means = mul(add(slice(y, d, 0, std::max<int64_t>(n - 1, 0)), slice(y, d, 1)), 0.5);
  if (!x.defined()) return mul(means, dx);
  Tensor places = x;
  if (x.rank() == 1 && y.rank() > 1) {
    Shape sizes(y.sizes().size(), 1);
    sizes[size_t(d)] = x.numel();
    places = reshape(x, sizes);
  }
  if (!broadcasts_to(places.sizes(), y.sizes()) || places.size(d) != n)
    fail(ErrorKind::shape, op, "the places have shape ", x.sizes(), ", y ", y.sizes());
  return mul(means, diff(places, 1, d));
}

void add_scan(const char* name, const char* doc, const char* formula,
              std::function<Outputs(const Tensor&, int64_t)> of) {
  add_composition(name, "scan", doc, formula, {{"x"}}, {int_attr("dim", "axis")},
                  [of](Operands in, const Attrs& a) { return of(in[0], a[0].integer); });
}

template <Tensor (*f)(const Tensor&, const Tensor&, double, int64_t)>
Tensor over_places(Operands in, const Attrs& a) {
  return f(in[0], operand(in, 1), a[0].number, a[1].integer);
}

}  // namespace

void register_scans() {
  add_scan("cumprod", "running product along an axis", "y_i = prod_{j <= i} x_j",
           [](const Tensor& x, int64_t dim) { return cumprod(x, dim); });
  add_scan("cummax", "running maximum: values, and where they stand", "y_i = max_{j <= i} x_j",
           cummax);
  add_scan("cummin", "running minimum: values, and where they stand", "y_i = min_{j <= i} x_j",
           cummin);
  add_scan("logcumsumexp", "log of the running sum of exponentials, without overflow",
           "y_i = log(sum_{j <= i} exp(x_j))",
           [](const Tensor& x, int64_t dim) { return logcumsumexp(x, dim); });
  add_composition(
      "diff", "scan", "differences of neighbours, n times", "y_i = x_{i+1} - x_i", {{"x"}},
      {int_attr("n", 1, "how often"), int_attr("dim", -1, "axis")},
      [](Operands in, const Attrs& a) { return diff(in[0], a[0].integer, a[1].integer); });
  const std::vector<OperandSpec> operands = {{"y"}, {"x", false, true}};
  const std::vector<AttrSpec> attrs = {number_attr("dx", 1, "distance, where there is no x"),
                                       int_attr("dim", -1, "axis")};
  add_composition("trapezoid", "scan", "integral by the trapezoidal rule",
                  "z = sum_i (y_i + y_{i+1}) / 2 * (x_{i+1} - x_i)", operands, attrs,
                  over_places<trapezoid>);
  add_composition("cumulative_trapezoid", "scan", "running integral by the trapezoidal rule",
                  "z_k = sum_{i <= k} (y_i + y_{i+1}) / 2 * (x_{i+1} - x_i)", operands, attrs,
                  over_places<cumulative_trapezoid>);
}

Tensor cumprod(const Tensor& x, int64_t dim) {
  const int64_t d = normal_axis("cumprod", dim, std::max<int64_t>(1, x.rank()));
  const Tensor y = is_integer(x.dtype()) ? cast(x, DType::i64) : x;
  return x.rank() == 0 ? y : scan(y, d, mul);
}
Tensors cummax(const Tensor& x, int64_t dim) { return running_extremum("cummax", x, dim, true); }
Tensors cummin(const Tensor& x, int64_t dim) { return running_extremum("cummin", x, dim, false); }

Tensor logcumsumexp(const Tensor& x, int64_t dim) {
  const int64_t d = normal_axis("logcumsumexp", dim, std::max<int64_t>(1, x.rank()));
  if (!is_real_float(x.dtype()))
    refuse_dtype("logcumsumexp", x.dtype(), def::kReal, "",
                 is_complex(x.dtype()) ? "write log(cumsum(exp(x), dim))" : "");
  return x.rank() == 0 ? x : scan(x, d, log_add);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  const int64_t d = normal_axis("diff", dim, x.rank());
  if (n < 0) fail(ErrorKind::value, "diff", "n is ", n, ", expected 0 or more");
  Tensor y = x;
  for (int64_t i = 0; i < n && y.size(d) > 0; ++i) {
    const Tensor later = slice(y, d, 1), earlier = slice(y, d, 0, y.size(d) - 1);
    y = x.dtype() == DType::bool_ ? ne(later, earlier) : sub(later, earlier);
  }
  return y;
}

Tensor trapezoid(const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  return sum(trapezoids("trapezoid", y, x, dx, dim), {dim});
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, double dx, int64_t dim) {
  return cumsum(trapezoids("cumulative_trapezoid", y, x, dx, dim), dim);
}

}  // namespace gradus
