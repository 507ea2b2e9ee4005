// contract: out[i] = alpha SUM_k a[i, k] b[i, k] + beta out[i] + bias[i]. The joint index space has
// the axes of out first and the summed ones after, so both operands are walked in plain row-major
// order and every run of K terms belongs to one element of out.
//
// Tropical algebras put max or min in the place of the sum and + or * in the place of the product;
// terms are rounded to the operands' dtype (f32 for f16 and bf16), so the choice of a winner is
// exact.
#include "kernels/reference/order.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/walk.hpp"

#include <limits>

namespace gradus::reference {
namespace {

constexpr const char* kNames[] = {"standard", "max-plus", "min-plus", "max-times"};

struct Operands {
  Layout a, b, out;
  int64_t terms;  // K
};

// A factor times x, without turning 1 * inf into NaN in a complex product.
double times(c128 factor, double x) { return factor.re * x; }
int64_t times(c128 factor, int64_t x) { return int64_t(factor.re) * x; }
c128 times(c128 factor, c128 x) {
  return factor.im == 0 ? c128{factor.re * x.re, factor.re * x.im} : factor * x;
}

// A number that scales a dtype must be of its kind.
c128 scale(const Call& call, DType t, const char* name, int k) {
  const c128 x{call.number(k), call.number(k + 1)};
  if (!is_complex(t) && x.im != 0)
    call.refuse(GD_INVALID, "%s has an imaginary part, but dtype is %s", name, dtype_name(t));
  if (is_integer(t) && !(x.re >= -0x1p53 && x.re <= 0x1p53 && double(int64_t(x.re)) == x.re))
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
      sum += (conj_a ? conj_of(a[k]) : a[k]) * (conj_b ? conj_of(b[k]) : b[k]);
    sum = times(alpha, sum);
    A more;
    if (reads_out) {
      before.read(&more, 1);
      sum += times(beta, more);
    }
    if (bias) {
      bias->read(&more, 1);
      sum += more;
    }
    after.write(&sum, 1);
  }
}

// One of the three tropical algebras over T.
template <class T>
struct Tropical {
  using Limits = std::numeric_limits<T>;
  int64_t algebra;

  bool maximum() const { return algebra != GD_MIN_PLUS; }
  // The worst number: no term of a sum wins against it. For max-plus and min-plus it is the
  // algebra's zero, the value of an empty sum.
  T worst() const {
    if constexpr (Limits::has_infinity)
      return maximum() ? -Limits::infinity() : Limits::infinity();
    else
      return maximum() ? Limits::min() : Limits::max();
  }
  T empty() const { return algebra == GD_MAX_TIMES ? T(0) : worst(); }

  T term(T a, T b) const {
    if (algebra == GD_MAX_TIMES) return a * b;
    if constexpr (Limits::has_infinity) {
      const T s = a + b;  // -inf + inf is -inf in max-plus, inf in min-plus; only NaN gives NaN
      return s != s && a == a && b == b ? worst() : s;
    } else {
      if (a == worst() || b == worst()) return worst();
      T s;
      if (!__builtin_add_overflow(a, b, &s)) return s;
      return a < 0 ? Limits::min() : Limits::max();
    }
  }
};

template <class T>
void best_of_terms(const Call& call, const Operands& v) {
  const Tropical<T> algebra{call.integer(1)};
  std::unique_ptr<Walk> winners;
  if (call.n_out() == 2) {
    const Layout w = call.out(1);
    call.expect_sizes("winners", w, v.out.sizes);
    call.expect_dtype("winners", w, DType::i64);
    winners = std::make_unique<Walk>(w);
  }
  Walk walk_a(v.a), walk_b(v.b), to(v.out);
  const auto a = make_line<T>(v.terms), b = make_line<T>(v.terms);
  for (int64_t i = 0, n = v.out.count(); i < n; ++i) {
    walk_a.read(a.get(), v.terms);
    walk_b.read(b.get(), v.terms);
    T best = algebra.worst();
    int64_t winner = -1;
    for (int64_t k = 0; k < v.terms; ++k) {
      const T x = algebra.term(a[k], b[k]);
      if (beats(algebra.maximum(), x, best)) {
        best = x;
        winner = k;
      }
    }
    if (v.terms == 0) best = algebra.empty();
    to.write(&best, 1);
    if (winners) winners->write(&winner, 1);
  }
}

Operands operands(const Call& call) {
  Operands v{call.in(0), call.in(1), call.out(0), 0};
  call.expect_sizes("b", v.b, v.a.sizes);
  const int64_t n = call.integer(0);
  if (n < 0 || n > v.a.rank())
    call.refuse(GD_INVALID, "%lld output axes of a joint index space %s", static_cast<long long>(n),
                text(v.a.sizes).c_str());
  call.expect_sizes("output", v.out, Sizes(v.a.sizes.begin(), v.a.sizes.begin() + n));
  call.expect_dtype("b", v.b, v.a.dtype);
  call.expect_dtype("output", v.out, v.a.dtype);
  v.terms = product(v.a.sizes, size_t(n));
  return v;
}

void tropical(const Call& call, const Operands& v) {
  if (call.number(0) != 1 || call.number(1) != 0 || call.number(2) != 0 || call.number(3) != 0 ||
      call.n_in() != 2)
    call.refuse(GD_INVALID, "tropical algebras take alpha = 1, beta = 0 and no bias");
  switch (v.out.dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return best_of_terms<float>(call, v);
    case DType::f64:
      return best_of_terms<double>(call, v);
    case DType::i32:
      return best_of_terms<int32_t>(call, v);
    case DType::i64:
      return best_of_terms<int64_t>(call, v);
    default:
      call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 f16 bf16 i32 i64 are",
                  dtype_name(v.out.dtype));
  }
}

}  // namespace

void contract(Call& call) {
  if (call.n_ints() < 2) call.refuse(GD_INVALID, "expected 4 ints");
  const int64_t algebra = call.integer(1);
  if (algebra < GD_STANDARD || algebra > GD_MAX_TIMES)
    call.refuse(GD_INVALID, "no algebra has code %lld", static_cast<long long>(algebra));
  call.named(kNames[algebra]);
  call.expect(call.n_in() == 3 ? 3 : 2, call.n_out() == 2 ? 2 : 1, 4, 4);
  const Operands v = operands(call);
  if (algebra != GD_STANDARD) return tropical(call, v);
  if (call.n_out() == 2) call.refuse(GD_INVALID, "a sum has no winners");
  if (v.out.dtype == DType::bool_)
    call.refuse(GD_UNSUPPORTED, "dtype bool is not read: a sum of products leaves it");
  visit_accumulator(v.out.dtype, [&](auto zero) { sum_of_products<decltype(zero)>(call, v); });
}

}  // namespace gradus::reference
