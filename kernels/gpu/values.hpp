// Elements in memory and in registers: load and store with the casts of the copy slot, which are
//   complex -> real    the real part                x -> bool      x != 0 (NaN is true)
//   float -> integer   towards zero; beyond the range the nearest end of it, NaN gives 0
//   integer -> integer modulo 2^bits                x -> f16, bf16 rounded once, to nearest even
#pragma once
#include "engine/abi/dtype.hpp"
#include "kernels/gpu/vendor.hpp"

#include <type_traits>

namespace gradus::inline v1::gpu {

// The type that computes for a storage type: float for the 16-bit ones.
template <class T>
struct computing_t {
  using type = T;
};
template <>
struct computing_t<Half> {
  using type = float;
};
template <>
struct computing_t<BFloat16> {
  using type = float;
};
template <class T>
using computing = typename computing_t<T>::type;

namespace detail {

using gradus::detail::bits_float;
using gradus::detail::float_bits;

// To float so that a second rounding, to 16 bits, gives what one rounding would have: an inexact
// result gets an odd last bit (Boldo and Melquiond, IEEE Trans. Computers 57, 2008).
GRADUS_HD inline float round_to_odd(double x) {
  float f = float(x);
  if (double(f) == x || x != x) return f;
  const bool away = (f < 0 ? -double(f) : double(f)) > (x < 0 ? -x : x);
  if (away) f = bits_float(float_bits(f) - 1u);  // one step towards zero
  return bits_float(float_bits(f) | 1u);
}
// An i64 as a double that rounds to 16 bits (or to float) as it would itself.
GRADUS_HD inline float round_to_odd(int64_t x) {
  const bool negative = x < 0;
  uint64_t m = negative ? uint64_t(0) - uint64_t(x) : uint64_t(x);
  bool sticky = false;
  int shift = 0;
  for (; m >> 24; ++shift) {
    sticky = sticky || (m & 1u);
    m >>= 1;
  }
  float f = float(uint32_t(m | uint64_t(sticky)));
  for (; shift > 0; --shift) f *= 2.0f;
  return negative ? -f : f;
}

template <class I, class F>
GRADUS_HD inline I truncated(F x) {
  constexpr bool is_signed = I(-1) < I(0);
  constexpr int bits = int(sizeof(I)) * 8 - (is_signed ? 1 : 0);
  constexpr I high = I((uint64_t(1) << (bits - 1)) - 1 + (uint64_t(1) << (bits - 1)));
  constexpr I low = is_signed ? I(-high - I(1)) : I(0);
  if (x != x) return I(0);
  if (x <= F(low)) return low;
  if (x >= F(high)) return high;
  return I(x);
}

}  // namespace detail

template <class To, class From>
GRADUS_HD inline To cast_to(From x) {
  constexpr bool to_half = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (!std::is_same_v<computing<From>, From>) {
    return cast_to<To>(float(x));
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_complex_v<To>)
      return To(x);
    else if constexpr (std::is_same_v<To, bool>)
      return x.re != 0 || x.im != 0;
    else
      return cast_to<To>(x.re);
  } else if constexpr (is_complex_v<To>) {
    return To(cast_to<real_of<To>>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (to_half) {
    if constexpr (std::is_same_v<From, float>)
      return To(x);
    else if constexpr (std::is_same_v<From, double>)
      return To(detail::round_to_odd(x));
    else
      return To(detail::round_to_odd(int64_t(x)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return detail::truncated<To>(x);
  } else {
    return To(x);
  }
}

// An element that is only moved.
template <size_t Bytes>
struct alignas(Bytes) Element {
  unsigned char bytes[Bytes];
};

// f(S{}) with the type of a dtype.
template <class F>
GRADUS_HD inline void at_any(int32_t dtype, F&& f) {
  switch (dtype) {
    case GD_F32:
      return f(float{});
    case GD_F64:
      return f(double{});
    case GD_C64:
      return f(c64{});
    case GD_C128:
      return f(c128{});
    case GD_I32:
      return f(int32_t{});
    case GD_I64:
      return f(int64_t{});
    case GD_U8:
      return f(uint8_t{});
    case GD_BOOL:
      return f(bool{});
    case GD_F16:
      return f(Half{});
    default:
      return f(BFloat16{});
  }
}
// Element `at` of a buffer of this dtype, as a T.
template <class T>
GRADUS_HD inline T load(const void* data, int64_t at, int32_t dtype) {
  T x{};
  at_any(dtype, [&](auto s) { x = cast_to<T>(static_cast<const decltype(s)*>(data)[at]); });
  return x;
}
template <class T>
GRADUS_HD inline void store(void* data, int64_t at, int32_t dtype, T value) {
  at_any(dtype, [&](auto s) { static_cast<decltype(s)*>(data)[at] = cast_to<decltype(s)>(value); });
}

// Four elements as one or several accesses of at most 16 bytes.
template <class S>
struct alignas(4 * sizeof(S) < 16 ? 4 * sizeof(S) : 16) Four {
  S x[4];
};
template <class S>
__device__ inline bool aligned(const S* p) {
  return (reinterpret_cast<uintptr_t>(p) & (alignof(Four<S>) - 1)) == 0;
}

// The dtypes that share a computing type.
template <class T, class F>
GRADUS_HD inline void at_storage(int32_t dtype, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == GD_F32)
      f(float{});
    else if (dtype == GD_F16)
      f(Half{});
    else
      f(BFloat16{});
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (dtype == GD_I64)
      f(int64_t{});
    else if (dtype == GD_I32)
      f(int32_t{});
    else
      f(uint8_t{});
  } else {
    f(T{});
  }
}
// The dtypes whose casts go through a T, which holds all of their numbers.
template <class T, class F>
GRADUS_HD inline void at_held(int32_t dtype, F&& f) {
  if constexpr (std::is_same_v<T, c128>) {
    if (dtype == GD_F64)
      f(double{});
    else if (dtype == GD_C64)
      f(c64{});
    else
      f(c128{});
  } else {
    if (std::is_same_v<T, int64_t> && dtype == GD_BOOL)
      f(bool{});
    else
      at_storage<T>(dtype, f);
  }
}
template <class T>
GRADUS_HD inline T load_near(const char* data, int64_t at, int32_t dtype) {
  T x{};
  at_storage<T>(dtype, [&](auto s) { x = T(reinterpret_cast<const decltype(s)*>(data)[at]); });
  return x;
}
template <class T>
GRADUS_HD inline void store_near(char* data, int64_t at, int32_t dtype, T x) {
  at_storage<T>(dtype, [&](auto s) { reinterpret_cast<decltype(s)*>(data)[at] = decltype(s)(x); });
}

// Casts between a storage type and the one that computes for it.
template <class S>
__device__ inline auto widened(S x) {
  if constexpr (std::is_same_v<S, Half>)
    return half_to_float(x.bits);
  else
    return computing<S>(x);
}
template <class S, class T>
__device__ inline S narrowed(T x) {
  if constexpr (std::is_same_v<S, Half>) {
    S y;
    y.bits = float_to_half(x);
    return y;
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    S y;
    y.bits = float_to_bfloat16(x);
    return y;
  } else {
    return S(x);
  }
}

}  // namespace gradus::gpu
