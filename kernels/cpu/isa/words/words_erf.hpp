// The error function. erf x is x + x P(x^2) near 0, then 1 - 2^Q(x). P and Q have one degree, so a
// batch evaluates one polynomial whose coefficients each lane chooses. erfc x is e^(-x^2) g(s) s
// with s = 1 / (x + 3), which keeps its digits down to the last subnormal. Polynomials by Remez
// (error below 2^-25 of f32, 2^-55 of f64).
#pragma once
#include "kernels/cpu/isa/words/words_exp.hpp"

namespace gradus::inline v1::cpu {

template <class T>
struct ErfTable;
template <>
struct ErfTable<float> {
  static constexpr float edge = 0.9375f, top = 3.95f;  // erf is 1 from top on
  static constexpr float P[] = {-0.000591941294260323f, 0.004979135002940893f,
                                -0.026757044717669487f, 0.11281552910804749f,
                                -0.37612468004226685f,  0.12837915122509003f};
  static constexpr float Q[] = {-0.0017625035252422094f, 0.02213786169886589f,
                                -0.13041019439697266f,   -0.9403797388076782f,
                                -1.6149753332138062f,    -0.0030266460962593555f};
  // (2^r - 1) / r; fewer digits do where 2^r is taken from 1.
  static constexpr float c[] = {0.0013264541048556566f, 0.009671482257544994f, 0.05550733581185341f,
                                0.24022243916988373f, 0.6931470036506653f};
};
template <>
struct ErfTable<double> {
  static constexpr double edge = 1.125, top = 5.95;
  static constexpr double P[] = {
      -1.5410354063821444e-14, 3.948255795865484e-13,   -6.576492753585451e-12,
      9.398637865914235e-11,   -1.2287480994656324e-09, 1.4806907081732284e-08,
      -1.6365825131382447e-07, 1.6462113379903413e-06,  -1.4925650322154814e-05,
      0.00012055332980836537,  -0.0008548327023433508,  0.005223977625441981,
      -0.02686617064513124,    0.11283791670955126,     -0.37612638903183754,
      0.1283791670955126};
  static constexpr double Q[] = {
      -8.153324781551324e-12,  -2.366050284092899e-12, 6.841194232771081e-09,
      -1.6761233038909974e-07, 2.1571372668731672e-06, -1.828839251601602e-05,
      0.00011098865289449731,  -0.000497577584417768,  0.0016272849723708782,
      -0.003452602774995648,   0.0013050457204921866,  0.02683722099309206,
      -0.1478473449649361,     -0.9186109034638722,    -1.6278681939421022,
      -4.322354343654088e-06};
  static constexpr const double (&c)[11] = ExpTable<double>::c;
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
  const Batch<T> a = magnitude<T>(x), one(T(1)), round(Form<T>::round);
  const BatchMask<T> near = a < Batch<T>(P::edge);
  const Batch<T> t = xsimd::select(near, a * a, xsimd::min(Batch<T>(P::top), a));
  const Batch<T> p = polynomial_of<T>(near, P::P, P::Q, t);
  const Batch<T> shifted = p + round, r = p - (shifted - round);
  const Batch<T> n = from_bits<T>((bits<T>(shifted) << Form<T>::mantissa) + Form<T>::one);
  const Batch<T> far = fused_minus<T>(n, fused<T>(polynomial<T>(P::c, r), r, one), one);
  return signed_as<T>(xsimd::select(near, fused<T>(a, p, a), far), x);
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
