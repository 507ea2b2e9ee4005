// Richardson's extrapolation over several steps.
#include "ops/audit/watch/differences.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradus::inline v1::audit {

namespace {
constexpr int kLevels = 4;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace

Slope slope(const std::function<Parts(double)>& f) {
  const Parts f0 = f(0);
  const size_t n = f0.size();
  Slope s{Parts(n), Parts(n, kInfinity)};
  Parts before(n);
  for (int level = 0; level < kLevels; ++level) {
    const double h = std::ldexp(1.0, -6 * (level + 1));
    const Parts up = f(h), down = f(-h), up2 = f(h / 2), down2 = f(-h / 2);
    for (size_t i = 0; i < n; ++i) {
      const double coarse = (up[i] - down[i]) / (2 * h), fine = (up2[i] - down2[i]) / h;
      const double now = (4 * fine - coarse) / 3;
      // How far the slopes to both sides lie apart: proportional to h where f is smooth, so that
      // this vanishes; constant at a kink.
      const double apart = (up[i] - 2 * f0[i] + down[i]) / h;
      const double apart2 = (up2[i] - 2 * f0[i] + down2[i]) / (h / 2);
      const double rounding = 8 * kEpsilon * std::abs(f0[i]) / h;
      const double error = 4 * std::abs(now - before[i]) + std::abs(2 * apart2 - apart) + rounding;
      if (level > 0 && error < s.error[i]) {
        s.value[i] = now;
        s.error[i] = error;
      }
      before[i] = now;
    }
  }
  return s;
}

}  // namespace gradus::audit
