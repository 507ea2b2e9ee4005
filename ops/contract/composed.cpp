// log-sum-exp: C = m + log SUM exp(A + B - m), where m, the largest exponent of each element of C,
// is a max-plus contraction: nothing overflows, and no term is lost that counts. The terms stand
// for a moment in a tensor of bounded size. Where the factors' own maxima nearly meet, which the
// result shows, the sum is one of products, exp(A - max A) exp(B - max B), and a thousand times
// faster.
//
// boolean: true where a sum of products of zeros and ones is not 0. Sums of ones never round to 0.
//
// mod P: sums of products of i64 that are cut before they can overflow; factors of many bits are
// halved first, so that a cut comes every 65,536 terms at least.
#include "ops/contract/composed.hpp"

#include "engine/batch.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"
#include "ops/base/checkpoint.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1 {

namespace {

// The part [start, end) of a label, where x has it.
Labelled cut(const Labelled& x, int64_t label, int64_t start, int64_t end) {
  const int64_t i = place_of(x.labels, label);
  return i < 0 ? x : Labelled{slice(x.tensor, i, start, end), x.labels};
}
// The labels of a pair, the output's first, with their extents.
struct JointLabels {
  Ints labels;
  Shape sizes;
  size_t outer;  // how many of them the output has

  JointLabels(const Labelled& a, const Labelled& b, const Labels& out)
      : labels(out), outer(out.size()) {
    for (const Labelled* x : {&a, &b})
      for (int64_t label : x->labels)
        if (place_of(labels, label) < 0) labels.push_back(label);
    for (int64_t label : labels)
      sizes.push_back(std::max(extent_of(a, label), extent_of(b, label)));
  }
  Ints summed() const { return Ints(labels.begin() + outer, labels.end()); }
  Ints summed_axes() const {
    Ints axes;
    for (size_t i = outer; i < labels.size(); ++i) axes.push_back(int64_t(i));
    return axes;
  }
  // As a number that does not overflow.
  double terms() const {
    double n = 1;
    for (size_t i = outer; i < sizes.size(); ++i) n *= double(sizes[i]);
    return n;
  }
  double elements() const {
    double n = 1;
    for (int64_t size : sizes) n *= double(size);
    return n;
  }
  size_t longest(size_t first) const {
    return size_t(std::max_element(sizes.begin() + first, sizes.end()) - sizes.begin());
  }
};

// ---- log-sum-exp

constexpr double kMostElements = 1 << 20;  // of the terms that stand in memory at once

// SUM exp(a + b - shift) over the labels that `out` lacks; shift has the labels of `out`.
Tensor sum_of_exponentials(const Labelled& a, const Labelled& b, const Labelled& shift) {
  const JointLabels j(a, b, shift.labels);
  const auto direct = [j, la = a.labels, lb = b.labels, ls = shift.labels](const Tensors& in) {
    const Tensor exponents = add(aligned({in[0], la}, j.labels), aligned({in[1], lb}, j.labels));
    const Tensor terms = exp(sub(exponents, aligned({in[2], ls}, j.labels)));
    return Tensors{j.outer == j.labels.size() ? terms : sum(terms, j.summed_axes())};
  };
  if (j.elements() <= kMostElements) return direct({a.tensor, b.tensor, shift.tensor})[0];
  const size_t axis = j.longest(0);
  const int64_t label = j.labels[axis], n = j.sizes[axis], half = n / 2;
  const auto part = [&](int64_t start, int64_t end) {
    const Labelled x = cut(a, label, start, end), y = cut(b, label, start, end),
                   z = cut(shift, label, start, end);
    if (JointLabels(x, y, z.labels).elements() > kMostElements) return sum_of_exponentials(x, y, z);
    // What a derivative needs is computed again when it is asked for.
    const Tensors in{x.tensor, y.tensor, z.tensor};
    return is_batched(x.tensor) || is_batched(y.tensor) ? direct(in)[0] : checkpoint(direct, in)[0];
  };
  const Tensor low = part(0, half), high = part(half, n);
  return axis < j.outer ? cat({low, high}, int64_t(axis)) : add(low, high);
}

// exp(x - m), and m, the largest x over the summed labels, 0 where that is infinite.
struct Scaled {
  Labelled factor, shift;
};
Scaled scaled(const Labelled& x, const Labels& out) {
  Scaled s{{{}, x.labels}, {x.tensor.detach(), {}}};
  Ints summed;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (place_of(out, x.labels[i]) >= 0)
      s.shift.labels.push_back(x.labels[i]);
    else
      summed.push_back(int64_t(i));
  {
    NoGrad off;
    if (!summed.empty()) s.shift.tensor = amax(s.shift.tensor, summed);
    s.shift.tensor = where(isfinite(s.shift.tensor), s.shift.tensor, 0);
  }
  s.factor.tensor = exp(sub(x.tensor, aligned(s.shift, x.labels)));
  return s;
}

// By a sum of products of factors between 0 and 1, or undefined. A term that is lost because it, or
// a factor of it, is too small for a normal number is less than 2^-126; of sums of 2^-16 or more,
// even all that a tensor has room for are no part that counts.
Tensor log_of_products(const Labelled& a, const Labelled& b, const Labels& out) {
  const Scaled x = scaled(a, out), y = scaled(b, out);
  const Tensor sum = contract(x.factor.tensor, a.labels, y.factor.tensor, b.labels, out);
  const double least = amin(sum.detach()).item();
  if (!(least >= 0x1p-16)) return Tensor();
  return add(log(sum), add(aligned(x.shift, out), aligned(y.shift, out)));
}

Tensor log_sum_exp(const Labelled& a, const Labelled& b, const Labels& out) {
  const JointLabels joint(a, b, out);
  if (joint.elements() > kMostElements && !is_batched(a.tensor) && !is_batched(b.tensor))
    if (const Tensor y = log_of_products(a, b, out); y.defined()) return y;
  Labelled shift{{}, out};
  {
    NoGrad off;
    const Tensor most =
        contract(a.tensor.detach(), a.labels, b.tensor.detach(), b.labels, out, Algebra::max_plus);
    shift.tensor = where(isfinite(most), most, 0);
  }
  // The largest term is 1, so a sum of 0 is one of zeros: no term has a share in it, and it has no
  // derivative.
  const Tensor sum = sum_of_exponentials(a, b, shift);
  const Tensor none = eq(sum, 0);
  return where(none, -INFINITY, add(log(where(none, 1, sum)), shift.tensor));
}

// ---- counting modulo p

Tensor sum_modulo(const Labelled& a, const Labelled& b, const Labels& out, int64_t p,
                  double most_terms) {
  const JointLabels j(a, b, out);
  if (j.terms() <= most_terms)
    return remainder(contract(a.tensor, a.labels, b.tensor, b.labels, out), p);
  const size_t axis = j.longest(j.outer);
  const int64_t label = j.labels[axis], n = j.sizes[axis];
  const auto part = [&](int64_t start, int64_t end) {
    return sum_modulo(cut(a, label, start, end), cut(b, label, start, end), out, p, most_terms);
  };
  return remainder(add(part(0, n / 2), part(n / 2, n)), p);
}

Tensor count(const Labelled& a, const Labelled& b, const Labels& out, int64_t p) {
  constexpr int64_t kHalf = 1 << 16;
  const Labelled x{remainder(a.tensor, p), a.labels}, y{remainder(b.tensor, p), b.labels};
  const double most = double(INT64_MAX / ((p - 1) * (p - 1)));
  if (JointLabels(x, y, out).terms() <= most) return sum_modulo(x, y, out, p, most);
  // x = high 2^16 + low; both are below 2^16, y below 2^31.
  const Tensor high = sum_modulo({floor_divide(x.tensor, kHalf), x.labels}, y, out, p, kHalf);
  const Tensor low = sum_modulo({remainder(x.tensor, kHalf), x.labels}, y, out, p, kHalf);
  return remainder(add(mul(high, kHalf), low), p);
}

}  // namespace

Tensor contract_composed(const Labelled& a, const Labelled& b, const Labels& out, Algebra algebra) {
  const DType dtype = a.tensor.dtype();
  const auto as = [](const Labelled& x, DType t) { return Labelled{cast(x.tensor, t), x.labels}; };
  if (algebra == Algebra::log_sum_exp) {
    const DType wide = statistics_dtype(dtype);
    return cast(log_sum_exp(as(a, wide), as(b, wide), out), dtype);
  }
  if (algebra == Algebra::boolean) {
    const Labelled x = as(a, DType::f32), y = as(b, DType::f32);
    return ne(contract(x.tensor, x.labels, y.tensor, y.labels, out), 0);
  }
  return cast(count(as(a, DType::i64), as(b, DType::i64), out, modulus_of(algebra)), dtype);
}

}  // namespace gradus
