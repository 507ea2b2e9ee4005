// Half (IEEE binary16) and BFloat16: 16-bit storage types. All arithmetic is done in float; these
// convert, rounding to nearest even. Plain header: kernels include it.
#pragma once
#include "engine/abi/hd.hpp"

#include <stdint.h>
#include <string.h>

namespace gradus::inline v1 {

namespace detail {
GRADUS_HD inline uint32_t float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
GRADUS_HD inline float bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
}  // namespace detail

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  GRADUS_HD explicit BFloat16(float x) {
    uint32_t u = detail::float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = uint16_t((u >> 16) | 0x40u);  // NaN stays NaN
    else
      bits = uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  GRADUS_HD operator float() const { return detail::bits_float(uint32_t(bits) << 16); }
};

struct Half {
  uint16_t bits = 0;
  Half() = default;
  GRADUS_HD explicit Half(float x) {
    const uint32_t u = detail::float_bits(x), sign = (u >> 16) & 0x8000u;
    uint32_t m = u & 0x7fffffffu;
    if (m > 0x7f800000u) {
      bits = uint16_t(sign | 0x7e00u | ((m >> 13) & 0x3ffu));
    } else if (m >= 0x47800000u) {  // 65536 and above
      bits = uint16_t(sign | 0x7c00u);
    } else if (m >= 0x38800000u) {  // normal in binary16
      m += 0xfffu + ((m >> 13) & 1u);
      bits = uint16_t(sign | ((m - 0x38000000u) >> 13));
    } else {  // subnormal: adding 0.5 lines the mantissa up with 2^-24
      const float a = detail::bits_float(m) + 0.5f;
      bits = uint16_t(sign | (detail::float_bits(a) - 0x3f000000u));
    }
  }
  GRADUS_HD operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16, e = (bits >> 10) & 0x1fu,
                   f = bits & 0x3ffu;
    if (e == 31) return detail::bits_float(sign | 0x7f800000u | (f << 13));
    if (e == 0) {
      const float m = float(f) * 5.9604644775390625e-08f;  // f * 2^-24
      return sign ? -m : m;
    }
    return detail::bits_float(sign | ((e + 112u) << 23) | (f << 13));
  }
};

}  // namespace gradus
