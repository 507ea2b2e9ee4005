// What a statement is. A statement is one small struct in ops/def/statements.hpp:
//
//   struct sigmoid : Unary {
//     static constexpr Meta meta{"sigmoid", "logistic function", kReal | kComplex};
//     template <class T> GRADUS_HD T value(T x) const { return T(1) / (T(1) + w::exp(-x)); }
//     template <class T> GRADUS_HD T slope(T, T y) const { return y * (T(1) - y); }
//   };
//
// Binary statements give value(a, b), slope_a(a, b, y), slope_b(a, b, y); Comparison and Test give
// a Mask<T> value of two operands and of one, and no slope, and so do statements that read neither
// real nor complex numbers; where is value(m, a, b) with slope_a(m, a, b, y), slope_b.
// NonHolomorphic (abs sign angle ...) are unary: on real T they are read by value(x) and
// slope(x, y) like any other; on complex T by cvalue(z) and the two Wirtinger derivatives dz(z),
// dzbar(z), all read by complex readers (cvalue may give real_reader<T>).
// Parameters are the struct's only data members, up to four doubles with defaults, named in meta in
// the order of declaration. They are constants to autograd.
// Letters: x, a, b operands, y the value, m a mask. Plain header: kernels include it.
#pragma once
#include "engine/abi/dtype.hpp"
#include "ops/def/words.hpp"

#include <string.h>
#include <type_traits>

namespace gradus::inline v1::def {

enum Dtypes : unsigned {
  kReal = 1,     // f32 f64 (f16 and bf16 through f32)
  kComplex = 2,  // c64 c128
  kInteger = 4,  // i32 i64 u8
  kBool = 8,
  kNumbers = kReal | kComplex | kInteger,
  kAny = kNumbers | kBool,
};

struct Meta {
  const char* name;
  const char* doc;
  unsigned dtypes;
  const char* params[4] = {};
  GRADUS_HD constexpr int param_count() const {
    int n = 0;
    while (n < 4 && params[n]) ++n;
    return n;
  }
};

enum class Kind { pointwise, comparison, select, non_holomorphic };

struct Unary {
  static constexpr int arity = 1;
  static constexpr Kind kind = Kind::pointwise;
};
struct Binary {
  static constexpr int arity = 2;
  static constexpr Kind kind = Kind::pointwise;
};
struct Comparison {
  static constexpr int arity = 2;
  static constexpr Kind kind = Kind::comparison;
};
struct Test {
  static constexpr int arity = 1;
  static constexpr Kind kind = Kind::comparison;
};
struct Select {
  static constexpr int arity = 3;
  static constexpr Kind kind = Kind::select;
};
struct NonHolomorphic {
  static constexpr int arity = 1;
  static constexpr Kind kind = Kind::non_holomorphic;
};

// Does statement S read dtype code T at all?
template <class S, class T> constexpr bool reads() {
  constexpr DType d = dtype_of<T>;
  constexpr unsigned need = d == DType::bool_  ? kBool
                            : is_complex(d)    ? kComplex
                            : is_real_float(d) ? kReal
                                               : kInteger;
  return (S::meta.dtypes & need) != 0;
}

// Has S slopes? Comparisons have none, nor has what reads integers alone.
template <class S> constexpr bool has_slopes = S::kind != Kind::comparison &&
                                               (S::meta.dtypes & (kReal | kComplex)) != 0;

// On complex z such a statement has two derivatives, by z and by its conjugate, and no slope.
template <class S, class T> constexpr bool two_derivatives =
    S::kind == Kind::non_holomorphic&& is_complex_v<T>;

// Has operand K of S a slope that T can read?
template <int K, class S, class T> constexpr bool has_slope() {
  if (std::is_integral_v<T> || K >= S::arity || two_derivatives<S, T> || !has_slopes<S>)
    return false;
  return S::kind != Kind::select || K > 0;
}

// A statement with its parameters taken from doubles[0..param_count).
template <class S> GRADUS_HD inline S make(const double* doubles) {
  S s{};
  if constexpr (S::meta.param_count() > 0) {
    static_assert(sizeof(S) == sizeof(double) * S::meta.param_count(), "parameters are doubles");
    memcpy(static_cast<void*>(&s), doubles, sizeof(S));
  }
  return s;
}

// slope of operand K, one spelling for all arities (operands, then y).
template <int K, class S, class T> GRADUS_HD inline T slope(const S& s, T x, T y) {
  static_assert(K == 0);
  return s.slope(x, y);
}
template <int K, class S, class T> GRADUS_HD inline T slope(const S& s, T a, T b, T y) {
  if constexpr (K == 0)
    return s.slope_a(a, b, y);
  else
    return s.slope_b(a, b, y);
}
// where: operand 0 is the mask and has no slope.
template <int K, class S, class T> GRADUS_HD inline T slope(const S& s, Mask<T> m, T a, T b, T y) {
  if constexpr (K == 1)
    return s.slope_a(m, a, b, y);
  else
    return s.slope_b(m, a, b, y);
}

// The list of all statements, in the order of their ids.
template <class... S> struct List { static constexpr int size = sizeof...(S); };
namespace detail {
template <class A, class B> inline constexpr bool same = false;
template <class A> inline constexpr bool same<A, A> = true;
template <class S, class... All> constexpr int index_in(List<All...>) {
  int id = 0;
  return ((same<S, All> || (++id, false)) || ...) ? id : -1;
}
}  // namespace detail
// Calls f.template operator()<S>(id) for every statement.
template <class F, class... S> constexpr void for_each(List<S...>, F&& f) {
  int id = 0;
  (f.template operator()<S>(id++), ...);
}
// Calls f.template operator()<S>() for the statement of this id; false if there is none.
template <class F, class... S> constexpr bool visit(List<S...>, int id, F&& f) {
  int k = 0;
  return ((k++ == id && (f.template operator()<S>(), true)) || ...);
}

}  // namespace gradus::def
