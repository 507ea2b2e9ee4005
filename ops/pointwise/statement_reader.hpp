// What the pointwise ops need of a statement's templates, as plain functions over tensors: the same
// for the built-in statements and for a user's.
#pragma once
#include "engine/op_info.hpp"
#include "ops/def/words_scalar.hpp"
#include "ops/pointwise/traced.hpp"

#include <type_traits>

namespace gradus::inline v1 {

struct StatementReader {
  const OpInfo* op = nullptr;
  bool complex_to_real = false;
  // The value; null for a built-in statement, which has a kernel.
  Tensor (*value)(std::span<const Tensor> x, const double* params) = nullptr;
  // slope of operand k; x are the operands, undefined where not saved
  Tensor (*slope)(size_t k, std::span<const Tensor> x, const Tensor& y,
                  const double* params) = nullptr;
  Tensor (*dz)(const Tensor& z, const double* params) = nullptr;
  Tensor (*dzbar)(const Tensor& z, const double* params) = nullptr;
};

// Makes the op of statement `id` (see def::statement_info).
OpInfo& add_statement_op(int id, const StatementReader& reader);

namespace detail {

template <class S>
Tensor read_value(std::span<const Tensor> x, const double* params) {
  const S s = def::make<S>(params);
  if constexpr (S::kind == def::Kind::non_holomorphic) {
    if (is_complex(x[0].dtype())) return s.cvalue(Traced(x[0])).t;
  }
  if constexpr (S::arity == 1)
    return s.value(Traced(x[0])).t;
  else if constexpr (S::arity == 2)
    return s.value(Traced(x[0]), Traced(x[1])).t;
  else
    return s.value(Traced(x[0]), Traced(x[1]), Traced(x[2])).t;
}

template <class S>
Tensor read_slope(size_t k, std::span<const Tensor> x, const Tensor& y, const double* params) {
  const S s = def::make<S>(params);
  auto traced = [](const Tensor& t) { return t.defined() ? Traced(t) : Traced(0.0); };
  if constexpr (!def::has_slopes<S>) {
    return Tensor();
  } else if constexpr (S::arity == 1) {
    return def::slope<0>(s, traced(x[0]), traced(y)).t;
  } else if constexpr (S::arity == 2) {
    return k == 0 ? def::slope<0>(s, traced(x[0]), traced(x[1]), traced(y)).t
                  : def::slope<1>(s, traced(x[0]), traced(x[1]), traced(y)).t;
  } else {
    return k == 1 ? def::slope<1>(s, traced(x[0]), traced(x[1]), traced(x[2]), traced(y)).t
                  : def::slope<2>(s, traced(x[0]), traced(x[1]), traced(x[2]), traced(y)).t;
  }
}

}  // namespace detail

template <class S>
StatementReader reader_of() {
  StatementReader r;
  r.slope = detail::read_slope<S>;
  if constexpr (S::kind == def::Kind::non_holomorphic) {
    r.complex_to_real = std::is_same_v<decltype(S{}.cvalue(c128{})), double>;
    r.dz = [](const Tensor& z, const double* p) { return def::make<S>(p).dz(Traced(z)).t; };
    r.dzbar = [](const Tensor& z, const double* p) { return def::make<S>(p).dzbar(Traced(z)).t; };
  }
  return r;
}

}  // namespace gradus
