// Sums of products: what contract.cpp instantiates for the built-in accumulators, and
// user_scalar.hpp for a user's type.
#pragma once
#include "kernels/reference/call.hpp"
#include "kernels/reference/walk.hpp"

namespace gradus::inline v1::reference {

struct Operands {
  Layout a, b, out;
  int64_t terms;  // K
};

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

// A number that scales a dtype must be of its kind.
inline c128 scale(const Call& call, DType t, const char* name, int k) {
  const c128 x{call.number(k), call.number(k + 1)};
  if (!is_complex(t) && x.im != 0)
    call.refuse(GD_INVALID, "%s has an imaginary part, but dtype is %s", name, dtype_name(t));
  if ((is_integer(t) || is_user(t)) &&
      !(x.re >= -0x1p53 && x.re <= 0x1p53 && double(int64_t(x.re)) == x.re))
    call.refuse(GD_INVALID, "%s = %g is no integer, but dtype is %s", name, x.re, dtype_name(t));
  return x;
}

template <class A>
void sum_of_products(const Call& call, const Operands& v) {
  const c128 alpha = scale(call, v.out.dtype, "alpha", 0),
             beta = scale(call, v.out.dtype, "beta", 2);
  const bool conj_a = call.integer(2) != 0, conj_b = call.integer(3) != 0;
  const bool reads_out = beta != c128{};
  std::unique_ptr<Walk> bias;
  if (call.n_in() == 3 && call.has_in(2)) {
    const Layout c = call.in(2);
    call.expect_sizes("bias", c, v.out.sizes);
    call.expect_dtype("bias", c, v.out.dtype);
    bias = std::make_unique<Walk>(c);
  }
  Walk walk_a(v.a), walk_b(v.b), before(v.out), after(v.out);
  const auto a = make_line<A>(v.terms), b = make_line<A>(v.terms);
  for (int64_t i = 0, n = v.out.count(); i < n; ++i) {
    walk_a.read(a.get(), v.terms);
    walk_b.read(b.get(), v.terms);
    A sum(0);
    for (int64_t k = 0; k < v.terms; ++k)
      sum = sum + (conj_a ? conj_of(a[k]) : a[k]) * (conj_b ? conj_of(b[k]) : b[k]);
    sum = times(alpha, sum);
    A more;
    if (reads_out) {
      before.read(&more, 1);
      sum = sum + times(beta, more);
    }
    if (bias) {
      bias->read(&more, 1);
      sum = sum + more;
    }
    after.write(&sum, 1);
  }
}

}  // namespace gradus::reference
