// Norms, distances, and the spreads that come with their mean. A norm has no slope where it is 0;
// there the gradient is 0 to every order, as a condition takes that branch out before the root.
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/memory.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <cmath>
#include <limits>

namespace gradus::inline v1 {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor wide(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype())) refuse_dtype(op, x.dtype(), def::kReal | def::kComplex);
  return cast(x, statistics_dtype(x.dtype()));
}

// sum^(1/p), and 0 where the sum is 0. Of negative orders that is infinite, of infinite elements.
Tensor root(const Tensor& sum, double p) {
  if (p < 0) return pow(sum, 1 / p);
  const Tensor zero = eq(sum, 0.0), safe = where(zero, 1.0, sum);
  return where(zero, 0.0, p == 2 ? sqrt(safe) : pow(safe, 1 / p));
}

// |x|. A complex 0 is taken out before abs, whose second derivative has no limit there.
Tensor magnitude(const Tensor& x) {
  if (!is_complex(x.dtype())) return abs(x);
  const Tensor zero = eq(x, 0.0);
  return where(zero, 0.0, abs(where(zero, 1.0, x)));
}

// |x|^p. At 0 the slope may be infinite: left out.
Tensor powers(const Tensor& x, double p) {
  if (p == 2) return is_complex(x.dtype()) ? real(mul(x, conj(x))) : square(x);
  const Tensor size = magnitude(x), zero = eq(size, 0.0);
  return p == 1 ? size : where(zero, p < 0 ? kInfinity : 0.0, pow(where(zero, 1.0, size), p));
}

// A norm of x in a dtype fit for sums.
Tensor wide_norm(const char* op, const Tensor& x, double p, const Ints& dims, bool keepdim) {
  if (std::isnan(p)) fail(ErrorKind::value, op, "p is not a number");
  const Ints axes = normal_axes(op, dims, x.rank());
  if (p < 0 || p == kInfinity)
    for (const int64_t a : axes)
      if (x.sizes()[size_t(a)] == 0)
        fail(ErrorKind::shape, op, "axis ", a, " of ", x.sizes(),
             " is empty and has no norm of order ", p);
  if (p == kInfinity) return amax(magnitude(x), axes, keepdim);
  if (p == -kInfinity) return amin(magnitude(x), axes, keepdim);
  if (p == 0) return sum(cast(ne(x, 0.0), real_dtype(x.dtype())), axes, keepdim);
  const Tensor total = sum(powers(x, p), axes, keepdim);
  return p == 1 ? total : root(total, p);
}

Tensor rounded(const Tensor& y, DType of) { return cast(y, is_half(of) ? of : y.dtype()); }

DType common_dtype(const Tensor& a, const Tensor& b) {
  const Tensor pair[] = {a, b};
  return result_dtype(pair);
}

// The norm of a - b + shift, differences taken in a dtype fit for sums.
Tensor norm_between(const char* op, const Tensor& a, const Tensor& b, double p, double shift,
                    const Ints& dims, bool keepdim) {
  broadcast_shapes(op, a.sizes(), b.sizes());
  Tensor d = sub(wide(op, a), wide(op, b));
  if (shift != 0) d = add(d, shift);
  return rounded(wide_norm(op, d, p, dims, keepdim), common_dtype(a, b));
}

AttrSpec order_attr() { return number_attr("p", 2, "order: any number, inf, -inf, or 0 to count"); }

void add_norm_op(const char* name, const char* doc, const char* formula,
                 std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs, OpCall call) {
  add_composition(name, "norm", doc, formula, std::move(operands), std::move(attrs),
                  std::move(call));
}

void register_spreads() {
  const std::vector<AttrSpec> attrs{
      dims_attr(), number_attr("correction", 1, "n - correction in the denominator"),
      keepdim_attr()};
  add_norm_op("var_mean", "variance and mean over axes", "(var(x), mean(x))", {{"x"}}, attrs,
              [](Operands in, const Attrs& a) {
                const Spread s = var_mean(in[0], a[0].integers, a[1].number, a[2].integer != 0);
                return Tensors{s.spread, s.mean};
              });
  add_norm_op("std_mean", "standard deviation and mean over axes", "(std(x), mean(x))", {{"x"}},
              attrs, [](Operands in, const Attrs& a) {
                const Spread s = std_mean(in[0], a[0].integers, a[1].number, a[2].integer != 0);
                return Tensors{s.spread, s.mean};
              });
}

}  // namespace

void register_distances() {
  add_norm_op("norm", "vector norm over axes", "y = (sum_i |x_i|^p)^(1/p)", {{"x"}},
              {order_attr(), dims_attr(), keepdim_attr()}, [](Operands in, const Attrs& a) {
                return norm(in[0], a[0].number, a[1].integers, a[2].integer != 0);
              });
  add_norm_op("normalize", "divided by its norm over axes", "y = x / max(norm(x), eps)", {{"x"}},
              {order_attr(),
               {"dim", AttrValue::Type::integers, Ints{1}, "axes of the norm"},
               number_attr("eps", 1e-12, "the least divisor")},
              [](Operands in, const Attrs& a) {
                return normalize(in[0], a[0].number, a[1].integers, a[2].number);
              });
  add_norm_op("cosine_similarity", "cosine of the angle between vectors along an axis",
              "y = sum_i x1_i x2_i / (max(|x1|, eps) max(|x2|, eps))", {{"x1"}, {"x2"}},
              {int_attr("dim", 1, "axis"), number_attr("eps", 1e-8, "the least length")},
              [](Operands in, const Attrs& a) {
                return cosine_similarity(in[0], in[1], a[0].integer, a[1].number);
              });
  add_norm_op("pairwise_distance", "norm of the difference along the last axis",
              "y = norm(x1 - x2 + eps)", {{"x1"}, {"x2"}},
              {order_attr(), number_attr("eps", 1e-6, "added to the differences"), keepdim_attr()},
              [](Operands in, const Attrs& a) {
                return pairwise_distance(in[0], in[1], a[0].number, a[1].number, a[2].integer != 0);
              });
  add_norm_op("cdist", "distances between all rows of two matrices",
              "y[.., i, j] = norm(x1[.., i, :] - x2[.., j, :])", {{"x1"}, {"x2"}}, {order_attr()},
              [](Operands in, const Attrs& a) { return cdist(in[0], in[1], a[0].number); });
  add_norm_op("dist", "norm of the difference of two tensors", "y = norm(x1 - x2)",
              {{"x1"}, {"x2"}}, {order_attr()},
              [](Operands in, const Attrs& a) { return dist(in[0], in[1], a[0].number); });
  register_spreads();
}

Tensor norm(const Tensor& x, double p, const Ints& dims, bool keepdim) {
  return rounded(wide_norm("norm", wide("norm", x), p, dims, keepdim), x.dtype());
}

Tensor normalize(const Tensor& x, double p, const Ints& dims, double eps) {
  const Tensor w = wide("normalize", x);
  return rounded(div(w, clamp(wide_norm("normalize", w, p, dims, true), eps, kInfinity)),
                 x.dtype());
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  const char* op = "cosine_similarity";
  const Shape sizes = broadcast_shapes(op, x1.sizes(), x2.sizes());
  const DType dtype = common_dtype(x1, x2);
  if (is_complex(dtype)) refuse_dtype(op, dtype, def::kReal, "complex vectors have no angle");
  if (!(eps >= 0)) fail(ErrorKind::value, op, "eps is ", eps, ", expected 0 or more");
  const Ints axis{normal_axis(op, dim, int64_t(sizes.size()))};
  const auto unit = [&](const Tensor& x) {
    const Tensor w = expand(wide(op, x), sizes);
    return div(w, clamp(wide_norm(op, w, 2, axis, true), eps, kInfinity));
  };
  return rounded(sum(mul(unit(x1), unit(x2)), axis), dtype);
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  if (x1.rank() == 0 && x2.rank() == 0)
    fail(ErrorKind::shape, "pairwise_distance",
         "both operands are single numbers, expected an axis");
  return norm_between("pairwise_distance", x1, x2, p, eps, {-1}, keepdim);
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p) {
  if (x1.rank() < 2 || x2.rank() < 2 || x1.size(-1) != x2.size(-1))
    fail(ErrorKind::shape, "cdist", "x1 has shape ", x1.sizes(), ", x2 ", x2.sizes(),
         "; expected (..., P, m) and (..., R, m)");
  if (!(p >= 0)) fail(ErrorKind::value, "cdist", "p is ", p, ", expected 0 or more");
  return norm_between("cdist", unsqueeze(x1, -2), unsqueeze(x2, -3), p, 0, {-1}, false);
}

Tensor dist(const Tensor& x1, const Tensor& x2, double p) {
  return norm_between("dist", x1, x2, p, 0, {}, false);
}

Spread var_mean(const Tensor& x, const Ints& dims, double correction, bool keepdim) {
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}
Spread std_mean(const Tensor& x, const Ints& dims, double correction, bool keepdim) {
  return {std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

}  // namespace gradus
