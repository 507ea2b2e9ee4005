// How one statement and one number type become a Row. Included only by the three rows_*.cpp, which
// share the compile time.
#pragma once
#include "kernels/reference/statements/rows.hpp"
#include "ops/def/statements.hpp"
#include "ops/def/words_scalar.hpp"

#include <type_traits>
#include <utility>

namespace gradus::inline v1::reference {

// The value of s at element i of its operands.
template <class S, class T>
auto value_at(const S& s, const void* const* x, int64_t i) {
  const auto at = [&](int k) { return static_cast<const T*>(x[k])[i]; };
  if constexpr (def::two_derivatives<S, T>)
    return s.cvalue(at(0));
  else if constexpr (S::arity == 1)
    return s.value(at(0));
  else if constexpr (S::arity == 2)
    return s.value(at(0), at(1));
  else
    return s.value(static_cast<const bool*>(x[0])[i], at(1), at(2));
}

template <int K, class S, class T>
T slope_at(const S& s, const void* const* x, const void* y, int64_t i) {
  const auto at = [&](int k) { return static_cast<const T*>(x[k])[i]; };
  const T y_i = static_cast<const T*>(y)[i];
  if constexpr (S::arity == 1)
    return def::slope<K>(s, at(0), y_i);
  else if constexpr (S::arity == 2)
    return def::slope<K>(s, at(0), at(1), y_i);
  else
    return def::slope<K>(s, static_cast<const bool*>(x[0])[i], at(1), at(2), y_i);
}

template <class S, class T>
void value_row(const double* params, const void* const* x, void* y, int64_t n) {
  const S s = def::make<S>(params);
  auto* out = static_cast<decltype(value_at<S, T>(s, x, 0))*>(y);
  for (int64_t i = 0; i < n; ++i) out[i] = value_at<S, T>(s, x, i);
}

template <int K, class S, class T>
void vjp_row(const double* params, const void* const* x, const void* y, const void* g, void* out,
             int64_t n) {
  const S s = def::make<S>(params);
  for (int64_t i = 0; i < n; ++i)
    static_cast<T*>(out)[i] = static_cast<const T*>(g)[i] * conj_of(slope_at<K, S, T>(s, x, y, i));
}

template <class S, class T>
Row make_row() {
  Row row;
  if constexpr (def::reads<S, T>()) {
    row.reads = true;
    row.y = dtype_of<decltype(value_at<S, T>(std::declval<S>(), nullptr, 0))>;
    row.value = value_row<S, T>;
    if constexpr (def::has_slope<0, S, T>()) row.vjp[0] = vjp_row<0, S, T>;
    if constexpr (def::has_slope<1, S, T>()) row.vjp[1] = vjp_row<1, S, T>;
    if constexpr (def::has_slope<2, S, T>()) row.vjp[2] = vjp_row<2, S, T>;
  }
  return row;
}

// The row of a statement id; one that reads nothing if there is no such id.
template <class T>
Row row_of(int32_t id) {
  Row row;
  def::visit(def::Statements{}, id, [&]<class S>() { row = make_row<S, T>(); });
  return row;
}

}  // namespace gradus::reference
