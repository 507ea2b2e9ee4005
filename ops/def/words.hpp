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
#include "engine/complex.hpp"
#include "engine/hd.hpp"

namespace gradus {

template <class T>
struct Words;

template <class T>
using Mask = typename Words<T>::Mask;

// Words that exist to take another reader's real part type (abs of a complex is real).
template <class T>
using real_reader = typename Words<T>::Real;

namespace w {
#define GRADUS_WORD1(name)       \
  template <class T>             \
  GRADUS_HD inline T name(T x) { \
    return Words<T>::name(x);    \
  }
GRADUS_WORD1(exp)
GRADUS_WORD1(expm1)
GRADUS_WORD1(log)
GRADUS_WORD1(log1p)
GRADUS_WORD1(sqrt)
GRADUS_WORD1(sin)
GRADUS_WORD1(cos)
GRADUS_WORD1(tanh)
GRADUS_WORD1(erf)
GRADUS_WORD1(abs)   // real types only
GRADUS_WORD1(sign)  // real types only; NaN stays NaN
#undef GRADUS_WORD1

template <class T>
GRADUS_HD inline T pow(T a, T b) {
  return Words<T>::pow(a, b);
}
// NaN on either side gives NaN.
template <class T>
GRADUS_HD inline T min(T a, T b) {
  return Words<T>::min(a, b);
}
template <class T>
GRADUS_HD inline T max(T a, T b) {
  return Words<T>::max(a, b);
}

template <class T>
GRADUS_HD inline Mask<T> lt(T a, T b) {
  return Words<T>::lt(a, b);
}
template <class T>
GRADUS_HD inline Mask<T> le(T a, T b) {
  return Words<T>::le(a, b);
}
template <class T>
GRADUS_HD inline Mask<T> eq(T a, T b) {
  return Words<T>::eq(a, b);
}
template <class T>
GRADUS_HD inline Mask<T> gt(T a, T b) {
  return Words<T>::lt(b, a);
}
template <class T>
GRADUS_HD inline Mask<T> ge(T a, T b) {
  return Words<T>::le(b, a);
}
template <class T>
GRADUS_HD inline Mask<T> ne(T a, T b) {
  return Words<T>::ne(a, b);
}
template <class T>
GRADUS_HD inline T select(Mask<T> m, T a, T b) {
  return Words<T>::select(m, a, b);
}

// Complex readers: conj on any T (identity on real), real/imag/cabs give the real reader.
template <class T>
GRADUS_HD inline T conj(T x) {
  return Words<T>::conj(x);
}
template <class T>
GRADUS_HD inline real_reader<T> real(T x) {
  return Words<T>::real(x);
}
template <class T>
GRADUS_HD inline real_reader<T> imag(T x) {
  return Words<T>::imag(x);
}
template <class T>
GRADUS_HD inline real_reader<T> cabs(T x) {
  return Words<T>::cabs(x);
}
// The imaginary unit; complex readers only.
template <class T>
GRADUS_HD inline T i() {
  return Words<T>::i();
}

// A parameter as a T. Integer readers saturate (clamp's bound -inf becomes the least integer), all
// others write T(p).
template <class T>
GRADUS_HD inline T number(double p) {
  if constexpr (requires { Words<T>::number(p); })
    return Words<T>::number(p);
  else
    return T(p);
}
}  // namespace w

}  // namespace gradus
