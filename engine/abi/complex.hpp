// Complex<R>: a plain struct {re, im}, laid out as std::complex<R>, usable in device code.
// Arithmetic only; functions (exp, log, ...) are words of ops/def/words.hpp. Plain header:
// kernels include it.
#pragma once
#include "engine/abi/hd.hpp"

namespace gradus::inline v1 {

template <class R>
struct Complex {
  using real_type = R;
  R re{}, im{};

  Complex() = default;
  GRADUS_HD constexpr Complex(R r, R i = R(0)) : re(r), im(i) {}
  template <class S>
  GRADUS_HD constexpr explicit Complex(const Complex<S>& z) : re(R(z.re)), im(R(z.im)) {}

  GRADUS_HD friend constexpr Complex operator+(Complex a, Complex b) {
    return {a.re + b.re, a.im + b.im};
  }
  GRADUS_HD friend constexpr Complex operator-(Complex a, Complex b) {
    return {a.re - b.re, a.im - b.im};
  }
  GRADUS_HD friend constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  GRADUS_HD friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  // Smith's algorithm (CACM 5, 1962): no overflow in |b|^2. Finite / infinite is 0, as in C99,
  // annex G.
  GRADUS_HD friend constexpr Complex operator/(Complex a, Complex b) {
    const R p = b.re < 0 ? -b.re : b.re, q = b.im < 0 ? -b.im : b.im;
    const bool infinite = (p == p && p - p != R(0)) || (q == q && q - q != R(0));
    if (infinite && a.re - a.re == R(0) && a.im - a.im == R(0)) return {R(0), R(0)};
    if (p >= q) {
      if (p == R(0)) return {a.re / p, a.im / p};
      const R r = b.im / b.re, d = b.re + b.im * r;
      return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
    }
    const R r = b.re / b.im, d = b.re * r + b.im;
    return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
  }
  GRADUS_HD friend constexpr bool operator==(Complex a, Complex b) {
    return a.re == b.re && a.im == b.im;
  }
  GRADUS_HD friend constexpr bool operator!=(Complex a, Complex b) { return !(a == b); }
  GRADUS_HD constexpr Complex& operator+=(Complex b) { return *this = *this + b; }
  GRADUS_HD constexpr Complex& operator*=(Complex b) { return *this = *this * b; }
};

using c64 = Complex<float>;
using c128 = Complex<double>;

template <class T>
inline constexpr bool is_complex_v = false;
template <class R>
inline constexpr bool is_complex_v<Complex<R>> = true;

// real_of<T>: R for Complex<R>, T otherwise.
template <class T>
struct real_of_t {
  using type = T;
};
template <class R>
struct real_of_t<Complex<R>> {
  using type = R;
};
template <class T>
using real_of = typename real_of_t<T>::type;

template <class T>
GRADUS_HD constexpr T conj_of(T x) {
  if constexpr (is_complex_v<T>)
    return {x.re, -x.im};
  else
    return x;
}

}  // namespace gradus
