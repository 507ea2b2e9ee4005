// The slot normalize: the elements that share a mean are one line, computed in f64.
#include "kernels/reference/fold.hpp"
#include "kernels/reference/slots.hpp"

#include <cmath>
#include <optional>

namespace gradus::inline v1::reference {
namespace {

// What x is multiplied or shifted by, at x's sizes, its normalised axes last; `absent` stands for
// one that is left out.
class Factor {
 public:
  Factor(const gd_view* v, const gd_view& mean, double absent) : absent_(absent) {
    if (v) walk_.emplace(lines_of(*v, mean).in);
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
  const NormalizeCall c = expect_normalize(call);
  const Lines lines = lines_of(c.x, c.mean);
  const int64_t n = lines.length;
  Walk from(lines.in), to(lines_of(c.y, c.mean).in), means(lines.out), vars(c.var);
  Factor weights(c.operands[0], c.mean, 1), others(c.operands[1], c.mean, 0);
  const auto h = make_line<double>(n), w = make_line<double>(n), b = make_line<double>(n);
  const double eps = call.number(0);
  const bool centred = call.integer(0) == 0;
  for (int64_t i = 0, count = count_of(c.mean); i < count; ++i) {
    from.read(h.get(), n);
    weights.read(w.get(), n);
    others.read(b.get(), n);
    double m = 0, v = 0;
    if (c.value) {
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
    if (c.vjp) {
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
