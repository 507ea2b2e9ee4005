// How a statement is read with Expr into its StatementText: formula, slopes, what they need saved.
// fingerprint.cpp does it for the built-in statements, ops/user.hpp for a user's.
#pragma once
#include "ops/def/expr.hpp"
#include "ops/def/fingerprint.hpp"

namespace gradus::def {

namespace detail {

// A statement whose parameters are tags, so that Expr prints their names.
template <class S>
S tagged() {
  const double tags[4] = {Expr::tag(0), Expr::tag(1), Expr::tag(2), Expr::tag(3)};
  return make<S>(tags);
}

template <class S>
void read_parameters(StatementText& t) {
  const S statement{};
  double defaults[4] = {};
  if constexpr (S::meta.param_count() > 0) memcpy(defaults, &statement, sizeof statement);
  for (int k = 0; k < S::meta.param_count(); ++k) {
    t.params.push_back(S::meta.params[k]);
    t.defaults.push_back(defaults[k]);
  }
}

inline void add_slope(StatementText& t, const Expr& slope) {
  unsigned saves = slope.uses("y") ? kSavesY : 0;
  for (size_t k = 0; k < t.operands.size(); ++k)
    if (slope.uses(t.operands[k])) saves |= 1u << k;
  t.slopes.push_back(slope.text());
  t.saves.push_back(saves);
  t.slope_is_one.push_back(slope.is_one());
  t.slope_is_zero.push_back(slope.is_zero());
}

template <class S>
void read_formulas(StatementText& t) {
  const ParameterNames names(S::meta.params);
  const S s = tagged<S>();
  const Expr x = Expr::symbol("x"), a = Expr::symbol("a"), b = Expr::symbol("b");
  const Expr m = Expr::symbol("m"), y = Expr::symbol("y"), z = Expr::symbol("z");
  if constexpr (S::arity == 1) {
    t.operands = {"x"};
    t.value = s.value(x).text();
    if constexpr (has_slopes<S>) add_slope(t, s.slope(x, y));
  } else if constexpr (S::arity == 2) {
    t.operands = {"a", "b"};
    t.value = s.value(a, b).text();
    if constexpr (has_slopes<S>) {
      add_slope(t, s.slope_a(a, b, y));
      add_slope(t, s.slope_b(a, b, y));
    }
  } else {
    t.operands = {"m", "a", "b"};
    t.value = s.value(m, a, b).text();
    t.slopes = {""};
    t.saves = {0};
    t.slope_is_one = t.slope_is_zero = {false};
    add_slope(t, s.slope_a(m, a, b, y));
    add_slope(t, s.slope_b(m, a, b, y));
  }
  if constexpr (S::kind == Kind::non_holomorphic) {
    const Expr dz = s.dz(z), dzbar = s.dzbar(z);
    t.complex_value = s.cvalue(z).text();
    t.wirtinger = {dz.text(), dzbar.text()};
    t.wirtinger_saves = dz.uses("z") || dzbar.uses("z") ? 1 : 0;
  }
}

}  // namespace detail

template <class S>
StatementText read_statement() {
  StatementText t{};
  t.name = S::meta.name;
  t.doc = S::meta.doc;
  t.kind = S::kind;
  t.dtypes = S::meta.dtypes;
  t.arity = S::arity;
  detail::read_parameters<S>(t);
  detail::read_formulas<S>(t);
  return t;
}

}  // namespace gradus::def
