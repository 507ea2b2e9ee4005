// contract: out[i] = f(alpha SUM_k a[i, k] b[i, k] + beta out[i] + bias[i]). The joint index space
// has the axes of out first and the summed ones after, so both operands are walked in plain
// row-major order and every run of K terms belongs to one element of out.
//
// Tropical algebras put max or min in the place of the sum and + or * in the place of the product;
// terms are rounded to the operands' dtype (f32 for f16 and bf16), so the choice of a winner is
// exact.
//
// f, a statement, is a second pass over out.
#include "kernels/reference/order.hpp"
#include "kernels/reference/products.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"

#include <limits>

namespace gradus::inline v1::reference {
namespace {

constexpr const char* kNames[] = {"standard", "max-plus", "min-plus", "max-times"};

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

// Statement ints[4] over what out holds now.
void apply_statement(const Call& call) {
  gd_call c = call.raw();
  c.slot = GD_POINTWISE;
  c.op = int32_t(c.ints[4]);
  c.n_in = 1;
  c.in = c.out;
  c.doubles += 4;
  c.n_doubles -= 4;
  c.n_ints = 0;
  Call then(c, "contract");
  pointwise(then);
}

}  // namespace

void contract(Call& call) {
  if (call.n_ints() < 2) call.refuse(GD_INVALID, "expected 4 ints");
  const int64_t algebra = call.integer(1);
  if (algebra < GD_STANDARD || algebra > GD_MAX_TIMES)
    call.refuse(GD_INVALID, "no algebra has code %lld", static_cast<long long>(algebra));
  call.named(kNames[algebra]);
  if ((call.op() & GD_WAY_ONLY) && (call.op() & 0xff))
    call.refuse(GD_UNSUPPORTED, "way %d is not one of the reference's", call.op() & 0xff);
  call.expect(call.n_in() == 3 ? 3 : 2, call.n_out() == 2 ? 2 : 1, 4, 4);
  const Operands v = operands(call);
  if (algebra != GD_STANDARD) {
    if (call.n_ints() > 4) call.refuse(GD_INVALID, "tropical algebras take no statement");
    return tropical(call, v);
  }
  if (call.n_out() == 2) call.refuse(GD_INVALID, "a sum has no winners");
  if (v.out.dtype == DType::bool_)
    call.refuse(GD_UNSUPPORTED, "dtype bool is not read: a sum of products leaves it");
  if (is_user(v.out.dtype))
    user(call, v.out.dtype).contract(call, v);
  else
    visit_accumulator(v.out.dtype, [&](auto zero) { sum_of_products<decltype(zero)>(call, v); });
  if (call.n_ints() > 4) apply_statement(call);
}

}  // namespace gradus::reference
