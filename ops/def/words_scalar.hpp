// The words for one number: float, double, the integers, bool. Complex numbers stand in
// words_complex.hpp, which this header includes; functions that libm lacks, in words_special.hpp.
// Always ::std with the exact type, so that no float
// is computed in double by accident. Integer + - * wrap only if the kernels are compiled with
// -fwrapv: a word cannot change the operators of int. Plain header: kernels include it.
#pragma once
#include "ops/def/words.hpp"
#include "ops/def/words_special.hpp"

#include <cmath>
#include <stdint.h>

namespace gradus::inline v1 {

namespace detail {

// What all ordered numbers share. A NaN on either side of min and max comes out.
template <class T> struct OrderedWords {
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

template <class R> struct FloatWords : OrderedWords<R> {
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
  GRADUS_HD static R floor(R x) { return ::std::floor(x); }
  GRADUS_HD static R ceil(R x) { return ::std::ceil(x); }
  GRADUS_HD static R round(R x) { return ::std::nearbyint(x); }
  GRADUS_HD static R trunc(R x) { return ::std::trunc(x); }
  GRADUS_HD static R exp2(R x) { return ::std::exp2(x); }
  GRADUS_HD static R log2(R x) { return ::std::log2(x); }
  GRADUS_HD static R log10(R x) { return ::std::log10(x); }
  GRADUS_HD static R tan(R x) { return ::std::tan(x); }
  GRADUS_HD static R asin(R x) { return ::std::asin(x); }
  GRADUS_HD static R acos(R x) { return ::std::acos(x); }
  GRADUS_HD static R atan(R x) { return ::std::atan(x); }
  GRADUS_HD static R sinh(R x) { return ::std::sinh(x); }
  GRADUS_HD static R cosh(R x) { return ::std::cosh(x); }
  GRADUS_HD static R asinh(R x) { return ::std::asinh(x); }
  GRADUS_HD static R acosh(R x) { return ::std::acosh(x); }
  GRADUS_HD static R atanh(R x) { return ::std::atanh(x); }
  GRADUS_HD static R cbrt(R x) { return ::std::cbrt(x); }
  GRADUS_HD static R erfc(R x) { return ::std::erfc(x); }
  GRADUS_HD static R erfinv(R x) { return R(special::erfinv(double(x))); }
  GRADUS_HD static R lgamma(R x) { return R(special::lgamma(double(x))); }
  GRADUS_HD static R digamma(R x) { return R(special::digamma(double(x))); }
  GRADUS_HD static R polygamma(R n, R x) { return R(special::polygamma(double(n), double(x))); }
  GRADUS_HD static R pow(R a, R b) { return ::std::pow(a, b); }
  GRADUS_HD static R atan2(R a, R b) { return ::std::atan2(a, b); }
  GRADUS_HD static R hypot(R a, R b) { return ::std::hypot(a, b); }
  GRADUS_HD static R fmod(R a, R b) { return ::std::fmod(a, b); }
  GRADUS_HD static R copysign(R a, R b) { return ::std::copysign(a, b); }
  // Python's: a - fmod(a, b) is a multiple of b, and one less where the signs of rest and b differ.
  GRADUS_HD static R floor_divide(R a, R b) {
    if (b == R(0)) return a / b;
    const R rest = ::std::fmod(a, b);
    const R q = (a - rest) / b;
    return ::std::nearbyint(rest != R(0) && (rest < R(0)) != (b < R(0)) ? q - R(1) : q);
  }
};

template <class I> struct Limits;
template <> struct Limits<int32_t> {
  using Unsigned = uint32_t;
  static constexpr int32_t low = INT32_MIN, high = INT32_MAX;
};
template <> struct Limits<int64_t> {
  using Unsigned = uint64_t;
  static constexpr int64_t low = INT64_MIN, high = INT64_MAX;
};
template <> struct Limits<uint8_t> {
  using Unsigned = uint32_t;  // not uint8_t: its product would be an int
  static constexpr uint8_t low = 0, high = UINT8_MAX;
};

template <class I> struct IntegerWords : OrderedWords<I> {
  using U = typename Limits<I>::Unsigned;
  GRADUS_HD static bool negative(I x) { return int64_t(x) < 0; }
  // abs of the least integer is itself.
  GRADUS_HD static I abs(I x) { return negative(x) ? I(U(0) - U(x)) : x; }
  GRADUS_HD static I cabs(I x) { return abs(x); }
  GRADUS_HD static I sign(I x) { return x == I(0) ? x : negative(x) ? I(-1) : I(1); }
  GRADUS_HD static I floor(I x) { return x; }
  GRADUS_HD static I ceil(I x) { return x; }
  GRADUS_HD static I round(I x) { return x; }
  GRADUS_HD static I trunc(I x) { return x; }
  // By b = 0 both are 0. By -1 the least integer would trap, so nothing is divided by -1.
  GRADUS_HD static I fmod(I a, I b) {
    return b == I(0) || (b == I(-1) && negative(b)) ? I(0) : I(a % b);
  }
  GRADUS_HD static I floor_divide(I a, I b) {
    if (b == I(0)) return I(0);
    if (b == I(-1) && negative(b)) return I(U(0) - U(a));
    return I(a / b - (a % b != I(0) && negative(a) != negative(b) ? 1 : 0));
  }
  GRADUS_HD static I copysign(I a, I b) { return negative(b) ? I(U(0) - U(abs(a))) : abs(a); }
  GRADUS_HD static I bit_and(I a, I b) { return I(a & b); }
  GRADUS_HD static I bit_or(I a, I b) { return I(a | b); }
  GRADUS_HD static I bit_xor(I a, I b) { return I(a ^ b); }
  GRADUS_HD static I bit_not(I x) { return I(~x); }
  // By as many bits as there are, or by less than none, all of them are gone.
  GRADUS_HD static bool shifts(I b) { return !negative(b) && b < I(8 * sizeof(I)); }
  GRADUS_HD static I shift_left(I a, I b) { return shifts(b) ? I(U(a) << b) : I(0); }
  GRADUS_HD static I shift_right(I a, I b) {
    return shifts(b) ? I(a >> b) : negative(a) ? I(-1) : I(0);
  }
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

template <> struct Words<float> : detail::FloatWords<float> {};
template <> struct Words<double> : detail::FloatWords<double> {};
template <> struct Words<int32_t> : detail::IntegerWords<int32_t> {};
template <> struct Words<int64_t> : detail::IntegerWords<int64_t> {};
template <> struct Words<uint8_t> : detail::IntegerWords<uint8_t> {};
template <> struct Words<bool> : detail::OrderedWords<bool> {
  GRADUS_HD static bool sign(bool x) { return x; }
  GRADUS_HD static bool bit_and(bool a, bool b) { return a && b; }
  GRADUS_HD static bool bit_or(bool a, bool b) { return a || b; }
  GRADUS_HD static bool bit_xor(bool a, bool b) { return a != b; }
  GRADUS_HD static bool bit_not(bool x) { return !x; }
};

}  // namespace gradus

#include "ops/def/words_complex.hpp"
