// The closed list of words that statements may use, always written w::exp(x). Each reader (float,
// a SIMD batch, a dual number, Tensor, Expr, ...) gives them meaning by specialising Words<T>:
//
//   template <> struct Words<MyType> {
//     using Mask = ...;                                  // what a comparison gives
//     static MyType exp(MyType x); ...                   // one static function per word
//     static Mask lt(MyType a, MyType b); ...
//     static MyType select(Mask m, MyType a, MyType b);
//   };
//
// + - * / and unary minus are the type's own operators; T(2.0) makes a constant. Nothing outside
// this list compiles inside a statement: the names of libm are hidden by ops/def/names.hpp.
// Scalar readers stand in words_scalar.hpp, symbols in expr.hpp, dual numbers in dual.hpp.
// Plain header: kernels include it.
#pragma once
#include "engine/abi/complex.hpp"
#include "engine/abi/hd.hpp"

namespace gradus::inline v1 {

template <class T> struct Words;

template <class T> using Mask = typename Words<T>::Mask;

// Words that exist to take another reader's real part type (abs of a complex is real).
template <class T> using real_reader = typename Words<T>::Real;

// The functions of one number, in lists: a reader that gives all of them one shape says so once.
// abs and sign are read by real types only; sign of NaN is NaN.
#define GRADUS_WORDS(X) \
  X(exp) X(expm1) X(log) X(log1p) X(sqrt) X(sin) X(cos) X(tanh) X(erf) X(abs) X(sign)
// round goes to even at a tie. Integers are left as they are.
#define GRADUS_ROUNDING_WORDS(X) X(floor) X(ceil) X(round) X(trunc)
// Rarer ones: a reader of several lanes computes them lane by lane.
// clang-format off
#define GRADUS_LANE_WORDS(X) \
  X(exp2) X(log2) X(log10) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) \
  X(cbrt) X(erfc) \
  X(erfinv) X(lgamma) X(digamma)
// clang-format on
// fmod has the sign of a, floor_divide rounds down; on integers both are 0 where b is 0.
// polygamma(n, x) is the n-th derivative of digamma.
#define GRADUS_LANE_WORDS2(X) \
  X(pow) X(atan2) X(hypot) X(fmod) X(floor_divide) X(copysign) X(polygamma)
// Integers only, the first three bool as well.
#define GRADUS_BIT_WORDS2(X) X(bit_and) X(bit_or) X(bit_xor) X(shift_left) X(shift_right)

namespace w {
#define GRADUS_WORD(name) \
  template <class T> GRADUS_HD inline T name(T x) { return Words<T>::name(x); }
#define GRADUS_WORD2(name) \
  template <class T> GRADUS_HD inline T name(T a, T b) { return Words<T>::name(a, b); }
GRADUS_WORDS(GRADUS_WORD)
GRADUS_ROUNDING_WORDS(GRADUS_WORD)
GRADUS_LANE_WORDS(GRADUS_WORD)
GRADUS_LANE_WORDS2(GRADUS_WORD2)
GRADUS_BIT_WORDS2(GRADUS_WORD2)
GRADUS_WORD(bit_not)  // integers and bool only
#undef GRADUS_WORD
#undef GRADUS_WORD2

// NaN on either side gives NaN.
template <class T> GRADUS_HD inline T min(T a, T b) { return Words<T>::min(a, b); }
template <class T> GRADUS_HD inline T max(T a, T b) { return Words<T>::max(a, b); }

template <class T> GRADUS_HD inline Mask<T> lt(T a, T b) { return Words<T>::lt(a, b); }
template <class T> GRADUS_HD inline Mask<T> le(T a, T b) { return Words<T>::le(a, b); }
template <class T> GRADUS_HD inline Mask<T> eq(T a, T b) { return Words<T>::eq(a, b); }
template <class T> GRADUS_HD inline Mask<T> gt(T a, T b) { return Words<T>::lt(b, a); }
template <class T> GRADUS_HD inline Mask<T> ge(T a, T b) { return Words<T>::le(b, a); }
template <class T> GRADUS_HD inline Mask<T> ne(T a, T b) { return Words<T>::ne(a, b); }
template <class T> GRADUS_HD inline T select(Mask<T> m, T a, T b) {
  return Words<T>::select(m, a, b);
}

// Complex readers: conj on any T (identity on real), real/imag/cabs give the real reader.
template <class T> GRADUS_HD inline T conj(T x) { return Words<T>::conj(x); }
template <class T> GRADUS_HD inline real_reader<T> real(T x) { return Words<T>::real(x); }
template <class T> GRADUS_HD inline real_reader<T> imag(T x) { return Words<T>::imag(x); }
template <class T> GRADUS_HD inline real_reader<T> cabs(T x) { return Words<T>::cabs(x); }
// The imaginary unit; complex readers only.
template <class T> GRADUS_HD inline T i() { return Words<T>::i(); }

// A parameter as a T. Integer readers saturate (clamp's bound -inf becomes the least integer), all
// others write T(p).
template <class T> GRADUS_HD inline T number(double p) {
  if constexpr (requires { Words<T>::number(p); })
    return Words<T>::number(p);
  else
    return T(p);
}
}  // namespace w

}  // namespace gradus
