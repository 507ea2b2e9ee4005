// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC'11), and the distributions built on it. Seed and position give the number, on every
// device with the same bits: only + - * / and sqrt, no libm. Plain header: kernels include it.
#pragma once
#include "engine/abi/hd.hpp"

#include <stdint.h>
#include <string.h>

namespace gradus::inline v1 {

struct PhiloxWords {
  uint32_t w[4];
};

// Ten rounds on counter (c0..c3) under key (k0, k1).
GRADUS_HD inline PhiloxWords philox(uint64_t seed, uint64_t counter, uint64_t high = 0) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = uint32_t(high),
           c3 = uint32_t(high >> 32), k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t(0xD2511F53u) * c0, q = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(q >> 32) ^ c1 ^ k0;
    c1 = uint32_t(q);
    c2 = uint32_t(p >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The 64 random bits of number n: two words of block n / 2.
struct RandomBits {
  uint32_t a, b;
};
GRADUS_HD inline RandomBits random_bits(uint64_t seed, uint64_t n) {
  const PhiloxWords p = philox(seed, n >> 1);
  return (n & 1) ? RandomBits{p.w[2], p.w[3]} : RandomBits{p.w[0], p.w[1]};
}

// Uniform on [0, 1), with as many random bits as the dtype holds, so that none is rounded to 1.
GRADUS_HD inline double uniform(RandomBits r, int bits = 53) {
  if (bits < 32) return double(r.a >> (32 - bits)) / double(1u << bits);
  return double((uint64_t(r.a >> 5) << 26) | (r.b >> 6)) * 0x1p-53;
}

namespace detail {
// ln(x) for a positive normal double: x = 2^e m with m in [sqrt(1/2), sqrt(2)),
// ln m = 2 atanh(s), s = (m - 1) / (m + 1), by its odd series. |s| < 0.172: 11 terms give 1e-17.
GRADUS_HD inline double ln(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  int64_t e = int64_t(u >> 52) - 1023;
  u = (u & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  memcpy(&m, &u, 8);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    e += 1;
  }
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 0.0;
  for (int k = 21; k >= 1; k -= 2) p = p * z + 1.0 / double(k);
  return double(e) * 0.6931471805599453 + 2.0 * s * p;
}
// cos(2 pi t) for t in [0, 1): fold to |a| <= pi/4 and take the Taylor series of sine or cosine.
GRADUS_HD inline double cos_turn(double t) {
  const int quadrant = int(t * 4.0 + 0.5);  // 0..4
  const double a = (t - double(quadrant) * 0.25) * 6.283185307179586, z = a * a;
  double c = 1.0, s = 1.0;
  for (int k = 16; k >= 2; k -= 2) c = 1.0 - c * z / double(k * (k - 1));
  for (int k = 17; k >= 3; k -= 2) s = 1.0 - s * z / double(k * (k - 1));
  s = s * a;
  switch (quadrant & 3) {
    case 0:
      return c;
    case 1:
      return -s;
    case 2:
      return -c;
    default:
      return s;
  }
}
GRADUS_HD inline double square_root(double x) { return __builtin_sqrt(x); }
}  // namespace detail

// Standard normal by Box and Muller (Ann. Math. Stat. 29, 1958), computed in f64 for every dtype.
// u in (0, 1] has 32 bits, so |z| <= 6.66.
GRADUS_HD inline double normal_f64(RandomBits r) {
  const double u = (double(r.a) + 1.0) * 0x1p-32, t = double(r.b) * 0x1p-32;
  return detail::square_root(-2.0 * detail::ln(u)) * detail::cos_turn(t);
}

}  // namespace gradus
