// The words of statements for the batch types of this instruction set. The functions stand in
// words_*.hpp, made of tools in batch.hpp: accurate to 2 ulp, right for subnormals, infinities and
// NaN, and an element gives the same bits in any company. Rarer words go lane by lane through libm.
#pragma once
#include "kernels/cpu/isa/words/words_erf.hpp"
#include "kernels/cpu/isa/words/words_log.hpp"
#include "kernels/cpu/isa/words/words_trig.hpp"
#include "ops/def/words_scalar.hpp"

namespace gradus::inline v1 {

template <class T>
struct Words<xsimd::batch<T, cpu::Arch>> {
  using B = xsimd::batch<T, cpu::Arch>;
  using Mask = typename B::batch_bool_type;
  using Real = B;
  using One = Words<T>;

  static B exp(B x) { return cpu::exp_of<T>(x); }
  static B exp2(B x) { return cpu::exp2_of<T>(x); }
  static B expm1(B x) { return cpu::expm1_of<T>(x); }
  static B log(B x) { return cpu::log_of<T>(x); }
  static B log2(B x) { return cpu::log2_of<T>(x); }
  static B log10(B x) { return cpu::log10_of<T>(x); }
  static B log1p(B x) { return cpu::log1p_of<T>(x); }
  static B sqrt(B x) { return cpu::root<T>(x); }
  static B cbrt(B x) { return cpu::cbrt_of<T>(x); }
  static B pow(B a, B b) { return cpu::pow_of<T>(a, b); }
  static B sin(B x) { return cpu::sin_of<T>(x, One::sin); }
  static B cos(B x) { return cpu::cos_of<T>(x, One::cos); }
  static B tan(B x) { return cpu::tan_of<T>(x, One::tan); }
  static B tanh(B x) { return cpu::tanh_of<T>(x); }
  static B erf(B x) { return cpu::erf_of<T>(x); }
  static B erfc(B x) { return cpu::erfc_of<T>(x); }
#define GRADUS_EACH_LANE(name) \
  static B name(B x) { return cpu::each_lane(One::name, x); }
#define GRADUS_EACH_LANE2(name) \
  static B name(B a, B b) { return cpu::each_lane(One::name, a, b); }
  GRADUS_EACH_LANE(asin)
  GRADUS_EACH_LANE(acos)
  GRADUS_EACH_LANE(atan)
  GRADUS_EACH_LANE(sinh)
  GRADUS_EACH_LANE(cosh)
  GRADUS_EACH_LANE(asinh)
  GRADUS_EACH_LANE(acosh)
  GRADUS_EACH_LANE(atanh)
  GRADUS_EACH_LANE(erfinv)
  GRADUS_EACH_LANE(lgamma)
  GRADUS_EACH_LANE(digamma)
  GRADUS_EACH_LANE2(atan2)
  GRADUS_EACH_LANE2(hypot)
  GRADUS_EACH_LANE2(fmod)
  GRADUS_EACH_LANE2(floor_divide)
  GRADUS_EACH_LANE2(copysign)
  GRADUS_EACH_LANE2(polygamma)
#undef GRADUS_EACH_LANE
#undef GRADUS_EACH_LANE2
  static B floor(B x) { return xsimd::floor(x); }
  static B ceil(B x) { return xsimd::ceil(x); }
  static B round(B x) { return xsimd::nearbyint(x); }
  static B trunc(B x) { return xsimd::trunc(x); }
  static B abs(B x) { return xsimd::abs(x); }
  static B cabs(B x) { return xsimd::abs(x); }
  static B sign(B x) {
    const B zero(T(0));
    return xsimd::select(x > zero, B(T(1)), xsimd::select(x < zero, B(T(-1)), x));
  }
  // xsimd's != is false for NaN on AVX; the other comparisons are as they should be.
  static Mask ne(B a, B b) { return !(a == b); }
  // x86's own give their second operand where both are equal or one is NaN: one more comparison
  // mends that, or none where b is a constant.
#if defined(__SSE2__)
  static bool plain(B b) {
    const T first = T(b.data[0]);
    return __builtin_constant_p(first) && (first < T(0) || first > T(0));
  }
  static B min(B a, B b) {
    return plain(b) ? xsimd::min(b, a) : xsimd::select(a == a, xsimd::min(a, b), a);
  }
  static B max(B a, B b) {
    return plain(b) ? xsimd::max(b, a) : xsimd::select(a == a, xsimd::max(a, b), a);
  }
#else
  static B min(B a, B b) { return xsimd::select((a < b) | ne(a, a), a, b); }
  static B max(B a, B b) { return xsimd::select((b < a) | ne(a, a), a, b); }
#endif
  static Mask lt(B a, B b) { return a < b; }
  static Mask le(B a, B b) { return a <= b; }
  static Mask eq(B a, B b) { return a == b; }
  static B select(Mask m, B a, B b) { return xsimd::select(m, a, b); }
  static B conj(B x) { return x; }
  static B real(B x) { return x; }
  static B imag(B) { return B(T(0)); }
};

}  // namespace gradus
