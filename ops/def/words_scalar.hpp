// The words for one number: float, double, the integers, bool. Complex numbers stand in
// words_complex.hpp, which this header includes. Always ::std with the exact type, so that no float
// is computed in double by accident. Integer + - * wrap only if the kernels are compiled with
// -fwrapv: a word cannot change the operators of int. Plain header: kernels include it.
#pragma once
#include "ops/def/words.hpp"

#include <cmath>
#include <stdint.h>

namespace gradus {

namespace detail {

// What all ordered numbers share. A NaN on either side of min and max comes out.
template <class T>
struct OrderedWords {
  using Mask = bool;
  using Real = T;
  GRADUS_HD static T min(T a, T b) { return a < b || a != a ? a : b; }
  GRADUS_HD static T max(T a, T b) { return b < a || a != a ? a : b; }
  GRADUS_HD static bool lt(T a, T b) { return a < b; }
  GRADUS_HD static bool le(T a, T b) { return a <= b; }
  GRADUS_HD static bool eq(T a, T b) { return a == b; }
  GRADUS_HD static bool ne(T a, T b) { return a != b; }
  GRADUS_HD static T select(bool m, T a, T b) { return m ? a : b; }
  GRADUS_HD static T conj(T x) { return x; }
  GRADUS_HD static T real(T x) { return x; }
  GRADUS_HD static T imag(T) { return T(0); }
};

template <class R>
struct FloatWords : OrderedWords<R> {
  GRADUS_HD static R exp(R x) { return ::std::exp(x); }
  GRADUS_HD static R expm1(R x) { return ::std::expm1(x); }
  GRADUS_HD static R log(R x) { return ::std::log(x); }
  GRADUS_HD static R log1p(R x) { return ::std::log1p(x); }
  GRADUS_HD static R sqrt(R x) { return ::std::sqrt(x); }
  GRADUS_HD static R sin(R x) { return ::std::sin(x); }
  GRADUS_HD static R cos(R x) { return ::std::cos(x); }
  GRADUS_HD static R tanh(R x) { return ::std::tanh(x); }
  GRADUS_HD static R erf(R x) { return ::std::erf(x); }
  GRADUS_HD static R abs(R x) { return ::std::fabs(x); }
  GRADUS_HD static R cabs(R x) { return ::std::fabs(x); }
  GRADUS_HD static R sign(R x) { return x > R(0) ? R(1) : x < R(0) ? R(-1) : x; }
  GRADUS_HD static R pow(R a, R b) { return ::std::pow(a, b); }
};

template <class I>
struct Limits;
template <>
struct Limits<int32_t> {
  using Unsigned = uint32_t;
  static constexpr int32_t low = INT32_MIN, high = INT32_MAX;
};
template <>
struct Limits<int64_t> {
  using Unsigned = uint64_t;
  static constexpr int64_t low = INT64_MIN, high = INT64_MAX;
};
template <>
struct Limits<uint8_t> {
  using Unsigned = uint32_t;  // not uint8_t: its product would be an int
  static constexpr uint8_t low = 0, high = UINT8_MAX;
};

template <class I>
struct IntegerWords : OrderedWords<I> {
  using U = typename Limits<I>::Unsigned;
  GRADUS_HD static bool negative(I x) { return int64_t(x) < 0; }
  // abs of the least integer is itself.
  GRADUS_HD static I abs(I x) { return negative(x) ? I(U(0) - U(x)) : x; }
  GRADUS_HD static I cabs(I x) { return abs(x); }
  GRADUS_HD static I sign(I x) { return x == I(0) ? x : negative(x) ? I(-1) : I(1); }
  // Exact modulo 2^bits. A negative power of anything but 1 and -1 is 0.
  GRADUS_HD static I pow(I a, I b) {
    if (negative(b)) return a == I(1) ? I(1) : a == I(-1) ? (b & 1 ? I(-1) : I(1)) : I(0);
    U result = 1, square = U(a);
    for (U n = U(b); n != 0; n >>= 1) {
      if (n & 1) result *= square;
      square *= square;
    }
    return I(result);
  }
  // Saturates; NaN gives 0.
  GRADUS_HD static I number(double p) {
    if (p != p) return I(0);
    if (p <= double(Limits<I>::low)) return Limits<I>::low;
    if (p >= double(Limits<I>::high)) return Limits<I>::high;
    return I(p);
  }
};

}  // namespace detail

template <>
struct Words<float> : detail::FloatWords<float> {};
template <>
struct Words<double> : detail::FloatWords<double> {};
template <>
struct Words<int32_t> : detail::IntegerWords<int32_t> {};
template <>
struct Words<int64_t> : detail::IntegerWords<int64_t> {};
template <>
struct Words<uint8_t> : detail::IntegerWords<uint8_t> {};
template <>
struct Words<bool> : detail::OrderedWords<bool> {};

}  // namespace gradus

#include "ops/def/words_complex.hpp"
