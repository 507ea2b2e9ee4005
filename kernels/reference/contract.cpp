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

// A tropical algebra over T.
template <class T>
struct Tropical {
  using Limits = std::numeric_limits<T>;
  int64_t algebra;

  bool maximum() const { return algebra == GD_MAX_PLUS || algebra == GD_MAX_TIMES; }
  // The worst number: no term of a sum wins against it. For all but max-times it is the algebra's
  // zero, the value of an empty sum, which swallows.
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
      // -inf + inf is -inf in max-plus, inf in min-plus, inf * 0 is inf; only NaN gives NaN.
      const T s = algebra == GD_MIN_TIMES ? a * b : a + b;
      return s != s && a == a && b == b ? worst() : s;
    } else {
      if (a == worst() || b == worst()) return worst();
      if (algebra == GD_MIN_TIMES) return a * b;
      T s;
      if (!__builtin_add_overflow(a, b, &s)) return s;
      return a < 0 ? Limits::min() : Limits::max();
    }
  }
};

template <class T>
void best_of_terms(const ContractCall& c) {
  const Tropical<T> algebra{c.algebra};
  const int64_t terms = terms_of(c);
  std::optional<Walk> winners;
  if (c.winners) winners.emplace(*c.winners);
  Walk walk_a(c.a), walk_b(c.b), to(c.out);
  const auto a = make_line<T>(terms), b = make_line<T>(terms);
  for (int64_t i = 0, n = count_of(c.out); i < n; ++i) {
    walk_a.read(a.get(), terms);
    walk_b.read(b.get(), terms);
    T best = algebra.worst();
    int64_t winner = -1;
    for (int64_t k = 0; k < terms; ++k) {
      const T x = algebra.term(a[k], b[k]);
      if (beats(algebra.maximum(), x, best)) {
        best = x;
        winner = k;
      }
    }
    if (terms == 0) best = algebra.empty();
    to.write(&best, 1);
    if (winners) winners->write(&winner, 1);
  }
}

void tropical(const ContractCall& c) {
  switch (DType(c.out.dtype)) {
    case DType::f64:
      return best_of_terms<double>(c);
    case DType::i32:
      return best_of_terms<int32_t>(c);
    case DType::i64:
      return best_of_terms<int64_t>(c);
    default:
      return best_of_terms<float>(c);
  }
}

// Statement ints[4] over what out holds now.
void apply_statement(const Call& call) {
  const gd_call c = statement_call(call.raw());
  Call then(c, call.device(), "contract");
  pointwise(then);
}

}  // namespace

void contract(Call& call) {
  const ContractCall c = expect_contract(call);
  if ((call.op() & GD_WAY_ONLY) && (call.op() & 0xff))
    call.refuse(GD_UNSUPPORTED, "way %d is not one of the reference's", call.op() & 0xff);
  if (c.algebra != GD_STANDARD) return tropical(c);
  const DType t = DType(c.out.dtype);
  if (is_user(t))
    user(call, t).contract(c);
  else
    visit_accumulator(t, [&](auto zero) { sum_of_products<decltype(zero)>(c); });
  if (c.statement) apply_statement(call);
}

}  // namespace gradus::reference
