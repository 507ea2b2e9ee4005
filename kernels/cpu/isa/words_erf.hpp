// The error function. erf x is x + x P(x^2) up to 1, then 1 - e^-Q(x). erfc x is e^(-x^2) g(s) s
// with s = 1 / (x + 3), which keeps its digits down to the last subnormal. Polynomials by Remez
// (error below 2^-29 of f32, 2^-56 of f64).
#pragma once
#include "kernels/cpu/isa/words_exp.hpp"

namespace gradus::cpu {

template <class T>
struct ErfTable;
template <>
struct ErfTable<float> {
  static constexpr float top = 4;  // erf is 1 from here on
  static constexpr float P[] = {7.889119297033176e-05f, -0.0008020845707505941f,
                                0.005189536605030298f,  -0.026854446157813072f,
                                0.11283600330352783f,   -0.3761262595653534f,
                                0.12837916612625122f};
  static constexpr float Q[] = {
      -0.00018557399744167924f, 0.002939607249572873f, -0.02180531807243824f,  0.10303737223148346f,
      0.6382256746292114f,      1.1270400285720825f,   0.00035371925332583487f};
};
template <>
struct ErfTable<double> {
  static constexpr double top = 6;
  static constexpr double P[] = {
      5.960685338520971e-11,   -1.137495573607015e-09, 1.466032872274226e-08,
      -1.6350396222864617e-07, 1.64610084778027e-06,   -1.4925595772180906e-05,
      0.0001205533113295582,   -0.0008548326981425542, 0.005223977624828431,
      -0.026866170645077875,   0.11283791670954885,    -0.3761263890318375,
      0.1283791670955126};
  static constexpr double Q[] = {
      4.865188296302495e-12,  -2.0203770957782872e-10, 3.890076219541629e-09,
      -4.593392749032493e-08, 3.695710324555391e-07,   -2.114831726755434e-06,
      8.578917515109204e-06,  -2.2533318396996647e-05, 1.952397218809836e-05,
      0.00013655383825459226, -0.0007730424738691921,  0.0019189448010197424,
      -0.0004135357051101226, -0.018988042720202134,   0.10270229019592705,
      0.6366440549402285,     1.1283739917504727,      5.132369390637237e-07};
};
// g by powers of s - 3/16, up to x = 10.6, for f32; of s - 1/16, from x = 0.5 to 28, for f64, whose
// last two coefficients stand apart, the last one as a sum.
inline constexpr double kErfcF32[] = {3254.0536023146296,  -193.58280245153082, -945.6599278209408,
                                      -190.42111261094726, 193.35502170229503,  175.99598438391533,
                                      80.85947624393324,   25.861556580948022,  6.278825559897276,
                                      1.1942899098533692};
inline constexpr double kErfcF64[] = {
    129303711.83237037,  -295568778.79321945, 292230871.66077185, -158385443.3363895,
    48395866.24824894,   -7644043.85368398,   811166.3311922622,  -271511.29557151493,
    9199.975206330346,   23577.723091921504,  6787.380514233876,  -1466.585596891769,
    -1787.9128564703333, -549.2360425942753,  87.69463659696468,  192.88278556450192,
    127.8709932802332,   60.69262290796303,   23.74621201960846,  8.096033116953688};
inline constexpr double kErfcLast[] = {2.4768655324055913, 0.6923507498337551,
                                       -2.4569909221700594e-17};

template <class T>
inline Batch<T> erf_of(Batch<T> x) {
  using P = ErfTable<T>;
  const Batch<T> a = magnitude<T>(x), one(T(1));
  const Batch<T> near = fused<T>(a, polynomial<T>(P::P, a * a), a);
  const Batch<T> t = xsimd::min(Batch<T>(P::top), xsimd::max(one, a));
  const Parts<T> e = exp_parts<T>(-polynomial<T>(P::Q, t));
  const Batch<T> far = fused<T>(-power_of_two<T>(e.exponent), e.fraction, one);
  return signed_as<T>(xsimd::select(a < one, near, far), x);
}

// f32 in f64: e^-x^2 needs no care there.
inline Batch<double> erfc_of_f32(Batch<double> x) {
  using B = Batch<double>;
  using E = ExpTable<double>;
  constexpr double q[] = {0.0001978631890906245, 0.001394376320931696, 0.008333502491147279,
                          0.0416663108376853,    0.1666666585873198,   0.5000000061224376};
  const B one(1.0), a = xsimd::min(B(10.6), magnitude<double>(x)), s = one / (a + B(3.0));
  const B g = polynomial<double>(kErfcF32, s - B(0.1875)), y = -(a * a);
  const B k = nearest<double>(y * B(E::log2_e)), r = fused<double>(k, B(-0.6931471805599453), y);
  const B e = fused<double>(fused<double>(polynomial<double>(q, r), r, one), r, one);
  const B tail = g * s * (e * power_of_two<double>(k));
  return xsimd::select(x < B(0.0), B(2.0) - tail, tail);
}

template <class T>
[[gnu::noinline]] Batch<T> erfc_of(Batch<T> x) {
  if constexpr (sizeof(T) == 4) {
    const Halves h = widened(x);
    const Batch<T> y = narrowed({erfc_of_f32(h.low), erfc_of_f32(h.high)});
    return xsimd::select(x == x, y, x);  // a NaN's sign may differ between the two halves' codes
  } else {
    using B = Batch<double>;
    using E = ExpTable<double>;
    const B one(1.0), a = xsimd::min(B(28.0), magnitude<double>(x));
    // |x| < 13/16: (1 - x) - x P, with what 1 - x loses.
    const Pair<double> head = fast_sum<double>(one, -x);
    const B near = head.hi + (head.lo - x * polynomial<double>(ErfTable<double>::P, x * x));
    // Every rounding on the way to e^(-a^2) g s is gathered in `rest`, relative to the whole. The
    // relative slope of g is about 6.
    const Pair<double> d = exact_sum<double>(a, B(3.0)), square = exact_product<double>(a, a);
    const B s = one / d.hi, u = s - B(0.0625);
    const B g2 = polynomial<double>(kErfcF64, u), c1(kErfcLast[0]), c0(kErfcLast[1]);
    const B g1 = fused<double>(g2, u, c1), g = fused<double>(g1, u, c0);
    const B g1_low = residual<double>(c1 - g1, -g2, u);
    const B g_low = residual<double>(c0 - g, -g1, u) + B(kErfcLast[2]);
    Pair<double> gs = exact_product<double>(g, s);
    gs.lo = fused<double>(fused<double>(g1_low, u, g_low), s, gs.lo);
    const B k = nearest<double>(square.hi * B(-E::log2_e));
    const B r1 = fused<double>(k, B(-E::ln2_hi), -square.hi), tail = k * B(E::ln2_lo);
    const B r = r1 - tail;
    const B lost = residual<double>(one, d.hi, s) - d.lo * s;
    const B lost_u = fused<double>(s, lost, (s - u) - B(0.0625));
    const Pair<double> e = fast_sum<double>(r, r * r * polynomial<double>(E::q, r));
    const B rest = (((r1 - r) - tail) + (e.lo - square.lo)) + fused<double>(B(6.0), lost_u, lost);
    const B e1 = e.hi + fused<double>(rest, e.hi, rest);
    const B far = scaled<double>(gs.hi + fused<double>(gs.hi, e1, gs.lo), k);
    const B y = xsimd::select(x < B(0.0), B(2.0) - far, far);
    return xsimd::select(a < B(0.8125), near, y);
  }
}

}  // namespace gradus::cpu
