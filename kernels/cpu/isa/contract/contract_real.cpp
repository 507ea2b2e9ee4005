// contract for f32 and f64, and for f16 and bf16 through f32: the sum-product algebra with tiles of
// fused multiply-adds. k is cut in equal blocks of at most kKc; an element of out is, for each
// block upwards, one tile sum, so its bits depend on the k axes alone. Here: which operand gives
// rows and which columns, small products, and batches.
#include "kernels/cpu/isa/contract/contract_few.hpp"
#include "kernels/cpu/isa/contract/side_by_side.hpp"

namespace gradus::inline v1::cpu {
namespace {

constexpr int64_t kL1 = 40 << 10;  // bytes of an operand that stays where it lies

// In is what a and b hold, R what is added up and what out holds.
template <class In, class R>
class Matmul {
 public:
  using B = Batch<R>;
  using Big = Large<In, R>;
  static constexpr int64_t kWidth = Big::kWidth, kNr = Big::kNr, kKc = Big::kKc;
  static constexpr bool kSame = Big::kSame;

  // Blocks and ways for x, whose columns are n.
  static void plan(Contraction& x) {
    const int64_t m = x.m.count, n = x.n.count, k = x.k.count, bytes = int64_t(sizeof(R));
    x.rows[0] = panels(m, panels(m, kRows1));
    x.rows[1] = panels(m, panels(m, kRows));
    x.flat = x.m.even() && x.n.even() && x.n.unit(kOut);
    const bool even = kSame && x.m.even() && x.n.even() && x.k.even();
    x.direct_a = even && (m * k * bytes <= kL1 || n <= 2 * kNr);
    x.direct_b = even && x.n.unit(kB) && (k * n * bytes <= kL1 || m <= 2 * kRows);
    if (kSame && even) x.small = plan_element(x);
  }

  // A batch element as a small product.
  static bool plan_element(Contraction& x) {
    SmallProduct p;
    p.m = x.m.count;
    p.n = x.n.count;
    p.k = x.k.count;
    p.a_m = x.m.step(kA);
    p.a_k = x.k.step(kA);
    p.b_k = x.k.step(kB);
    p.b_n = x.n.step(kB);
    p.out_m = x.m.step(kOut);
    p.out_n = x.n.step(kOut);
    p.bias_m = x.m.step(kBias);
    p.bias_n = x.n.step(kBias);
    const bool small = plan_small(p, x.dtype);
    x.product = p;
    return small;
  }
};

// Multiplications of vectors, and what packing and scattering cost in their place, where columns
// run along n.
template <class T>
double cost(const Contraction& x, const Axes& m, const Axes& n, Role a, Role b) {
  constexpr int64_t kWidth = int64_t(Batch<T>::size);
  const double rows = double(m.count), columns = double(n.count), k = double(x.k.count);
  auto beside = [](const Axes& axes, Role r) { return axes.rank == 0 || axes.has_neighbours(r); };
  double c = rows * double(panels(n.count, kWidth)) * k;
  c += columns * k * (n.unit(b) ? 0 : x.k.unit(b) || beside(n, b) ? 0.5 : 1.5);
  c += rows * k * (x.k.unit(a) || beside(m, a) ? 0 : 1);
  constexpr double kScatter = 4;
  if (!n.unit(kOut)) c += kScatter * rows * columns * double(panels(x.k.count, Large<T, T>::kKc));
  return c;
}
// The axes of rows in the order that packing likes, and whether boxes of columns are to be turned.
void order_lines(Contraction& x) {
  constexpr int64_t kOften = 2048;  // rows in use with so many columns had better follow out
  if (x.m.rank > 1 && !x.k.unit(kA) && x.n.count < kOften)
    x.m.move(x.m.neighbours(kA), x.m.rank - 1);
  const int last = x.n.rank - 1, beside = x.n.neighbours(kB);
  x.turned = last < 1 || x.k.unit(kB) || beside == last ? -1 : beside;
}
// Few rows or columns beside an operand that would have to be packed.
template <class T>
void plan_few(Contraction& x) {
  x.few_rows = !x.direct_b && FewRows<T>::suits(x);
  const bool as_it_is = !x.direct_a && FewColumns<T>::suits(x, x.m, x.n, kA),
             swapped = !x.direct_b && !as_it_is && FewColumns<T>::suits(x, x.n, x.m, kB);
  if (!as_it_is && !swapped) return;
  const Axes &m = swapped ? x.n : x.m, &n = swapped ? x.m : x.n;
  if (x.few_rows && FewRows<T>::cost(x) <= FewColumns<T>::cost(x, m, n)) return;
  x.few_rows = false;
  x.few_columns = true;
  if (!swapped) return;
  x.swap();
  order_lines(x);
  Matmul<T, T>::plan(x);
}
template <class In, class R>
void orient_and_plan(Contraction& x) {
  const bool whole = x.n.unit(kB) && x.n.unit(kOut) && x.n.count % int64_t(Batch<R>::size) == 0;
  if (!whole && cost<R>(x, x.n, x.m, kB, kA) < cost<R>(x, x.m, x.n, kA, kB)) x.swap();
  order_lines(x);
  Matmul<In, R>::plan(x);
  if constexpr (std::is_same_v<In, R>)
    if (!x.small) plan_few<R>(x);
}

template <class T>
gd_status multiply_one(gd_device* d, const Contraction& x, const Operands& o, int64_t i) {
  const T *a = o.start<const T>(kA, x.batch, i), *b = o.start<const T>(kB, x.batch, i),
          *bias = o.start<const T>(kBias, x.batch, i);
  T* const out = o.start<T>(kOut, x.batch, i);
  if ((x.few_rows || x.few_columns) && o.alpha == c128(1) && o.beta == c128(0) && !bias)
    return x.few_rows ? FewRows<T>(d, x).run(a, b, out) : FewColumns<T>(d, x).run(a, b, out);
  if (!x.small) return Large<T, T>(d, x, o).run(a, b, out, bias);
  Operands one = o;
  one.data[kA] = const_cast<T*>(x.product.swapped ? b : a);
  one.data[kB] = const_cast<T*>(x.product.swapped ? a : b);
  one.data[kOut] = out;
  one.data[kBias] = const_cast<T*>(bias);
  x.product.run(x.product, one);
  return GD_OK;
}
template <class T>
gd_status multiply(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  return for_batches(d, x, e, [&](int64_t i) { return multiply_one<T>(d, x, o, i); });
}

template <class T>
gd_status multiply_side_by_side(gd_device* d, const Contraction& x, const Operands& o,
                                gd_error* e) {
  return SideBySide<T>::run(d, x, o, kBlock<T>, e,
                            [&](int64_t i) { return multiply_one<T>(d, x, o, i); });
}

// The sums stay in f32 until the one rounding at the end.
gd_status multiply_16_bit(gd_device* d, const Contraction& x, const Operands& o, gd_error* e) {
  const float alpha = float(o.alpha.re), beta = float(o.beta.re);
  const bool brain = x.dtype == GD_BF16;
  Operands sums = o;
  sums.alpha = c128(1);
  sums.beta = c128(0);
  return through_f32(
      d, x, o, e,
      [&](const Contraction& dense, const Operands&, float* sum, int64_t b) {
        return Large<uint16_t, float>(d, dense, sums)
            .run(o.start<const uint16_t>(kA, x.batch, b), o.start<const uint16_t>(kB, x.batch, b),
                 sum, nullptr);
      },
      [=](uint16_t& to, float sum, const uint16_t* bias) {
        float y = alpha * sum;
        if (beta != 0) y = y + beta * widen(to, brain);
        if (bias) y = y + widen(*bias, brain);
        to = narrow(y, brain);
      });
}

}  // namespace

void plan_real(Contraction& x) {
  if (x.dtype == GD_F64) {
    orient_and_plan<double, double>(x);
    x.run = SideBySide<double>::suits(x) ? multiply_side_by_side<double> : multiply<double>;
  } else {
    const bool half = x.dtype != GD_F32;
    half ? orient_and_plan<uint16_t, float>(x) : orient_and_plan<float, float>(x);
    x.run = half                          ? multiply_16_bit
            : SideBySide<float>::suits(x) ? multiply_side_by_side<float>
                                          : multiply<float>;
    x.conj_a = x.conj_b = x.dtype == GD_BF16;
  }
}

}  // namespace gradus::cpu
