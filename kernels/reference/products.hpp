// Sums of products: what contract.cpp instantiates for the built-in accumulators, and
// user_scalar.hpp for a user's type.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/reference/walk.hpp"

#include <optional>

namespace gradus::inline v1::reference {

// A factor times x, without turning 1 * inf into NaN in a complex product.
inline double times(c128 factor, double x) { return factor.re * x; }
inline int64_t times(c128 factor, int64_t x) { return int64_t(factor.re) * x; }
inline c128 times(c128 factor, c128 x) {
  return factor.im == 0 ? c128{factor.re * x.re, factor.re * x.im} : factor * x;
}

template <class A>
A times(c128 factor, A x) {
  return factor.re == 1 ? x : A(int64_t(factor.re)) * x;
}

// K: the sizes of the axes that out lacks, multiplied.
inline int64_t terms_of(const ContractCall& c) {
  int64_t n = 1;
  for (int d = c.out_axes; d < c.a.rank; ++d) n *= c.a.sizes[d];
  return n;
}

template <class A>
void sum_of_products(const ContractCall& c) {
  const bool reads_out = c.beta != c128{};
  const int64_t terms = terms_of(c);
  std::optional<Walk> bias;
  if (c.bias) bias.emplace(*c.bias);
  Walk walk_a(c.a), walk_b(c.b), before(c.out), after(c.out);
  const auto a = make_line<A>(terms), b = make_line<A>(terms);
  for (int64_t i = 0, n = count_of(c.out); i < n; ++i) {
    walk_a.read(a.get(), terms);
    walk_b.read(b.get(), terms);
    A sum(0);
    for (int64_t k = 0; k < terms; ++k)
      sum = sum + (c.conj_a ? conj_of(a[k]) : a[k]) * (c.conj_b ? conj_of(b[k]) : b[k]);
    sum = times(c.alpha, sum);
    A more;
    if (reads_out) {
      before.read(&more, 1);
      sum = sum + times(c.beta, more);
    }
    if (bias) {
      bias->read(&more, 1);
      sum = sum + more;
    }
    after.write(&sum, 1);
  }
}

}  // namespace gradus::reference
