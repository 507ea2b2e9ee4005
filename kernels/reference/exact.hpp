// Two exact number types, for proofs instead of tolerances: integers modulo a prime, and fractions.
// Over them <w, J v> and <J^T w, v> must be equal, not near.
#pragma once
#include "kernels/reference/user_scalar.hpp"

#include <ostream>

namespace gradus::inline v1 {

// Integers modulo a prime P < 2^31; every number but 0 has an inverse.
template <uint32_t P>
struct ModInt {
  uint32_t v = 0;
  ModInt() = default;
  explicit ModInt(int64_t n) : v(uint32_t(n % int64_t(P) + (n < 0 && n % int64_t(P) ? P : 0))) {}
  friend ModInt operator+(ModInt a, ModInt b) { return reduced(uint64_t(a.v) + b.v); }
  friend ModInt operator-(ModInt a, ModInt b) { return reduced(uint64_t(a.v) + P - b.v); }
  friend ModInt operator-(ModInt a) { return reduced(uint64_t(P) - a.v); }
  friend ModInt operator*(ModInt a, ModInt b) { return reduced(uint64_t(a.v) * b.v); }
  // a b^(P - 2), by Fermat.
  friend ModInt operator/(ModInt a, ModInt b) {
    if (b.v == 0) throw reference::Refusal{GD_INVALID, "reference: ModInt: division by 0"};
    for (uint32_t n = P - 2; n != 0; n >>= 1) {
      if (n & 1u) a = a * b;
      b = b * b;
    }
    return a;
  }
  friend bool operator==(ModInt a, ModInt b) { return a.v == b.v; }
  friend std::ostream& operator<<(std::ostream& out, ModInt a) { return out << a.v; }

 private:
  static ModInt reduced(uint64_t n) {
    ModInt m;
    m.v = uint32_t(n % P);
    return m;
  }
};

// Fractions in lowest terms, denominator above 0; one that exceeds 64 bits is refused.
struct Rational {
  int64_t num = 0, den = 1;
  Rational() = default;
  explicit Rational(int64_t n) : num(n) {}
  Rational(int64_t n, int64_t d) : Rational(reduced(n, d)) {}
  friend Rational operator+(Rational a, Rational b) {
    return reduced(Wide(a.num) * b.den + Wide(b.num) * a.den, Wide(a.den) * b.den);
  }
  friend Rational operator-(Rational a) { return reduced(-Wide(a.num), a.den); }
  friend Rational operator-(Rational a, Rational b) { return a + -b; }
  friend Rational operator*(Rational a, Rational b) {
    return reduced(Wide(a.num) * b.num, Wide(a.den) * b.den);
  }
  friend Rational operator/(Rational a, Rational b) {
    return reduced(Wide(a.num) * b.den, Wide(a.den) * b.num);
  }
  friend bool operator==(Rational a, Rational b) { return a.num == b.num && a.den == b.den; }
  friend bool operator<(Rational a, Rational b) {
    return Wide(a.num) * b.den < Wide(b.num) * a.den;
  }
  friend std::ostream& operator<<(std::ostream& out, Rational a) {
    out << a.num;
    return a.den == 1 ? out : out << "/" << a.den;
  }

 private:
  __extension__ using Wide = __int128;
  static Rational reduced(Wide n, Wide d) {
    if (d == 0) throw reference::Refusal{GD_INVALID, "reference: Rational: division by 0"};
    Wide a = n < 0 ? -n : n, b = d < 0 ? -d : d;
    while (b != 0) {
      const Wide r = a % b;
      a = b;
      b = r;
    }
    if (d < 0) a = -a;
    n /= a;
    d /= a;
    Rational q;
    q.num = int64_t(n);
    q.den = int64_t(d);
    if (q.num != n || q.den != d)
      throw reference::Refusal{GD_INVALID, "reference: Rational: a fraction exceeds 64 bits"};
    return q;
  }
};

}  // namespace gradus
