// How a statement is read with Expr into its StatementText: formula, slopes, what they need saved.
// fingerprint.cpp does it for the built-in statements, ops/check/user.hpp for a user's.
#pragma once
#include "ops/def/expr.hpp"
#include "ops/def/fingerprint.hpp"

namespace gradus::inline v1::def {

namespace detail {

// A statement whose parameters are tags, so that Expr prints their names.
template <class S> S tagged() {
  const double tags[4] = {Expr::tag(0), Expr::tag(1), Expr::tag(2), Expr::tag(3)};
  return make<S>(tags);
}

// What the templates below need not be templates for (fingerprint.cpp).
StatementText text_of(const Meta& meta, Kind kind, int arity, const double* defaults);
void add_slope(StatementText& t, const Expr& slope);
void add_wirtinger(StatementText& t, const Expr& value, const Expr& dz, const Expr& dzbar);
struct Symbols {
  const Expr x = Expr::symbol("x"), a = Expr::symbol("a"), b = Expr::symbol("b");
  const Expr m = Expr::symbol("m"), y = Expr::symbol("y"), z = Expr::symbol("z");
};
const Symbols& symbols();

template <class S> void read_formulas(StatementText& t) {
  const ParameterNames names(S::meta.params);
  const S s = tagged<S>();
  const auto& [x, a, b, m, y, z] = symbols();
  if constexpr (S::arity == 1) {
    t.value = s.value(x).text();
    if constexpr (has_slopes<S>) add_slope(t, s.slope(x, y));
  } else if constexpr (S::arity == 2) {
    t.value = s.value(a, b).text();
    if constexpr (has_slopes<S>) {
      add_slope(t, s.slope_a(a, b, y));
      add_slope(t, s.slope_b(a, b, y));
    }
  } else {
    t.value = s.value(m, a, b).text();
    t.slopes = {""};
    t.saves = {0};
    t.slope_is_one = t.slope_is_zero = {false};
    add_slope(t, s.slope_a(m, a, b, y));
    add_slope(t, s.slope_b(m, a, b, y));
  }
  if constexpr (S::kind == Kind::non_holomorphic) {
    add_wirtinger(t, s.cvalue(z), s.dz(z), s.dzbar(z));
  }
}

}  // namespace detail

template <class S> StatementText read_statement() {
  const S statement{};
  double defaults[4] = {};
  if constexpr (S::meta.param_count() > 0) memcpy(defaults, &statement, sizeof statement);
  StatementText t = detail::text_of(S::meta, S::kind, S::arity, defaults);
  detail::read_formulas<S>(t);
  return t;
}

}  // namespace gradus::def
