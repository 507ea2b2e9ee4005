// Casts of one element, and rows of them.
#include "kernels/reference/convert.hpp"

#include <cmath>
#include <limits>
#include <type_traits>

namespace gradus::inline v1::reference {
namespace {

template <class T>
constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// x rounded to float so that a second rounding to 16 bits gives what one rounding of x would have:
// an inexact result gets an odd last bit, so it can never look like a tie (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008).
float round_to_odd(long double x) {
  float f = float(x);
  if (static_cast<long double>(f) == x || x != x) return f;
  if (std::fabs(static_cast<long double>(f)) > std::fabs(x)) f = std::nextafter(f, 0.0f);
  return detail::bits_float(detail::float_bits(f) | 1u);
}

template <class I, class F>
I truncated(F x) {
  constexpr I low = std::numeric_limits<I>::min(), high = std::numeric_limits<I>::max();
  if (x != x) return 0;
  if (x <= F(low)) return low;
  if (x >= F(high)) return high;
  return I(x);
}

template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_half_type<From>) {
    return cast<To>(float(x));
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_complex_v<To>)
      return To(x);
    else if constexpr (std::is_same_v<To, bool>)
      return x.re != 0 || x.im != 0;
    else
      return cast<To>(x.re);
  } else if constexpr (is_complex_v<To>) {
    return To(cast<real_of<To>>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_same_v<From, float>)
      return To(x);
    else
      return To(round_to_odd(static_cast<long double>(x)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncated<To>(x);
  } else {
    return To(x);
  }
}

}  // namespace

void convert(DType from_dtype, const void* from, DType to_dtype, void* to, int64_t n) {
  visit_dtype(int32_t(from_dtype), [&](auto a) {
    visit_dtype(int32_t(to_dtype), [&](auto b) {
      const auto* x = static_cast<const decltype(a)*>(from);
      auto* y = static_cast<decltype(b)*>(to);
      for (int64_t i = 0; i < n; ++i) y[i] = cast<decltype(b)>(x[i]);
    });
  });
}

}  // namespace gradus::reference
