// The slot normalize: the elements that share a mean are one line, computed in f64.
#include "kernels/reference/fold.hpp"
#include "kernels/reference/slots.hpp"

#include <cmath>
#include <optional>

namespace gradus::inline v1::reference {
namespace {

// One operand of x's sizes, its normalised axes last; `absent` stands for one that is left out.
class Operand {
 public:
  Operand(const Call& call, int k, const Layout& x, const Layout& mean, double absent)
      : absent_(absent) {
    if (!call.has_in(k)) return;
    const Layout v = call.in(k);
    call.expect_sizes("operand", v, x.sizes);
    call.expect_dtype("operand", v, x.dtype);
    walk_.emplace(lines_of(call, v, mean).in);
  }
  void read(double* to, int64_t n) {
    if (walk_) return walk_->read(to, n);
    for (int64_t i = 0; i < n; ++i) to[i] = absent_;
  }

 private:
  std::optional<Walk> walk_;
  double absent_;
};

}  // namespace

void normalize(Call& call) {
  constexpr const char* kNames[] = {"value", "given", "vjp"};
  const int32_t op = call.op();
  if (op < GD_NORM_VALUE || op > GD_NORM_VJP)
    call.refuse(GD_INVALID, "no normalisation has code %d", op);
  call.named(kNames[op]);
  const bool value = op == GD_NORM_VALUE, vjp = op == GD_NORM_VJP;
  call.expect(value ? 3 : 5, value ? 3 : 1, 1, 1);
  const Layout x = call.in(0), y = call.out(0);
  const Layout mean = value ? call.out(1) : call.in(3), var = value ? call.out(2) : call.in(4);
  if (!is_real_float(x.dtype))
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 f16 bf16 are", dtype_name(x.dtype));
  const DType wide = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  call.expect_sizes("output", y, x.sizes);
  if (y.dtype != wide) call.expect_dtype("output", y, x.dtype);
  call.expect_dtype("mean", mean, wide);
  call.expect_dtype("variance", var, wide);
  call.expect_sizes("variance", var, mean.sizes);
  if (vjp && !call.has_in(2)) call.refuse(GD_INVALID, "there is no cotangent");

  const Lines lines = lines_of(call, x, mean);
  const int64_t n = lines.length;
  Walk from(lines.in), to(lines_of(call, y, mean).in), means(lines.out),
      vars(lines_of(call, x, var).out);
  Operand weights(call, 1, x, mean, 1), others(call, 2, x, mean, 0);
  const auto h = make_line<double>(n), w = make_line<double>(n), b = make_line<double>(n);
  const double eps = call.number(0);
  const bool centred = call.integer(0) == 0;
  for (int64_t i = 0, count = mean.count(); i < count; ++i) {
    from.read(h.get(), n);
    weights.read(w.get(), n);
    others.read(b.get(), n);
    double m = 0, v = 0;
    if (value) {
      if (centred) m = fold(GD_SUM, h.get(), n) / double(n);
      for (int64_t k = 0; k < n; ++k) v += (h[k] - m) * (h[k] - m);
      v /= double(n);
      means.write(&m, 1);
      vars.write(&v, 1);
    } else {
      means.read(&m, 1);
      vars.read(&v, 1);
    }
    const double rstd = 1 / std::sqrt(v + eps);
    for (int64_t k = 0; k < n; ++k) h[k] = (h[k] - m) * rstd;
    if (vjp) {
      double sum = 0, dot = 0;
      for (int64_t k = 0; k < n; ++k) {
        b[k] *= w[k];
        sum += b[k];
        dot += b[k] * h[k];
      }
      if (!centred) sum = 0;
      for (int64_t k = 0; k < n; ++k)
        h[k] = rstd * (b[k] - sum / double(n) - h[k] * (dot / double(n)));
    } else {
      for (int64_t k = 0; k < n; ++k) h[k] = h[k] * w[k] + b[k];
    }
    to.write(h.get(), n);
  }
}

}  // namespace gradus::reference
