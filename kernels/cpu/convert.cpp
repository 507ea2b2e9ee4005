// Casts between all pairs of dtypes, on contiguous elements:
//   complex -> real    the real part             x -> bool      x != 0 (NaN is true)
//   float -> integer   towards zero; beyond the range its nearest end, NaN gives 0
//   integer -> integer modulo 2^bits             x -> f16, bf16 rounded once, to nearest even
#include "engine/abi/dtype.hpp"
#include "kernels/cpu/slots.hpp"

#include <limits>
#include <type_traits>

namespace gradus::inline v1::cpu {
namespace {

template <class T>
constexpr bool is_16_bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// x as a float whose last bit says "inexact": rounding it again to 16 bits gives what one rounding
// of x would (round to odd; Boldo and Melquiond, IEEE Trans. Computers 57, 2008).
template <class T>
float odd_float(T x) {
  using Exact = std::conditional_t<std::is_same_v<T, double>, double, long double>;
  const float f = float(x);
  if (Exact(f) == Exact(x) || x != x) return f;
  uint32_t bits = detail::float_bits(f);
  const bool away = x < T(0) ? Exact(f) < Exact(x) : Exact(f) > Exact(x);
  if (away) --bits;
  return detail::bits_float(bits | 1u);
}

template <class I, class F>
I truncated(F x) {
  if (x != x) return 0;
  if (x <= F(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (x >= F(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return I(x);
}

template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (is_16_bit<From>)
    return cast<To>(float(x));
  else if constexpr (is_complex_v<From> && is_complex_v<To>)
    return To(x);
  else if constexpr (is_complex_v<From> && std::is_same_v<To, bool>)
    return x.re != 0 || x.im != 0;
  else if constexpr (is_complex_v<From>)
    return cast<To>(x.re);
  else if constexpr (is_complex_v<To>)
    return To(cast<real_of<To>>(x));
  else if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (is_16_bit<To> && std::is_same_v<From, float>)
    return To(x);
  else if constexpr (is_16_bit<To>)
    return To(odd_float(x));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return truncated<To>(x);
  else
    return static_cast<To>(x);
}

template <class From, class To>
void convert(const void* src, void* dst, int64_t n) {
  const From* from = static_cast<const From*>(src);
  To* to = static_cast<To*>(dst);
  for (int64_t i = 0; i < n; ++i) to[i] = cast<To>(from[i]);
}

}  // namespace

ConvertFn find_convert(int32_t from, int32_t to) {
  ConvertFn found = nullptr;
  visit_dtype(from, [&](auto f) {
    visit_dtype(to, [&](auto t) { found = convert<decltype(f), decltype(t)>; });
  });
  return found;
}

}  // namespace gradus::cpu
