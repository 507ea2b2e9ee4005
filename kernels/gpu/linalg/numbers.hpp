// Arithmetic of real and complex numbers in the kernels of this room.
#pragma once
#include "kernels/gpu/linalg/linalg.hpp"
#include "ops/def/words_complex.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1::gpu {

template <class T>
__device__ inline T times(real_of<T> a, T x) {
  if constexpr (is_complex_v<T>)
    return {a * x.re, a * x.im};
  else
    return a * x;
}
template <class T>
__device__ inline T over(T x, real_of<T> a) {
  if constexpr (is_complex_v<T>)
    return {x.re / a, x.im / a};
  else
    return x / a;
}
template <class T>
__device__ inline bool is_finite(T x) {
  const real_of<T> zero = real_of<T>(0) * w::real(x) + real_of<T>(0) * w::imag(x);
  return zero == 0;
}
template <class T>
__device__ inline T not_a_number() {
  const real_of<T> nan = real_of<T>(NAN);
  if constexpr (is_complex_v<T>)
    return {nan, nan};
  else
    return nan;
}
template <class R>
constexpr R kUnit = R(sizeof(R) == 4 ? 0x1p-23 : 0x1p-52);
// |re| + |im|: between the modulus and its sqrt(2)-fold; for choices.
template <class T>
__device__ inline real_of<T> size_of(T x) {
  if constexpr (is_complex_v<T>)
    return w::abs(x.re) + w::abs(x.im);
  else
    return w::abs(x);
}
template <class T>
__device__ inline real_of<T> square_of(T x) {
  return w::real(x) * w::real(x) + w::imag(x) * w::imag(x);
}

}  // namespace gradus::gpu
